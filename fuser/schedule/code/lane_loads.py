"""Loads of all lanes at once, before what is done lane by lane.

    lanes   T1 = load of truth values              T1 = flags of 16 truth values
            T2 = where(T1, ...)            ->      lanes   T2 = where(T1[lane], ...)

Random numbers are drawn in whole blocks, so that no word of one is thrown away. Of few lanes, truth
values and narrow numbers that are only converted become numbers of 32 bits: g++ makes loops as long
as a vector has elements of the narrowest type, and of shorter ones narrower vectors or none. So it
does where lanes read every second number, for which it wants an element after the last. Vectors of
floats of 16 bits are widened so, of however many lanes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable
from collections.abc import Set as AbstractSet

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, Fold, Sweep, contents, names_in
from fuser.schedule.cpu_parameters import ProcessorParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.expressions import Convert, Ref
from fuser.schedule.tree.statements import Let, Load, Store, reads_in
from fuser.schedule.tree.vectors import FLOATS_OF_16, VECTOR_BYTES, step_along, widens_vectors

LEAST_DRAWN = 8
"""Lanes from which numbers are drawn at once: two blocks of float32 at least."""

MOST_FLAGS = 32
"""Lanes up to which truth values are widened: more of them are whole vectors of bytes."""

_WIDE = 4
"""Bytes of an element from which types are not narrow."""

_FLAG_STEPS = 1, 2
"""Steps between truth values of which all lanes are read at once."""

_NUMBER_STEP = 2
"""The step between numbers of 32 bits of which all lanes are read at once."""


def lane_loads(
    sweep: Sweep, lanes: int, *, drawn_only: bool = False
) -> tuple[list[Load], list[Code]]:
    """The loads of neighbours along a sweep that are done for `lanes` of them at once, as such, and
    the rest of its code."""
    inner, made = sweep.axes[-1], {node.name for node in sweep.code}
    converted = _only_converted(sweep)
    moved = [_moved(load, inner, lanes, made, load.name in converted) for load in sweep.loads]
    at_once = [load for load in moved if load and (load.drawn or not drawn_only)]
    names = {load.name for load in at_once}
    rest = (node for node in sweep.code if not (isinstance(node, Load) and node.name in names))
    return at_once, list(rest)


def done_in_vectors(sweep: Sweep, parameters: ProcessorParameters) -> bool:
    """Whether the innermost loop is one over vectors of a few lanes, the last of which begins
    early enough to end in range. A compiler takes as many lanes as a vector has of the narrowest
    type; of a loop that is shorter, or of what is left, it makes half as wide vectors or none.
    """
    inner, loads = sweep.axes[-1], reads_in(sweep.code)
    reads_flags = any(_is_flag(load, inner) for load in loads)
    moved = [node.dtype.itemsize for node in (*loads, *sweep.stores)]
    if reads_flags or _computes_much(sweep, parameters.much_computed):
        most = parameters.short_run
    else:
        most = 2 * parameters.vector if min(moved, default=_WIDE) < _WIDE else 0
    return parameters.vector <= inner.extent < most


def _computes_much(sweep: Sweep, much: int) -> bool:
    """Whether elements one by one would cost more than memory does. Of what is read in steps, a
    compiler makes better loads itself."""
    steps = (step_along(load.at, sweep.axes[-1]) for load in sweep.loads)
    return len(sweep.lets) >= much and all(step in (-1, 0, 1) for step in steps)


def _is_flag(load: Load, inner: Axis) -> bool:
    return load.dtype is DataType.Bool and step_along(load.at, inner) in _FLAG_STEPS


def _is_stepped(load: Load, inner: Axis) -> bool:
    dtype = load.dtype
    return dtype in (DataType.Float, DataType.Int32) and step_along(load.at, inner) == _NUMBER_STEP


def converts_vectors(code: Iterable[object]) -> bool:
    """Whether chunks convert floats of 16 bits in fewer instructions than a compiler's loops do:
    float16 either way, for which C++ has none; bfloat16 where code both widens it and rounds to it.
    """
    widened: set[DataType] = set()
    rounded: set[DataType] = set()
    for node in code:
        match node:
            case Let(expression=Convert(of, DataType.Float)):
                widened.add(of.dtype)
            case Let(expression=Convert(of, dtype)) if of.dtype is DataType.Float:
                rounded.add(dtype)
            case _:
                pass
    widened &= FLOATS_OF_16
    rounded &= FLOATS_OF_16
    return DataType.Half in widened | rounded or bool(widened and rounded)


def _only_converted(sweep: Sweep) -> AbstractSet[str]:
    """The names of narrow numbers that nothing but conversions reads."""
    narrow = {
        load.name
        for load in sweep.loads
        if load.dtype.itemsize < _WIDE and load.dtype is not DataType.Bool
    }
    others = (node for node in contents([sweep]) if not _is_conversion(node))
    return narrow.difference(names_in(others))


def _is_conversion(node: Code | Fold | Store) -> bool:
    match node:
        case Let(expression=Convert(of=Ref())):
            return True
        case _:
            return False


def _moved(
    load: Load, inner: Axis, lanes: int, made: Container[str], is_converted: bool
) -> Load | None:
    """A load for all lanes; None if each lane has its own."""
    step = step_along(load.at, inner)
    if load.drawn is not None:
        fits = lanes >= LEAST_DRAWN and step == 1
    elif is_converted:
        fills_none = lanes * load.dtype.itemsize < VECTOR_BYTES
        fits = step == 1 and lanes > 1 and (fills_none or widens_vectors(load, lanes))
    else:
        at_once = _is_flag(load, inner) or _is_stepped(load, inner)
        fits = at_once and 1 < lanes <= MOST_FLAGS
    if not fits or any(name in made for name in names_in((load,))):
        return None
    return dataclasses.replace(load, lanes=lanes, step=step or 1)
