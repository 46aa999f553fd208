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
from fuser.schedule.code.row_body import Code, Sweep, indices_in, names_in
from fuser.schedule.cuda_parameters import CudaRowParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.rewrites import affine_parts
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.loop_tree import Peel
from fuser.schedule.tree.row_statements import Keep, Kept, Running
from fuser.schedule.tree.statements import Load
from fuser.schedule.tree.vectors import (
    Access,
    elements_at_once,
    step_along,
    wanted_lanes,
    widest_lanes,
)


@dataclass(frozen=True, slots=True)
class Vectors:
    """`lanes` neighbouring points at a time, which are all there if `whole`. `pieces`: for accesses
    that are not aligned where the vectors of `peel` are, how many elements are moved at once."""

    lanes: int = 1
    whole: bool = True
    peel: Peel | None = None
    pieces: Mapping[Access, int] = field(default_factory=dict[Access, int])


def vectors_for(
    buffers: Buffers,
    sweeps: Sequence[Sweep],
    inner: Axis,
    parameters: CudaRowParameters,
    *,
    may_peel: bool,
    may_move: bool = False,
) -> Vectors:
    """How threads take the points of sweeps over one axis, the same in all of them.

    If they `may_peel`, the ends of a row may be left to single threads; then vectors `may_move`,
    and begin elsewhere in every row.
    """
    loads = [(n.tensor, n.at) for sweep in sweeps for n in consecutive_loads(sweep.code, inner)]
    stores = [(n.tensor, n.at) for sweep in sweeps for n in sweep.stores]
    stores = [access for access in stores if step_along(access[1], inner) == 1]
    accesses = tuple(dict.fromkeys((*loads, *stores)))

    most = parameters.max_lane_bytes
    lanes = widest_lanes(buffers, accesses, inner, most)
    fixed = Vectors(lanes, inner.extent % lanes == 0)
    if not may_peel:
        return fixed
    wanted = wanted_lanes(accesses, inner, most) if may_move else lanes
    if wanted == lanes and fixed.whole:
        return fixed
    return _Rows(buffers, inner, accesses, frozenset(stores), wanted).peeled() or fixed


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where `accesses` of `lanes` elements along `inner` start, from row to row."""

    buffers: Buffers
    inner: Axis
    accesses: tuple[Access, ...]
    stores: frozenset[Access]
    lanes: int

    def peeled(self) -> Vectors | None:
        """Vectors that start where the access is aligned with which most others are; None if no
        access may lead."""
        leaders = [access for access in self.accesses if self._may_lead(*access)]
        if not leaders:
            return None
        leader = max(leaders, key=self._gain)
        tensor, at = leader
        peel = Peel(tensor, at.without(self.inner), self._at_once(leader))
        apart = [access for access in self.accesses if not self._follows(access, leader)]
        return Vectors(self.lanes, True, peel, {a: self._piece(a, leader) for a in apart})

    def _may_lead(self, tensor: Value, at: Index) -> bool:
        """Whether it is in memory, and known before the sweep where the row begins."""
        return self.buffers.hold(tensor) and at.is_of_axes

    def _gain(self, leader: Access) -> int:
        """Bytes that are moved by whole accesses. Those of a store count twice: no cache makes a
        line of its pieces."""
        following = [access for access in self.accesses if self._follows(access, leader)]
        return sum(a[0].dtype.itemsize * (1 + (a in self.stores)) for a in following)

    def _follows(self, access: Access, leader: Access) -> bool:
        """Whether whole accesses are aligned wherever those of the leader are."""
        count = self._at_once(access)
        if count > self._at_once(leader):
            return False
        aligned = min(self._alignment(access), self._alignment(leader)) >= count
        difference = leader[1] + access[1] * -1
        return (
            aligned or self.buffers.lie_alike(access[0], leader[0])
        ) and difference.is_multiple_of(count)

    def _piece(self, access: Access, leader: Access) -> int:
        """Elements that are aligned together in every vector, where the leader's are."""
        both = (access, leader)
        count = min(map(self._at_once, both))
        while count > 1 and not all(self._starts_at(count, each) for each in both):
            count //= 2
        return count

    def _starts_at(self, count: int, access: Access) -> bool:
        """Whether every row starts at a multiple of `count` elements."""
        start = access[1].without(self.inner)
        return self._alignment(access) >= count and start.is_multiple_of(count)

    def _at_once(self, access: Access) -> int:
        """Elements of a vector that one access moves."""
        return elements_at_once(access[0].dtype.itemsize, self.lanes)

    def _alignment(self, access: Access) -> int:
        """Elements at a multiple of which the buffer of an access lies."""
        tensor, _ = access
        return self.buffers.alignment(tensor) // tensor.dtype.itemsize


def consecutive_loads(code: Sequence[Code], inner: Axis) -> list[Load]:
    """The loads of elements that are neighbours along `inner`."""
    return [node for node in divided(code, inner)[1] if isinstance(node, Load)]


def divided(
    code: Sequence[Code], inner: Axis, before: Iterable[str] = (), along: int = 1
) -> tuple[list[Code], list[Load | Keep | Kept]]:
    """What is the same for all lanes, and what moves consecutive elements, which lie in the order
    of the lanes or, if `along` is -1, from the last to the first; of what was made `before`, every
    lane has its own. What lanes compute, each keeps itself."""
    same: list[Code] = []
    moving: list[Load | Keep | Kept] = []
    varying = set(before)
    for node in code:
        depends = not varying.isdisjoint(names_in((node,)))
        if isinstance(node, Keep) and node.name not in {other.name for other in moving}:
            continue
        if isinstance(node, Keep | Kept) or (
            isinstance(node, Load) and step_along(node.at, inner) == along and not depends
        ):
            moving.append(node)
        elif not depends and not _follows(node, inner):
            same.append(node)
            continue
        varying.add(node.name)
    return same, moving


def _follows(node: Code, inner: Axis) -> bool:
    """Whether `node` is another at every point, or an index in it moves with `inner`."""
    parts = (part for index in indices_in(node) for part in affine_parts(index))
    return isinstance(node, Running) or any(part.coefficient(inner) for part in parts)
