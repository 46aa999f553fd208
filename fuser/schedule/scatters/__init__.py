"""Scatters: lists of points, rows that are added to, or additions in memory."""
