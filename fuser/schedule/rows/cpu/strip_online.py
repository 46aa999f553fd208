"""Online softmax in a strip: sums of powers while the largest number of each row is being found.

    T1 folds T0 by maximum                 for each few elements: for each lane:
    T4 folds exp(T0 - T1) by add     ->      T1_before = T1; T4_round = 0
                                             T1 folds T0 by maximum, of each
                                             T4_round folds exp(T0 - T1) by add, of each
                                             T4 = T4 exp(T1_before - T1) + T4_round

The elements are read once, and are in registers while their powers are made. Source: M. Milakov,
N. Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Sweep
from fuser.schedule.rows.cpu.strip import LaneFold, Strip
from fuser.schedule.rows.powers import less_another
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Call, Expression, Literal, Ref, convert
from fuser.schedule.tree.folds import lowest_finite, neutral
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.names import block_name
from fuser.schedule.tree.statements import Lanes, Let


def swept_online(strip: Strip, largest: Sweep, sums: Sweep) -> list[Node]:
    """The loops of two sweeps of a softmax (`powers_pair`), together."""
    (fold,) = largest.folds
    held, _ = strip.lane_folds(sums)
    online = _Online(strip, LaneFold(fold, fold.dtype, in_blocks=False), tuple(held))
    return online.nodes(largest, sums)


@dataclass(frozen=True, slots=True)
class _Online:
    """Two such sweeps of a strip. A round is joined to what is `at_hand` of a sum: to the lanes, or
    to a block, which is joined to wider lanes."""

    strip: Strip
    largest: LaneFold
    sums: tuple[LaneFold, ...]

    def nodes(self, largest: Sweep, sums: Sweep) -> list[Node]:
        """The arrays, the loops, and what the folds come to."""
        loop = self._rounds(largest, sums)
        if any(held.in_blocks for held in self.sums):
            loop = self._in_blocks(loop)
        count, so_far = self.strip.lane.extent, self._so_far
        return [
            Lanes(so_far.name, so_far.dtype, count, lowest_finite(so_far.dtype)),
            *(held.array(held.lanes, count) for held in self.sums),
            *(self._array(held) for held in (self._before, *map(_round, self.sums))),
            loop,
            *(self._array(_result(held)) for held in (self.largest, *self.sums)),
            self.strip.each_row(self._results()),
        ]

    def _rounds(self, largest: Sweep, sums: Sweep) -> Loop:
        """The loop over elements, some of each row at a time."""
        axis, fold = sums.axes[-1], self.largest.fold
        code = less_another(sums, Ref(fold.name, fold.dtype), self._so_far).code
        joined = (held.joined_to(_round(held)) for held in self.sums)
        zeros = (_lane(_round(held), Literal(0, held.fold.dtype)) for held in self.sums)
        scaled = (self._scaled(held.at_hand, self._before, _round(held)) for held in self.sums)
        nodes = (
            _lane(self._before, self._so_far),
            *zeros,
            Loop(axis, Binding.OF_ROUND, (*largest.code, self.largest.joined())),
            Loop(axis, Binding.OF_ROUND, (*code, *joined)),
            *scaled,
        )
        return Loop(axis, Binding.UNROLLED, nodes, self.strip.parameters.unrolled_online)

    def _in_blocks(self, rounds: Loop) -> Loop:
        """Blocks of elements, each joined to the wider lanes when it is done."""
        before = dataclasses.replace(self._before, name=block_name(self._before.name))
        flushed = (self._scaled(held.lanes, before, held.block) for held in self.sums)
        nodes = (
            *(held.array(held.block, self.strip.lane.extent) for held in self.sums),
            self._array(before),
            self.strip.each_row([_lane(before, self._so_far)]),
            rounds,
            self.strip.each_row(flushed),
        )
        return Loop(rounds.axis, Binding.BLOCKS, nodes, self.strip.parameters.strip_block)

    @property
    def _so_far(self) -> Ref:
        """The largest number so far, or the lowest if there is none: a difference from it is a
        number."""
        return self.largest.lanes

    @property
    def _before(self) -> Ref:
        """What that was before a round."""
        return Ref(f"{self.largest.fold.name}_before", self.largest.kept)

    def _scaled(self, held: Ref, before: Ref, more: Ref) -> Let:
        """A sum as if its powers had been less the largest number so far, and more of them."""
        risen = Call("sub", (before, self._so_far), before.dtype)
        scale = convert(Call("exp_nonpositive", (risen,), before.dtype), held.dtype)
        scaled = Call("mul", (held, scale), held.dtype)
        return _lane(held, Call("add", (scaled, convert(more, held.dtype)), held.dtype))

    def _results(self) -> list[Let]:
        """What the folds come to. Without any number a row has no powers, as of its largest number
        there is one; their sum is NaN then."""
        largest, kept = _result(self.largest), self.sums[0].lanes
        none = neutral(self.largest.fold.operation, largest.dtype)
        is_none = Call("eq", (kept, Literal(0, kept.dtype)), DataType.Bool)
        found = Call("where", (is_none, none, self._so_far), largest.dtype)
        nan_if_none = Call("mul", (Literal(0, largest.dtype), largest), largest.dtype)
        results = [_lane(largest, found)]
        for held in self.sums:
            total = convert(held.lanes, held.fold.dtype)
            results.append(_lane(_result(held), Call("add", (total, nan_if_none), total.dtype)))
        return results

    def _array(self, held: Ref) -> Lanes:
        return self.strip.array(held.name, held.dtype)


def _round(sums: LaneFold) -> Ref:
    """The lanes of what a round adds to a sum."""
    return Ref(f"{sums.fold.name}_round", sums.fold.dtype)


def _result(held: LaneFold) -> Ref:
    return Ref(held.fold.name, held.fold.dtype)


def _lane(held: Ref, expression: Expression) -> Let:
    return Let(held.name, held.dtype, expression, in_lanes=True)
