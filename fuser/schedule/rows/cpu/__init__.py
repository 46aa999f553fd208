"""Rows on a processor: threads take rows, or share one; lanes lie along a row or across rows."""
