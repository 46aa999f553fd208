"""Rewrites of a traced graph, before it is divided into partitions."""
