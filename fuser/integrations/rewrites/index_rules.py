"""Rules for reads, and additions, at indices that follow from ranges and numbers alone.

    index_select(x, 3, arange(n))                          -> slice(x, 3, 0, n)
    index_put(full(0), [None, arange(n)], g, accumulate)   -> slice_scatter(full(0), g, 1, 0, n)
    index(x, [None, abs(arange(-1, n))])                   -> cat(slices of x): known_places.py

A range may have ends that are known at the call only; other places are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx import Node

from fuser.integrations.aten.moves import filled_with
from fuser.integrations.aten.row import arguments
from fuser.integrations.fx.nodes import (
    is_floating,
    is_known,
    is_static,
    same_numbers,
    tensor_of,
    value_of,
)
from fuser.integrations.rewrites.known_places import (
    Piece,
    added,
    copied,
    pieces_of,
    places_of,
    rounded_places,
    split,
    taken,
)
from fuser.integrations.rewrites.readers import needs_memory

_aten: Any = torch.ops.aten
Rule = Callable[[Node], Node | None]
"""What makes the node that replaces one, before it; None to leave it."""


@dataclass(frozen=True, slots=True)
class _Range:
    """What slice takes: numbers, or nodes of symbolic ones."""

    start: Any
    end: Any
    step: int


def _range_of(index: object, size: Any) -> _Range | None:
    """The range that an index is, if none of its places is below 0 or beyond `size`."""
    if not isinstance(index, Node) or index.target not in _RANGES:
        return None
    given = arguments(index)
    start, end, step = given.get("start", 0), given["end"], given.get("step", 1)
    if not isinstance(step, int) or step < 1 or tensor_of(index).is_floating_point():
        return None
    if is_floating(start) or is_floating(end):
        return None
    first, last = map(value_of, (start, end))
    ordered = all(map(is_known, (first >= 0, first <= last, last <= size)))
    return _Range(start, end, step) if ordered else None


_RANGES = (_aten.arange.default, _aten.arange.start, _aten.arange.start_step)


def _sliced(node: Node, x: Node, dim: int, index: object) -> Node | None:
    """Slices of `x` at a range; what is returned stays a copy."""
    tensor = tensor_of(x)
    if not tensor.dim() or needs_memory(node, x):
        return None
    found = _range_of(index, tensor.shape[dim])
    if found is None:
        return None
    args = (x, dim, found.start, found.end, found.step)
    new = x.graph.call_function(_aten.slice.Tensor, args)
    steps = slice(value_of(found.start), value_of(found.end), found.step)
    new.meta["val"] = tensor[(*[slice(None)] * (dim % tensor.dim()), steps)]
    return new


def _index_select(node: Node) -> Node | None:
    x, dim, index = cast("tuple[Node, int, Node]", node.args)
    return _sliced(node, x, dim, index) or _read_at_known(node, x, {dim: index})


def _index(node: Node) -> Node | None:
    x, indices = cast("tuple[Node, Sequence[Node | None]]", node.args)
    found = _only(indices)
    sliced = None if found is None else _sliced(node, x, *found)
    return sliced or _read_at_known(node, x, _one_by_one(indices))


def _rounded(node: Node) -> Node | None:
    """Known floats as whole numbers: see known_places.py."""
    source = node.args[0]
    is_rounded = isinstance(source, Node) and tensor_of(source).is_floating_point()
    return rounded_places(node) if is_rounded and tensor_of(node).dtype == torch.int64 else None


def _only(indices: Sequence[Node | None]) -> tuple[int, Node] | None:
    """The place of the only index among None."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return given[0] if len(given) == 1 else None


def _one_by_one(indices: Sequence[Node | None]) -> dict[int, Node]:
    """Indices of neighbouring dimensions, each of which goes along dimensions of its own of the
    result, in their order; none, if any does not.

        x[:, rows[:, :, None], columns]      rows [3, 64], columns [64]
    """
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    shapes = [tensor_of(index).shape for index in given.values()]
    if any(not is_static(size) for shape in shapes for size in shape):
        return {}
    rank = max(map(len, shapes))
    along = [rank - len(s) + dim for s in shapes for dim, size in enumerate(s) if size != 1]
    neighbours = list(given) == list(range(min(given), min(given) + len(given)))
    own = along == sorted(set(along))
    return given if neighbours and own and rank >= len(given) else {}


def _read_at_known(node: Node, x: Node, indices: Mapping[int, Node]) -> Node | None:
    """`x` read at places that are known, unless threads would have to find too many pieces."""
    found = _known_pieces(x, indices)
    if found is None or not (_is_cut(x) or _are_few(x, found)):
        return None
    read = x
    for dim, pieces in found.items():
        read = taken(read, dim, pieces)
    first, dims, shape = min(found), tensor_of(x).dim() - len(found), tensor_of(node).shape
    if len(shape) - dims > len(found):
        read = split(read, first, len(found), shape[first : first + len(shape) - dims])
    if _is_view(read, x):
        read = copied(read)
    return read if same_numbers(tensor_of(read).stride(), tensor_of(node).stride()) else None


