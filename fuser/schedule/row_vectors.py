"""Neighbouring points of a row for one thread: how many, and how their memory is accessed.

    aligned    every row starts at a multiple of an access: whole vectors, 16 bytes at a time
    peeled     it does not: vectors start where memory is aligned, and the ends of a row are single
    fixed      vectors may not move: as many neighbours as are aligned in every row

Vectors start where one tensor needs it, the one with which most bytes are aligned. Others are
accessed in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fuser.ir.nodes import Value
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.expressions import IndexValue
from fuser.schedule.index import Axis, Index, affine_parts
from fuser.schedule.loop_tree import Peel
from fuser.schedule.row_body import Code, Sweep, names_in
from fuser.schedule.row_statements import Keep, Kept, Running
from fuser.schedule.statements import Let, Load
from fuser.schedule.vectors import (
    Access,
    Alignments,
    alignment_of,
    elements_at_once,
    step_along,
    wanted_lanes,
    widest_lanes,
)
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class Vectors:
    """`lanes` neighbouring points at a time, which are all there if `whole`. `pieces`: for accesses
    that are not aligned where the vectors of `peel` are, how many elements are moved at once."""

    lanes: int = 1
    whole: bool = True
    peel: Peel | None = None
    pieces: Mapping[Access, int] = field(default_factory=dict[Access, int])


def vectors_for(
    segment: Segment,
    sweeps: Sequence[Sweep],
    inner: Axis,
    alignments: Alignments,
    parameters: CudaRowParameters,
    *,
    may_peel: bool,
    may_move: bool = False,
) -> Vectors:
    """How threads take the points of sweeps over one axis, the same in all of them.

    The ends of a row may be left to single threads, and vectors begin elsewhere in every row.
    """
    loads = [(n.tensor, n.at) for sweep in sweeps for n in consecutive_loads(sweep.code, inner)]
    stores = [(n.tensor, n.at) for sweep in sweeps for n in sweep.stores]
    stores = [access for access in stores if step_along(access[1], inner) == 1]
    accesses = list(dict.fromkeys((*loads, *stores)))
    limits = parameters.vector_bytes, parameters.max_lane_bytes
    fixed = widest_lanes(segment, accesses, inner, alignments, *limits)
    lanes = wanted_lanes(accesses, inner, *limits) if may_peel and may_move else fixed
    rows = _Rows(segment, inner, alignments, lanes)
    leaders = [access for access in accesses if rows.may_lead(*access)]
    is_whole = lanes == fixed and inner.extent % lanes == 0
    if is_whole or not may_peel or not leaders:
        return Vectors(fixed, inner.extent % fixed == 0)

    def gain(leader: Access) -> int:
        """A store in pieces costs more than a load: no cache makes a line of them."""
        following = [access for access in accesses if rows.follows(access, leader)]
        return sum(t.dtype.itemsize * (1 + ((t, at) in stores)) for t, at in following)

    leader = max(leaders, key=gain)
    tensor, at = leader
    moved = elements_at_once(tensor.dtype.itemsize, lanes)
    pieces = {a: rows.piece(a, leader) for a in accesses if not rows.follows(a, leader)}
    return Vectors(lanes, True, Peel(tensor, _without(at, inner), moved), pieces)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where accesses of `lanes` elements along `inner` start, from row to row."""

    segment: Segment
    inner: Axis
    alignments: Alignments
    lanes: int

    def may_lead(self, tensor: Value, at: Index) -> bool:
        """Whether it is in memory, and known before the sweep where the row begins."""
        return tensor in self.segment.memory and all(isinstance(term, Axis) for term, _ in at.terms)

    def follows(self, access: Access, leader: Access) -> bool:
        """Whether whole accesses are aligned wherever those of the leader are."""
        (tensor, at), (leading, start) = access, leader
        size, own = tensor.dtype.itemsize, leading.dtype.itemsize
        count = elements_at_once(size, self.lanes)
        if count > elements_at_once(own, self.lanes):
            return False
        memory = self.segment.memory
        drawn = tensor not in memory
        beside = not drawn and memory[tensor].base is memory[leading].base and size == own
        aligned = self._alignment(access) >= count and self._alignment(leader) >= count
        difference = start + at * -1
        steps = (difference.constant, *(step for _, step in difference.terms))
        return (beside or aligned) and all(step % count == 0 for step in steps)

    def piece(self, access: Access, leader: Access) -> int:
        """Elements that are aligned together in every vector, where the leader's are."""
        both = (access, leader)
        count = min(elements_at_once(t.dtype.itemsize, self.lanes) for t, _ in both)
        while count > 1 and not all(self._starts_at(count, each) for each in both):
            count //= 2
        return count

    def _starts_at(self, count: int, access: Access) -> bool:
        """Whether every row starts at a multiple of `count` elements."""
        at = _without(access[1], self.inner)
        steps = (at.constant, *(step for _, step in at.terms))
        return self._alignment(access) >= count and all(step % count == 0 for step in steps)

    def _alignment(self, access: Access) -> int:
        """Elements at a multiple of which the buffer of an access lies."""
        tensor, _ = access
        return alignment_of(tensor, self.segment, self.alignments) // tensor.dtype.itemsize


def _without(at: Index, axis: Axis) -> Index:
    return Index(at.constant, tuple(term for term in at.terms if term[0] != axis))


def consecutive_loads(code: Sequence[Code], inner: Axis) -> list[Load]:
    """The loads of elements that are neighbours along `inner`."""
    return [node for node in divided(code, inner)[1] if isinstance(node, Load)]


def divided(
    code: Sequence[Code], inner: Axis, before: Iterable[str] = ()
) -> tuple[list[Code], list[Load | Keep | Kept]]:
    """What is the same for all lanes, and what moves consecutive elements; of what was made
    `before`, every lane has its own. What lanes compute, each keeps itself."""
    same: list[Code] = []
    moving: list[Load | Keep | Kept] = []
    varying = set(before)
    for node in code:
        depends = not varying.isdisjoint(names_in((node,)))
        if isinstance(node, Keep) and node.name not in {other.name for other in moving}:
            continue
        if isinstance(node, Keep | Kept) or (
            isinstance(node, Load) and step_along(node.at, inner) == 1 and not depends
        ):
            moving.append(node)
        elif not depends and not _follows(node, inner):
            same.append(node)
            continue
        varying.add(node.name)
    return same, moving


def _follows(node: Code, inner: Axis) -> bool:
    """Whether `node` is another at every point, or an index in it moves with `inner`."""
    if isinstance(node, Running):
        return True
    if isinstance(node, Load):
        at = node.at
    elif isinstance(node, Let) and isinstance(node.expression, IndexValue):
        at = node.expression.index
    else:
        return False
    return any(part.coefficient(inner) for part in affine_parts(at))
