"""What the backward compares with its extreme is saved for it, not made again.

    forward     v = gelu(x), m = amax(v)
    backward    v == m: the gradient is shared out over the elements that equal it

Extremes of what is scattered to each place are gathered again before they are compared.

Saving only x and m would be cheaper, but parts of a graph that become different kernels, or that
torch runs, need not round v alike. If no element equalled m, the gradient would be 0 / 0.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

_aten: Any = torch.ops.aten
_EXTREMES = (_aten.amax.default, _aten.amin.default, _aten.max.default, _aten.min.default)
_EXTREMES_AT_PLACES = (_aten.scatter_reduce.two, _aten.index_reduce.default)
_EXACT = (
    *(_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default),
    *(_aten.unsqueeze.default, _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims),
    *(_aten.expand.default, _aten.permute.default, _aten.alias.default, _aten.clone.default),
    *(_aten._to_copy.default, torch.ops.prims.convert_element_type.default),
    *(_aten.abs.default, _aten.neg.default),
    *(_aten.gather.default, _aten.index_select.default, _aten.index.Tensor),
)
"""Formulas of derivatives may make these again of what the forward has."""


def save_compared(graph: Graph) -> None:
    """Mark what has to be saved in a joint graph, but for what a checkpoint is to make again."""
    for node in graph.find_nodes(op="call_function", target=_aten.eq.Tensor):
        sources = [_source(cast("Node", arg)) for arg in node.args]
        if any(map(_is_extreme, sources)):
            for source in sources:
                if source.op == "call_function":
                    source.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)


def _is_extreme(node: Node) -> bool:
    if node.target in _EXTREMES_AT_PLACES:
        return node.args[4] in ("amax", "amin")
    return node.target in _EXTREMES


def _source(node: Node) -> Node:
    """What makes the numbers of a node, which may have another type, shape or sign."""
    while node.target in _EXACT:
        node = cast("Node", node.args[0])
    return node
