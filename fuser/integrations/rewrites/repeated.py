"""What a graph computes several times, computed once.

    a = mul(x, 2); b = mul(x, 2); c = sdpa(..., a); d = sdpa(..., b)    ->    a in place of b

Models make the same mask in every layer. Within a partition, definitions find it; but what a
partition leaves several times would be copied, since torch takes results for tensors of their own.
"""

from __future__ import annotations

import torch
from torch.fx import Graph

from fuser.integrations.aten import TABLE
from fuser.integrations.rewrites.readers import is_returned


def merge_repeated(graph: Graph) -> None:
    """Replace nodes that are equal to earlier ones. What is returned stays, and what is drawn."""
    first: dict[object, torch.fx.Node] = {}
    for node in graph.nodes:
        drawn = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if node.target not in TABLE or drawn or is_returned(node):
            continue
        # Nodes print as their names, and numbers as of their types.
        told = node.target, repr(node.args), repr(node.kwargs)
        same = first.setdefault(told, node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
