"""Costly values of a row, kept from one sweep for the next.

    sweep   T3 = exp(T0 - T1); fold T3                  sweep   T3 = exp(T0 - T1); keep T3; fold T3
    sweep   T0, T2 = T0 - T1, T3 = exp(T2); ...    ->   sweep   T3 = kept T3; ...

Sweeps over the same axes that need the same costly value share it, and the later one no longer
computes what only led to it.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet

from fuser.ir.pointwise import COSTLY
from fuser.schedule.code.row_body import (
    Code,
    Fold,
    RowBody,
    Sweep,
    contents,
    names_in,
    without_dead_code,
)
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.counts import arithmetic, point_count
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import Let, Load, Store

Made = Let | Load

Readers = Mapping[str, list[Code | Fold | Store]]
"""By name, what of a sweep reads it."""


def takes_costly(sweep: Sweep) -> bool:
    """Whether a sweep takes a costly function of an element."""
    made = (*sweep.code, *(fold.value for fold in sweep.folds))
    return any(arithmetic([each]) >= COSTLY for each in made)


def keep_in_row(body: RowBody, max_bytes: int, but: Container[str] = ()) -> RowBody:
    """`body` with costly values kept, in no more than `max_bytes` of one row; `but` not these."""
    stages = list(body.stages)
    room = max_bytes
    kept: set[str] = set()
    for late in range(len(stages)):
        readers = _readers(stages[late])
        for early in range(late):
            shared = _shared(stages[early], stages[late], readers, room, kept, but)
            if shared:
                new = [let for name, let in shared.items() if name not in kept]
                room -= sum(_kept_bytes(stages[late], let) for let in new)
                kept.update(shared)
                stages[early] = _keeping(stages[early], shared)
                stages[late] = _reading(stages[late], shared)
                readers = _readers(stages[late])
    return dataclasses.replace(body, stages=tuple(stages))


def _kept_bytes(sweep: Sweep, node: Made) -> int:
    """Bytes of what a node makes of a row."""
    return point_count(sweep.axes) * node.dtype.itemsize


def _is_costly(node: Made, sweep: Sweep) -> bool:
    """Whether keeping a value costs less than making it: what is gathered along a row is put
    together from elements all over memory."""
    if isinstance(node, Load) and node.drawn is None:
        made = {code.name for code in sweep.code}
        return any(variable.name in made for variable in variables_of(node.at))
    return arithmetic([node]) >= COSTLY


def _shared(
    earlier: Sweep,
    later: Sweep,
    readers: Readers,
    room: int,
    kept: set[str],
    but: Container[str],
) -> dict[str, Made]:
    """Costly values that both sweeps compute, `but` not these, as far as there is room for what is
    not `kept`, and that the later one still needs when it reads the others."""
    if not later.axes or earlier.axes != later.axes:
        return {}
    made = {node.name for node in earlier.code if isinstance(node, Made)}
    shared: dict[str, Made] = {}
    for costly in later.code:
        if not isinstance(costly, Made) or costly.name not in made or costly.name in but:
            continue
        if _is_costly(costly, later):
            node = _last_of_chain(costly, readers, made)
            needed = 0 if node.name in kept else _kept_bytes(later, node)
            if needed <= room:
                shared[node.name] = node
                room -= needed
    if not shared:
        return {}
    read = {node.name for node in _reading(later, shared).code if isinstance(node, Kept)}
    return {name: node for name, node in shared.items() if name in read}


def _readers(sweep: Sweep) -> Readers:
    readers = defaultdict[str, list[Code | Fold | Store]](list)
    for part in contents((sweep,)):
        for name in set(names_in((part,))):
            readers[name].append(part)
    return readers


def _last_of_chain(node: Made, readers: Readers, made: AbstractSet[str]) -> Made:
    """What a value leads to, as long as only one other of its type reads it, which the earlier
    sweep has `made` as well: it takes the same room."""
    while True:
        match readers.get(node.name):
            case [Let(name, dtype) as reader] if name in made and dtype is node.dtype:
                node = reader
            case _:
                return node


def _keeping(sweep: Sweep, shared: dict[str, Made]) -> Sweep:
    code: list[Code] = []
    already = {node.name for node in sweep.code if isinstance(node, Keep)}
    for node in sweep.code:
        code.append(node)
        if isinstance(node, Made) and node.name in shared and node.name not in already:
            code.append(Keep(node.name, node.dtype, sweep.axes))
    return dataclasses.replace(sweep, code=tuple(code))


def _reading(sweep: Sweep, shared: dict[str, Made]) -> Sweep:
    """The sweep with kept values read, and without what nothing needs any more."""
    code = (
        Kept(node.name, node.dtype, sweep.axes)
        if isinstance(node, Made) and node.name in shared
        else node
        for node in sweep.code
    )
    return without_dead_code(dataclasses.replace(sweep, code=tuple(code)))
