"""The code of a point, or of the sweeps of a row: what is traced of a segment, and rewritten."""
