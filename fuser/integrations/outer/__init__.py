"""The graph that is left: calls of partitions, and what torch runs between them."""
