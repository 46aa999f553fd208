"""Calls: what a plan allocates, launches and hands out."""
