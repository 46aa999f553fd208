"""Sizes of a node as arguments of other nodes: numbers, or nodes where tracing left them open.

    x Float [s0, 4], s0 an input of the graph                   ->   s0, 4
    x = relu(y) of y = convolution(...) Float [s0 // 2, 4]      ->   sym_size(y, 0), 4

A symbolic number would be printed by a name that the graph does not have.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fuser.integrations.fx.nodes import all_read_by, is_known, is_static, meta_of, tensor_of

_sym_size: Any = torch.ops.aten.sym_size.int


def sizes_of(x: Node) -> list[int | Node]:
    """The sizes of a node's tensor; nodes that are made stand where the graph inserts."""
    sizes = tensor_of(x).shape
    return [int(size) if is_static(size) else _node_of(size, x) for size in sizes]


def _node_of(size: Any, x: Node) -> Node:
    """An input that is this size of `x`; else the size of the first tensor that has it, of those
    that lead to `x`. That of `x` would divide what computes it from what reads the size."""
    inputs = x.graph.find_nodes(op="placeholder")
    numbers = (node for node in inputs if isinstance(meta_of(node), torch.SymInt))
    leading = all_read_by([x])
    in_order = (node for node in x.graph.nodes if node in leading)
    found = (_read_off(node, size) for node in (*numbers, *in_order))
    return next(node for node in found if node is not None)


def _read_off(node: Node, size: Any) -> Node | None:
    """A number's node, or the size of a tensor, that is `size` in every call."""
    value = meta_of(node)
    if isinstance(value, torch.SymInt):
        return node if is_known(value == size) else None
    for dim, other in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
        if is_known(other == size):
            made = node.graph.call_function(_sym_size, (node, dim))
            made.meta["val"] = other
            return made
    return None
