"""Reads and additions at places that a graph computes from nothing but numbers.

    arange(-1, 9), abs, sub       1, 0, 1, 2, ..., 6, 7, 6     x[1:2], x, x[6:7]        a reflection
    arange(16) * 0.5, to int64    0, 0, 1, 1, ..., 7, 7        each element twice       nearest
    (arange(16) + 0.5) / 2 ...    0, 0, 0, 1, 1, ..., 6, 7     x[0] thrice, ...         bilinear

Such places are a few pieces, in each of which they go on by one step, every element the same number
of times. So a read is a `cat` of slices, flips and repetitions, and what adds to zeros at such
places is a sum of pads: neither reads an index, and both are fused with what surrounds them.

Places that are rounded from floats are such a read of a range. A kernel that rounded them again
might contract a product and a sum, and come to the next one where they lie close to it: while what
is read has been decided here, weights would be those of another place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.node import map_arg

from fuser.integrations.fx.nodes import is_static, meta_of, tensor_of, values_of
from fuser.integrations.fx.open_sizes import sizes_of

_aten: Any = torch.ops.aten

MOST_PIECES = 8
"""More would be more code than an index is worth. Windows of images are up to seven wide."""

MOST_PLACES = 1 << 16
"""Of longer indices nothing is computed while a graph is compiled."""


@dataclass(frozen=True, slots=True)
class Piece:
    """first, first + step, ...: `count` numbers, each `repeats` times."""

    first: int
    step: int
    count: int
    repeats: int

    @property
    def length(self) -> int:
        return self.count * self.repeats

    @property
    def low(self) -> int:
        return min(self.first, self.first + (self.count - 1) * self.step)


def pieces_of(places: Sequence[int]) -> list[Piece] | None:
    """The places as pieces; None if there are none, or too many."""
    runs = [(place, len(list(run))) for place, run in itertools.groupby(places)]
    found: list[Piece] = []
    for place, repeats in runs:
        last = found[-1] if found else None
        if last is not None and last.repeats == repeats:
            step = place - last.first if last.count == 1 else last.step
            if place == last.first + last.count * step:
                found[-1] = Piece(last.first, step, last.count + 1, repeats)
                continue
        if len(found) == MOST_PIECES:
            return None
        found.append(Piece(place, 1, 1, repeats))
    return _with_longest(found) or None


def _with_longest(pieces: list[Piece]) -> list[Piece]:
    """The same places, what two pieces could have at the longer one: 511, 0, 1, 2, ... are 511
    alone, and the others."""
    for number, (one, other) in enumerate(itertools.pairwise(pieces)):
        last = one.first + (one.count - 1) * one.step
        continues = other.count > 1 and last == other.first - other.step
        if one.repeats == other.repeats and continues and 1 < one.count <= other.count:
            count = one.count - 1
            pieces[number] = Piece(one.first, one.step if count > 1 else 1, count, one.repeats)
            pieces[number + 1] = Piece(last, other.step, other.count + 1, other.repeats)
    return pieces


def places_of(index: Node, size: int) -> list[int] | None:
    """The places that an index names, if they are known and in range; else None."""
    numbers = _evaluated(index) if tensor_of(index).dtype in (torch.int64, torch.int32) else None
    if numbers is None:
        return None
    places = [place + size if place < 0 else place for place in numbers]
    return places if all(0 <= place < size for place in places) else None


def rounded_places(index: Node) -> Node | None:
    """Whole numbers [n] that are made of known floats, as a range read at them; None if they are
    not known, or more than a few pieces."""
    tensor = tensor_of(index)
    numbers = _evaluated(index) if tensor.dim() == 1 else None
    if not numbers:
        return None
    low = min(numbers)
    pieces = pieces_of([number - low for number in numbers])
    if pieces is None:
        return None
    options: Any = {"dtype": tensor.dtype, "device": tensor.device}
    ends = low, max(numbers) + 1
    whole = index.graph.call_function(_aten.arange.start_step, ends, options)
    whole.meta["val"] = tensor.new_empty(ends[1] - ends[0])
    return taken(whole, 0, pieces)


def _evaluated(node: Node) -> list[int] | None:
    """The elements of an integer tensor if no input leads to it."""
    needed: dict[Node, None] = {}
    pending = [node]
    while pending:
        wanted = pending.pop()
        if wanted in needed:
            continue
        if not _is_known(wanted):
            return None
        needed[wanted] = None
        pending += wanted.all_input_nodes
    values: dict[Node, Any] = {}
    with unset_fake_temporarily(), disable_proxy_modes_tracing():
        for each in (each for each in node.graph.nodes if each in needed):
            args, kwargs = map_arg((each.args, each.kwargs), values.__getitem__)
            if "device" in kwargs:
                kwargs = {**kwargs, "device": torch.device("cpu")}
            operation: Any = each.target
            values[each] = operation(*args, **kwargs)
        return values[node].flatten().tolist()


def _is_known(node: Node) -> bool:
    """Whether a node is a short tensor that its operands alone decide."""
    value, target = meta_of(node), node.target
    if not isinstance(value, torch.Tensor) or not isinstance(target, OpOverload):
        return False
    if not all(map(is_static, value.shape)) or value.numel() > MOST_PLACES:
        return False
    changes = target._schema.is_mutable  # pyright: ignore[reportPrivateUsage]
    return not changes and torch.Tag.nondeterministic_seeded not in target.tags


# -- nodes ---------------------------------------------------------------------------------------


def taken(x: Node, dim: int, pieces: Sequence[Piece]) -> Node:
    """`x` [..., size, ...] at the places of `pieces` along `dim`."""
    parts = [_piece_taken(x, dim, piece) for piece in pieces]
    return parts[0] if len(parts) == 1 else _call(_aten.cat.default, parts, dim)


def _piece_taken(x: Node, dim: int, piece: Piece) -> Node:
    size = tensor_of(x).shape[dim]
    pace, end = abs(piece.step), piece.low + (piece.count - 1) * abs(piece.step) + 1
    part = x
    if (piece.low, end, pace) != (0, size, 1):
        part = _call(_aten.slice.Tensor, x, dim, piece.low, end, pace)
    if piece.step < 0:
        part = _call(_aten.flip.default, part, [dim])
    if piece.repeats == 1:
        return part
    apart = _call(_aten.unsqueeze.default, part, dim + 1)
    shape = sizes_of(x)
    before, behind = shape[:dim], shape[dim + 1 :]
    wide = [*before, piece.count, piece.repeats, *behind]
    repeated = _call(_aten.expand.default, apart, wide)
    whole = [*before, piece.length, *behind]
    return _call(_aten.view.default, copied(repeated), whole)


def split(x: Node, first: int, count: int, sizes: Sequence[int]) -> Node:
    """`x` with so many of its dimensions, from the first of them on, as dimensions of `sizes`."""
    whole, shape = x if tensor_of(x).is_contiguous() else copied(x), sizes_of(x)
    return _call(_aten.view.default, whole, [*shape[:first], *sizes, *shape[first + count :]])


def copied(x: Node) -> Node:
    """`x` in memory of its own, in row-major order."""
    return _call(_aten.clone.default, x, memory_format=torch.contiguous_format)


def added(source: Node, dim: int, pieces: Sequence[Piece], size: int) -> Node:
    """Zeros [..., size, ...] to which `source` is added at the places of `pieces` along `dim`."""
    total: Node | None = None
    start = 0
    for piece in pieces:
        part = source
        if piece.length < tensor_of(source).shape[dim]:
            end = start + piece.length
            part = _call(_aten.slice.Tensor, source, dim, start, end)
        start += piece.length
        placed = _piece_placed(part, dim, piece, size, alone=len(pieces) == 1)
        total = placed if total is None else _call(_aten.add.Tensor, total, placed)
    assert total is not None
    return total


def _piece_placed(part: Node, dim: int, piece: Piece, size: int, *, alone: bool) -> Node:
    shape = sizes_of(part)
    if 1 < piece.repeats <= _FEW and not alone:
        part = _added_up(part, dim, piece)
    elif piece.repeats > 1:
        split = [*shape[:dim], piece.count, piece.repeats, *shape[dim + 1 :]]
        part = _call(_aten.reshape.default, part, split)
        part = _call(_aten.sum.dim_IntList, part, [dim + 1])
    if piece.step < 0:
        part = _call(_aten.flip.default, part, [dim])
    pace = abs(piece.step)
    end = piece.low + (piece.count - 1) * pace + 1
    if pace > 1:
        zeros = _zeros([*shape[:dim], size, *shape[dim + 1 :]], part)
        return _call(_aten.slice_scatter.default, zeros, part, dim, piece.low, end, pace)
    if (piece.low, end) == (0, size):
        return part
    behind = len(shape) - dim - 1
    return _call(_aten.constant_pad_nd.default, part, [*[0, 0] * behind, piece.low, size - end], 0)


_FEW = 4
"""Repetitions that are added one by one beside other pieces: a fold would be a kernel by itself."""


def _added_up(part: Node, dim: int, piece: Piece) -> Node:
    """The sum of each few neighbours, as a sum of slices."""
    firsts = range(piece.repeats)
    each = [_call(_aten.slice.Tensor, part, dim, n, piece.length, piece.repeats) for n in firsts]
    total = each[0]
    for other in each[1:]:
        total = _call(_aten.add.Tensor, total, other)
    return total


def _zeros(shape: Sequence[int | Node], like: Node) -> Node:
    """Zeros of another node's type, where that is."""
    tensor = tensor_of(like)
    options: Any = {"dtype": tensor.dtype, "device": tensor.device}
    zeros = like.graph.call_function(_aten.full.default, (shape, 0), options)
    zeros.meta["val"] = tensor.new_zeros(values_of(shape))
    return zeros


def _call(target: Any, *args: Any, **options: Any) -> Node:
    """A new node, with what it makes."""
    read: list[Node] = []
    map_arg(args, lambda node: read.append(node) or node)
    new = read[0].graph.call_function(target, args, options)
    new.meta["val"] = target(*values_of(args), **options)
    return new
