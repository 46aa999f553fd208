"""Products on the processor whose results have rows that do not begin at cache lines.

    mm(a, b) Float [1024, 50257] (50257, 1)   ->   the same (50272, 1)
    returned as it is                         ->   returned as a contiguous copy

Writing them, the library splits every cache line over two, so large results get rows of whole
lines. Partitions read them as well as any; torch, and the caller, get a copy, which a partition
that reads the rows makes meanwhile.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx.nodes import hint, is_static, nbytes, tensor_of
from fuser.integrations.outer.product_library import runs_in_onednn
from fuser.integrations.rewrites.readers import readers_of, views_if
from fuser.runtime.calls.output_pool import POOLED_BYTES

_aten: Any = torch.ops.aten

LINE = 16
"""Elements of float32 in a cache line."""

SHORTEST_ROW = 512
"""Of shorter rows, lines would be a noticeable part of the memory."""

WORTH_A_COPY = 128
"""How long the sums are from which on more time is saved than a copy takes."""


def align_rows(graph: Graph, *, onednn: bool = False) -> None:
    """Change strides in place, and what follows from them; not of what `onednn` makes."""
    for node in list(graph.nodes):
        if node.target not in (_aten.mm.default, _aten.addmm.default) or not _begins_anywhere(node):
            continue
        if onednn and runs_in_onednn(node):  # whose results are contiguous
            continue
        read = readers_of(node)
        copied = read.torch or read.caller
        if not copied or _length_of_sums(node) >= WORTH_A_COPY:
            _align(node, copied)


def _begins_anywhere(node: Node) -> bool:
    """Whether it is a large float32 matrix whose rows are long and no whole cache lines."""
    result = tensor_of(node)
    if result.device.type != "cpu" or result.dtype != torch.float32:
        return False
    if not is_static(result.shape[1]) or not result.is_contiguous():
        return False
    row = result.shape[1]
    return row >= SHORTEST_ROW and row % LINE != 0 and nbytes(node) >= POOLED_BYTES


def row_for(length: int) -> int:
    """How far apart rows of a length should begin."""
    return -(-length // LINE) * LINE


def has_lines(result: torch.Tensor) -> bool:
    """Whether a product's result has been given rows of whole lines."""
    if result.dim() != 2 or result.stride(1) != 1 or not is_static(result.stride(0)):
        return False
    return result.stride(0) % LINE == 0


def _length_of_sums(node: Node) -> int:
    return hint(tensor_of(cast("Node", node.args[-1])).shape[0])


def _align(node: Node, copied: bool) -> None:
    """Give the rows of a product whole lines, unless a view of it would no longer be one."""
    if copied:
        _read_by_copy(node)
    result = tensor_of(node)
    row = row_for(result.shape[1])
    found = views_if(node, result.new_empty_strided(result.shape, (row, 1)))
    for view, tensor in (found or {}).items():
        view.meta["val"] = tensor


def _read_by_copy(node: Node) -> None:
    """Let all that reads a product read a contiguous copy of it."""
    with node.graph.inserting_after(node):
        copy = node.graph.call_function(
            _aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
        )
    copy.meta = dict(node.meta)
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
