"""Rows on a GPU: a team of threads for each row, and what it keeps of it."""