def _is_cut(x: Node) -> bool:
    """Whether kernels over `x` have loops of their own for each piece of what is read."""
    return tensor_of(x).device.type == "cpu"


_MOST_INDICES = 2
"""Indices along a dimension that become pieces, each with pieces of its own, where a thread finds
out in which of them it is: of more, as of a bicubic image, it rather computes the indices. A kernel
of its 16 neighbours has 1,312 instructions so, and 6,576 by pieces."""


def _are_few(x: Node, found: Mapping[int, Sequence[Piece]]) -> bool:
    """Whether no dimension of `x` that is read in several pieces is read at many indices."""
    cut = (dim for dim, pieces in found.items() if len(pieces) > 1)
    return all(_indices_along(x, dim) <= _MOST_INDICES for dim in cut)


def _indices_along(x: Node, dim: int) -> int:
    """How many indices read `x` along a dimension."""
    found: set[Node | None] = set()
    for reader in x.users:
        if reader.target in (_aten.index.Tensor, _aten._unsafe_index.Tensor):
            indices = cast("Sequence[Node | None]", reader.args[1])
            found.add(indices[dim] if dim < len(indices) else None)
    return len(found - {None})


def _is_view(node: Node, x: Node) -> bool:
    """Whether a node has memory of another, which may be that of `x`."""
    if node is x or node.target in (_aten.slice.Tensor, _aten.expand.default):
        return True
    return node.target is _aten.view.default and _is_view(node.all_input_nodes[0], x)


def _known_pieces(x: Node, indices: Mapping[int, Node]) -> dict[int, list[Piece]] | None:
    """For each dimension, the pieces of its index; None if any is not known or has too many, or if
    `x` has no dimensions."""
    shape = tensor_of(x).shape
    if not shape:
        return None
    found: dict[int, list[Piece]] = {}
    for dim, index in indices.items():
        places = places_of(index, int(shape[dim])) if is_static(shape[dim]) else None
        pieces = pieces_of(places) if places is not None else None
        if pieces is None:
            return None
        found[dim % len(shape)] = pieces
    return found or None


def _index_put(node: Node) -> Node | None:
    given = arguments(node)
    x, indices, values, adds = (given[k] for k in ("self", "indices", "values", "accumulate"))
    if adds and filled_with(x) != 0:
        return None
    found = _only(indices)
    placed = None if found is None else _placed(node, x, *found, values)
    if placed is not None or not adds:
        return placed
    return _added_at_known(node, x, _one_by_one(indices), values)


def _index_add(node: Node) -> Node | None:
    given = arguments(node)
    if filled_with(given["self"]) != 0 or given["alpha"] != 1:
        return None
    x, dim, index, source = (given[name] for name in ("self", "dim", "index", "source"))
    placed = _placed(node, x, dim, index, source)
    return placed or _added_at_known(node, x, {dim: index}, source)


def _added_at_known(node: Node, x: Node, indices: Mapping[int, Node], source: Node) -> Node | None:
    """`source` added to zeros of the sizes of `x` at places that are known."""
    old, new = tensor_of(x), tensor_of(source)
    found = _known_pieces(x, indices)
    if found is None or new.dtype != old.dtype or new.dim() != old.dim():
        return None
    length = {dim: sum(piece.length for piece in pieces) for dim, pieces in found.items()}
    if not same_numbers(new.shape, [length.get(dim, size) for dim, size in enumerate(old.shape)]):
        return None
    total = source
    for dim, pieces in reversed(found.items()):
        total = added(total, dim, pieces, int(old.shape[dim]))
    return total if same_numbers(tensor_of(total).stride(), tensor_of(node).stride()) else None


def _placed(node: Node, x: Node, dim: int, index: object, source: Node) -> Node | None:
    """`source` written at a range of `x`, or added where that is zeros."""
    if not tensor_of(x).dim():
        return None
    found = _range_of(index, tensor_of(x).shape[dim])
    read = tensor_of(source)
    if found is None or read.dim() != tensor_of(x).dim() or read.dtype != tensor_of(x).dtype:
        return None
    place = torch.empty_like(tensor_of(x))
    steps = slice(value_of(found.start), value_of(found.end), found.step)
    place = place[(*[slice(None)] * (dim % place.dim()), steps)]
    if not same_numbers(place.shape, read.shape):
        return None
    args = (x, source, dim, found.start, found.end, found.step)
    return node.graph.call_function(_aten.slice_scatter.default, args)


INDEX_RULES: Mapping[Any, Rule] = {
    _aten.index_select.default: _index_select,
    _aten.index.Tensor: _index,
    _aten._unsafe_index.Tensor: _index,
    _aten.index_put.default: _index_put,
    _aten._unsafe_index_put.default: _index_put,
    _aten.index_add.default: _index_add,
    _aten._to_copy.default: _rounded,
    torch.ops.prims.convert_element_type.default: _rounded,
}
