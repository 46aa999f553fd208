"""Rewrites of ATen graphs before they are divided.

On the joint graph, where forward and backward still see each other: a range that is saved for the
backward is a tensor like any other there.
"""

from __future__ import annotations

from torch.fx import GraphModule


def rewrite_graph(module: GraphModule) -> None:
    """Rewrite in place."""
