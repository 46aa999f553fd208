"""Results against float64."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from case import Case, Peer, Tensors, tensors
from harness import Call

from fuser.ir.four_bits import one_by_one

GROSS = 0.05
"""A peer that is further off is mentioned: torch's own 16-bit operations may be."""


class WrongResultError(Exception):
    """fuser's results are not what they should be."""


def error(got: Tensors, exact: Tensors) -> float:
    """The largest error of an element, relative to it and its tensor's mean size; NaN is inf."""
    got = [one_by_one(tensor) for tensor in got]
    if [tensor.shape for tensor in got] != [tensor.shape for tensor in exact]:
        return math.inf
    worst = 0.0
    for ours, right in zip(got, exact, strict=True):
        wanted = right.double()  # floats of 8 bits are subtracted from nothing
        size = wanted.abs()
        mean = size.mean().clamp_min(1e-300)
        found = ((ours.double() - wanted).abs() / size.add_(mean)).max().item()
        worst = max(worst, math.inf if math.isnan(found) else found)
    return worst


def check_ours(case: Case, made: Tensors, exact: Tensors) -> float:
    """fuser's error. Raises WrongResultError if it, or a dtype, is not as it should be."""
    found = error(made, exact)
    if not found <= case.tolerance:
        raise WrongResultError(f"error {found:.1e} is above {case.tolerance:.1e}")
    dtypes = tuple(tensor.dtype for tensor in made)
    if dtypes != case.made(len(made)):
        raise WrongResultError(f"results are {dtypes}")
    return found


def working(
    peers: Mapping[str, Call], exact: Tensors, *, drawn: bool = False
) -> tuple[dict[str, Call], dict[str, float], list[str]]:
    """The peers that run here, their errors, and what is to be said of them.

    Every peer is called once, which compiles what is to be compiled. Those that fail, or have
    results of other sizes or NaN in them, are left out. Numbers that they have `drawn` themselves
    are not compared.
    """
    kept: dict[str, Call] = {}
    errors: dict[str, float] = {}
    notes: list[str] = []
    for name, call in peers.items():
        try:
            found = error(tensors(call()), exact)
        except Exception as reason:  # a peer's failure is a note, whatever it is
            notes.append(f"{name} left out: {_brief(reason)}")
            continue
        if math.isinf(found):
            notes.append(f"{name} left out: its sizes differ, or it has NaN")
            continue
        kept[name], errors[name] = call, found
        if found > GROSS and not drawn:
            notes.append(f"{name} has errors of {found:.0%}")
    return kept, errors, notes


def _brief(reason: Exception) -> str:
    line = str(reason).strip().partition("\n")[0]
    return f"{type(reason).__name__}: {line[:120]}"


def bound(peer: Peer, inputs: Iterable[object]) -> Call:
    """A call without arguments."""
    given = tuple(inputs)
    return lambda: peer(*given)
