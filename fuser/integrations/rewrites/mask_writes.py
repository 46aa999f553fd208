"""Writes of one value at the places of a mask, as choices.

    x[mask] = value     ->   x.copy_(where(mask, value, x))

The gradient of the value would be a sum over what the mask selects, of which torch knows the size
only afterwards, and so gives up the graph; of a choice it is a sum over all places. Values without
a gradient are left to `aten/masks.py`.

This is done to Dynamo's graph, since AOTAutograd asks for the gradient while it traces.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import cast

import torch
from torch.fx import GraphModule, Node

from fuser.integrations.aten.masks import gives_one_value


def choose_by_masks(module: GraphModule) -> None:
    """Replace the writes of a graph of Dynamo that give every place of a mask the same."""
    writes = module.graph.find_nodes(op="call_function", target=operator.setitem)
    found = [(node, arguments) for node in writes if (arguments := _choice(node)) is not None]
    for node, arguments in found:
        node.target, node.args = written, arguments
    if found:
        module.recompile()


def written(x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor, behind: int) -> None:
    """Write a value where a mask says so, which covers all but the last dimensions, `behind`."""
    for _ in range(mask.dim() - 1 if value.dim() > behind else 0):
        # Its dimension of one place stands for all those of the mask.
        value = value.unsqueeze(-1 - behind)
    for _ in range(behind):
        mask = mask.unsqueeze(-1)
    x.copy_(torch.where(mask, value.to(x.dtype), x))


def _choice(node: Node) -> tuple[Node, Node, Node, int] | None:
    """The arguments of `written`; None if it is another write."""
    x, index, value = node.args
    before, mask = _mask_of(index)
    into, over, given = _example(x), _example(mask), _example(value)
    if into is None or over is None or given is None:
        return None
    if not given.requires_grad or not gives_one_value(into, before, over, given):
        return None
    if given.dim() and given.dtype is not into.dtype:
        return None  # torch refuses it
    behind = into.dim() - before - over.dim()
    return cast("Node", x), cast("Node", mask), cast("Node", value), behind


def _example(argument: object) -> torch.Tensor | None:
    """What Dynamo saw of a tensor."""
    found = argument.meta.get("example_value") if isinstance(argument, Node) else None
    return found if isinstance(found, torch.Tensor) else None


def _mask_of(index: object) -> tuple[int, object]:
    """How many dimensions stand before a mask, and the mask, if all else is taken whole."""
    parts = cast("Sequence[object]", index if isinstance(index, tuple) else (index,))
    given = [at for at, part in enumerate(parts) if part != slice(None)]
    return (given[0], parts[given[0]]) if len(given) == 1 else (0, None)
