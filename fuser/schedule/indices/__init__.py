"""Index arithmetic: where the points of a loop lie, and at which coordinates operations read."""
