"""The two sweeps of a softmax: a row's largest number, and a sum of powers less it.

    sweep   T1 folds T0 by maximum
    sweep   T3 = exp(T0 - T1); T4 folds T3 by add

What is summed less another number is as good, once it is scaled: the second sweep need not wait for
the first. Source: M. Milakov, N. Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.expressions import Call, Expression, Ref
from fuser.schedule.resolve import replaced
from fuser.schedule.row_body import Code, Fold, Sweep, names_in
from fuser.schedule.row_statements import Kept
from fuser.schedule.statements import Let, Load


def powers_pair(stages: Sequence[Sweep]) -> tuple[Sweep, Sweep] | None:
    """The first two such sweeps, one after the other, over one axis. What is done once between them
    may as well be done after them."""
    sweeps = [(at, sweep) for at, sweep in enumerate(stages) if sweep.axes]
    for (at, largest), (end, sums) in itertools.pairwise(sweeps):
        between = {node.name for stage in stages[at + 1 : end] for node in stage.code}
        if between.isdisjoint(names_in(sums.code)) and _are_pair(largest, sums):
            return largest, sums
    return None


def powers_of(largest: Sweep, sums: Sweep) -> set[str]:
    """The powers that the second of such sweeps makes."""
    (fold,) = largest.folds
    differences = {node.name for node in sums.code if _is_difference(node, fold.name)}
    return {node.name for node in sums.code if _is_power(node, differences)}


def less_another(sums: Sweep, largest: Ref, other: Ref) -> Sweep:
    """The second of such sweeps, of powers less `other`."""
    known = {largest.name: other}
    code = (
        dataclasses.replace(node, expression=replaced(node.expression, known))
        if isinstance(node, Let)
        else node
        for node in sums.code
    )
    return dataclasses.replace(sums, code=tuple(code))


def _are_pair(largest: Sweep, sums: Sweep) -> bool:
    if len(sums.axes) != 1 or sums.axes != largest.axes or not largest.folds:
        return False
    fold, *others = largest.folds
    if others or fold.operation != "maximum" or fold.dtype is not DataType.Float:
        return False
    plain = all(isinstance(node, Load | Kept | Let) for node in (*largest.code, *sums.code))
    stored = largest.stores or sums.stores
    return plain and not stored and bool(sums.folds) and _only_powers(fold, sums)


def _only_powers(largest: Fold, sums: Sweep) -> bool:
    """Whether all that a sweep makes of a row's largest value is sums of powers less it."""
    differences = {node.name for node in sums.code if _is_difference(node, largest.name)}
    powers = {node.name for node in sums.code if _is_power(node, differences)}
    others = (node for node in sums.code if node.name not in differences | powers)
    held = {largest.name, *differences, *powers}
    return held.isdisjoint(names_in(others)) and all(
        fold.operation == "add" and fold.slots is None and _is_one_of(fold.value, powers)
        for fold in sums.folds
    )


def _is_difference(node: Code, largest: str) -> bool:
    """Whether a node is something less the largest value."""
    match node:
        case Let(expression=Call("sub", (Ref(name), Ref(subtracted)))):
            return subtracted == largest and name != largest
        case _:
            return False


def _is_power(node: Code, differences: set[str]) -> bool:
    """Whether a node is e to a difference that is not positive."""
    match node:
        case Let(expression=Call("exp_nonpositive", (Ref(name),))):
            return name in differences
        case _:
            return False


def _is_one_of(value: Expression, names: set[str]) -> bool:
    return isinstance(value, Ref) and value.name in names
