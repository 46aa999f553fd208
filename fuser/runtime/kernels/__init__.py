"""Compiled kernels: what any target makes, takes of a machine, and keeps for later."""
