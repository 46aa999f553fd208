"""Sums of powers less a row's largest number, of which each is made where it is added.

    T3 = T0 - T1; T4 = exp_nonpositive(T3)      ->   T3 = T0 - T1
    T5 folds T4 by add                               T5 folds exp_nonpositive(T3) by add

A power that is only added need not be rounded first, and takes fewer operations. It may be less
exact where all that comes of the sum has 16 bits.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from fuser.ir.dtypes import DataType
from fuser.schedule.expressions import Call, Ref
from fuser.schedule.lane_calls import are_narrow, read_exactly
from fuser.schedule.row_body import RowBody, Sweep, contents, names_in
from fuser.schedule.row_statements import Kept
from fuser.schedule.statements import Let, Load
from fuser.schedule.widening import unwidened, widened_in

_STEADY = frozenset({"exp", "exp_nonpositive", "log", "log10", "log2"})
"""Functions of a sum that make no more of its error: powers of 0 are 1 exactly, so that a sum is as
exact as what it exceeds 1 by."""


def add_powers(body: RowBody) -> RowBody:
    """`body` with such sums. Powers are of numbers that sweeps read: of what they compute, a
    compiler may round one sweep's otherwise than another's, and the largest may be exceeded."""
    exactly = None
    if are_narrow(store for sweep in body.sweeps for store in sweep.stores):
        exactly = read_exactly(contents(body.sweeps), _STEADY)
    stages = tuple(_added(sweep, narrow_but=exactly) for sweep in body.stages)
    return dataclasses.replace(body, stages=stages)


def _added(sweep: Sweep, narrow_but: set[str] | None) -> Sweep:
    """A sweep with sums of powers. These are narrow, if so much is given, but for some names."""

    def made(name: str) -> Call:
        power = powers[name]
        narrow = narrow_but is not None and name not in narrow_but
        return dataclasses.replace(power, op=f"{power.op}_narrow") if narrow else power

    powers = _powers(sweep)
    read = Counter(names_in(contents([sweep])))
    added = {
        fold.name: fold.value.name
        for fold in sweep.folds_of_row
        if fold.operation == "add" and isinstance(fold.value, Ref) and fold.value.name in powers
    }
    added = {name: power for name, power in added.items() if read[power] == 1}
    folds = (
        dataclasses.replace(fold, value=made(added[fold.name])) if fold.name in added else fold
        for fold in sweep.folds
    )
    code = (
        dataclasses.replace(node, expression=made(node.name)) if node.name in powers else node
        for node in sweep.code
        if node.name not in added.values()
    )
    return dataclasses.replace(sweep, code=tuple(code), folds=tuple(folds))


def _powers(sweep: Sweep) -> dict[str, Call]:
    """By name, the powers of what a sweep reads less something."""
    widened = widened_in(sweep.code)
    given = {node.name for node in sweep.code if isinstance(node, Load | Kept)}
    less: set[str] = set()
    powers: dict[str, Call] = {}
    for node in sweep.code:
        match node:
            case Let(name, expression=Call("sub", (value, _))):
                if isinstance(of := unwidened(value, widened), Ref) and of.name in given:
                    less.add(name)
            case Let(name, DataType.Float, Call("exp_nonpositive", (Ref(of),)) as power):
                if of in less:
                    powers[name] = power
            case _:
                pass
    return powers
