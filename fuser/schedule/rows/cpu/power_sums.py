"""Sums of powers less a row's largest number, of which each is made where it is added.

    T3 = T0 - T1; T4 = exp_nonpositive(T3)      ->   T3 = T0 - T1
    T5 folds T4 by add                               T5 folds exp_nonpositive(T3) by add

A power that is only added need not be rounded first, and takes fewer operations. It may be less
exact where all that comes of the sum has 16 bits.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from fuser.schedule.code.lane_calls import are_narrow, read_exactly
from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep, contents, names_in
from fuser.schedule.code.widening import unwidened, widened_in
from fuser.schedule.rows.powers import powers_in, sums_in
from fuser.schedule.tree.expressions import Call, Expression, Ref
from fuser.schedule.tree.row_statements import Kept
from fuser.schedule.tree.statements import Let, Load, Store

_STEADY = frozenset(
    {
        *("abs", "add", "clamp", "exp_nonpositive", "maximum", "minimum", "mul", "neg"),
        *("reciprocal", "sub", "truediv", "where"),
    }
)
"""Functions that make no more of the error of a quotient by a sum, or of its logarithm. Powers of 0
are 1 exactly, so that these are as exact as what the sum exceeds 1 by."""


def add_powers(body: RowBody) -> RowBody:
    """`body` with such sums. Powers are of numbers that sweeps read: of what they compute, a
    compiler may round one sweep's otherwise than another's, and the largest may be exceeded."""
    exactly = None
    if are_narrow(store for sweep in body.sweeps for store in sweep.stores):
        exactly = _read_exactly(contents(body.sweeps))
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
    added = {name: power for name, power in sums_in(sweep, powers).items() if read[power] == 1}
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


def _read_exactly(nodes: Sequence[Code | Fold | Store]) -> set[str]:
    """The names of which something is made that would show a sum of narrow powers: of sums
    themselves, anything but a quotient or a logarithm."""
    sums = {node.name for node in nodes if isinstance(node, Fold)}
    seen: set[str] = set()
    logs: dict[str, Expression] = {}
    for node in nodes:
        match node:
            case Let(name, expression=Call("log", (Ref(of) as logged,))) if of in sums:
                logs[name] = logged
            case Let(expression=Call("add" | "sub", args)):
                seen.update(arg.name for arg in args if isinstance(arg, Ref) and arg.name in sums)
            case _:
                pass
    plain = [
        dataclasses.replace(node, expression=logs[node.name])
        if isinstance(node, Let) and node.name in logs
        else node
        for node in nodes
    ]
    return read_exactly(plain, _STEADY, seen)


def _powers(sweep: Sweep) -> dict[str, Call]:
    """By name, the powers of what a sweep reads less something."""
    widened = widened_in(sweep.code)
    given = {node.name for node in sweep.code if isinstance(node, Load | Kept)}
    powers = powers_in(sweep.code)
    of = {name: unwidened(power.value, widened) for name, power in powers.items()}
    read = (name for name, value in of.items() if isinstance(value, Ref) and value.name in given)
    return {name: powers[name].call for name in read}
