"""Rows: what is swept, folded and scanned, by every target alike."""
