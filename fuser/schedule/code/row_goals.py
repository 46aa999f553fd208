"""What the rows of a segment are walked for, by level: folds, and stores that go with them.

    T1 = max of T0 over the row            level 0: fold T1
    T3 = sum of exp(T0 - T1)               level 1: fold T3
    T4 = exp(T0 - T1) / T3                 level 2: store T4
    T5 = sum of T4 over all rows           level 2: fold T5
    T6 = T5 * 2                            when all rows are done: store T6

The level of a value is how many folds of a row come one after the other before it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from fuser.ir.nodes import Reduce, Statement, Value, operands
from fuser.segmenter import Segment
from fuser.segmenter.atoms import AtomSet

Swept = tuple[int, ...]
"""The atoms of a sweep, sorted."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that a sweep is for: a reduction to fold, or a value to store."""

    level: int
    swept: Swept
    value: Value
    """What is computed at every point: the operand of `reduction`, or what is stored."""

    reduction: Statement | None = None


@dataclass(frozen=True, slots=True)
class Goals:
    """What the rows are walked for, and what is stored when all are done."""

    of_rows: tuple[Goal, ...]
    epilogue: tuple[Value, ...]

    def by_sweep(self) -> list[tuple[Swept, list[Goal]]]:
        """The atoms of every sweep, in the order of levels, and its goals."""

        def key(goal: Goal) -> tuple[int, Swept]:
            return goal.level, goal.swept

        groups = itertools.groupby(sorted(self.of_rows, key=key), key)
        return [(swept, list(own)) for (_, swept), own in groups]


def goals_of(segment: Segment, kept: AtomSet) -> Goals:
    """The goals of a segment whose rows are numbered by the atoms `kept`."""
    atoms = segment.atoms
    levels, after = _levels(segment, kept), _after_all_rows(segment, kept)
    goals: list[Goal] = []
    for statement in segment.fusion.statements:
        if isinstance(statement.op, Reduce):
            arg = statement.op.arg
            swept = tuple(sorted(atoms.of(arg) - kept))
            goals.append(Goal(levels[arg], swept, arg, statement))
    for value in segment.stores:
        if value not in after:
            swept, level = tuple(sorted(atoms.of(value) - kept)), levels[value]
            # It goes with what is done anyway, rather than in a sweep of its own.
            others = (goal.level for goal in goals if goal.swept == swept and goal.level >= level)
            goals.append(Goal(min(others, default=level), swept, value))
    return Goals(tuple(goals), tuple(value for value in segment.stores if value in after))


def _levels(segment: Segment, kept: AtomSet) -> dict[Value, int]:
    levels = dict.fromkeys(segment.fusion.inputs, 0)
    for statement in segment.fusion.statements:
        level = max((levels[v] for v in operands(statement.op) if v.is_tensor), default=0)
        if isinstance(statement.op, Reduce) and segment.atoms.of(statement.out) == kept:
            level += 1
        levels.update(dict.fromkeys(statement.outs, level))
    return levels


def _after_all_rows(segment: Segment, kept: AtomSet) -> set[Value]:
    """Folds over the rows, and what follows from them."""
    after: set[Value] = set()
    for statement in segment.fusion.statements:
        over_rows = isinstance(statement.op, Reduce) and segment.atoms.of(statement.out) != kept
        if over_rows or not after.isdisjoint(v for v in operands(statement.op) if v.is_tensor):
            after.update(statement.outs)
    return after
