"""Powers of a softmax, and its two sweeps: a row's largest number, and a sum of powers less it.

    sweep   T1 folds T0 by maximum
    sweep   T3 = exp_nonpositive(T0 - T1); T4 folds T3 by add

That an exponent is not positive is found by `facts.py` alone; the operation says so to all that
come after. What is summed less another number is as good, once it is scaled: the second sweep need
not wait for the first. Source: M. Milakov, N. Gimelshein, Online normalizer calculation for
softmax, 2018.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.resolve import lets_replaced
from fuser.schedule.code.row_body import Code, Fold, Sweep, names_in
from fuser.schedule.tree.expressions import Call, Expression, Ref
from fuser.schedule.tree.row_statements import Kept
from fuser.schedule.tree.statements import Let, Load


@dataclass(frozen=True, slots=True)
class Power:
    """What a `call` makes: e to the `difference` of `value` and `largest`."""

    call: Call
    difference: str
    value: Expression
    largest: Expression


def powers_in(code: Iterable[Code]) -> dict[str, Power]:
    """By name, the powers of softmaxes that code makes."""
    differences: dict[str, tuple[Expression, ...]] = {}
    powers: dict[str, Power] = {}
    for node in code:
        match node:
            case Let(name, expression=Call("sub", args)):
                differences[name] = args
            case Let(name, expression=Call("exp_nonpositive", (Ref(of),)) as call):
                if of in differences:
                    powers[name] = Power(call, of, *differences[of])
            case _:
                pass
    return powers


def sums_in(sweep: Sweep, powers: Container[str]) -> dict[str, str]:
    """The folds of a sweep that are sums of `powers`, by name, and of which power each is."""
    return {
        fold.name: fold.value.name
        for fold in sweep.folds_of_row
        if fold.operation == "add" and isinstance(fold.value, Ref) and fold.value.name in powers
    }


def powers_pair(stages: Sequence[Sweep]) -> tuple[Sweep, Sweep] | None:
    """The first two such sweeps, one after the other, over one axis. What is done once between them
    may as well be done after them."""
    sweeps = [(at, sweep) for at, sweep in enumerate(stages) if sweep.axes]
    for (at, largest), (end, sums) in itertools.pairwise(sweeps):
        between = {node.name for stage in stages[at + 1 : end] for node in stage.code}
        if between.isdisjoint(names_in(sums.code)) and _are_pair(largest, sums):
            return largest, sums
    return None


def less_another(sums: Sweep, largest: Ref, other: Ref) -> Sweep:
    """The second of such sweeps, of powers less `other`."""
    code = lets_replaced(sums.code, {largest.name: other})
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
    less, found = Ref(largest.name, largest.dtype), powers_in(sums.code).items()
    powers = {name: p for name, p in found if p.largest == less}
    held = {*powers, *(power.difference for power in powers.values())}
    others = (node for node in sums.code if node.name not in held)
    own = {largest.name, *held}.isdisjoint(names_in(others))
    return own and len(sums_in(sums, powers)) == len(sums.folds)
