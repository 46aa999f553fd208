"""Costly values of a row, kept from one sweep for the next.

    sweep   T3 = exp(T0 - T1); fold T3                  sweep   T3 = exp(T0 - T1); keep T3; fold T3
    sweep   T0, T2 = T0 - T1, T3 = exp(T2); ...    ->   sweep   T3 = kept T3; ...

Sweeps over the same axis that need the same costly value share it, and the later one no longer
computes what only led to it.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import KERNEL_TABLE
from fuser.schedule.expressions import Call
from fuser.schedule.row_body import Code, RowBody, Sweep, names_in, nodes_read
from fuser.schedule.row_statements import Keep, Kept
from fuser.schedule.statements import CheckedIndex, Let, Load

Made = Let | Load

COSTLY = 8
"""Instructions from which a value is kept: storing and loading it takes a few."""


def keep_in_row(body: RowBody, max_bytes: int) -> RowBody:
    """`body` with costly values kept, in no more than `max_bytes` of one row."""
    stages = list(body.stages)
    room = max_bytes
    kept: set[str] = set()
    for late in range(len(stages)):
        for early in range(late):
            shared = _shared(stages[early], stages[late], room, kept)
            if shared:
                new = [let for name, let in shared.items() if name not in kept]
                room -= sum(_kept_bytes(stages[late], let) for let in new)
                kept.update(shared)
                stages[early] = _keeping(stages[early], shared)
                stages[late] = _reading(stages[late], shared)
    return dataclasses.replace(body, stages=tuple(stages))


def _kept_bytes(sweep: Sweep, node: Made) -> int:
    """Bytes of what a node makes of a row."""
    return sweep.axes[0].extent * _dtype(node).itemsize


def _dtype(node: Made) -> DataType:
    return node.dtype if isinstance(node, Let) else node.tensor.dtype


def _is_costly(node: Made, sweep: Sweep) -> bool:
    """Whether keeping a value costs less than making it: what is gathered along a row is put
    together from elements all over memory."""
    if isinstance(node, Load) and node.drawn is None:
        chosen = {code.name for code in sweep.code if isinstance(code, CheckedIndex)}
        return not chosen.isdisjoint(names_in((node,)))
    if isinstance(node, Load):
        return node.drawn is not None and node.drawn.cost >= COSTLY
    return isinstance(node.expression, Call) and KERNEL_TABLE[node.expression.op].cost >= COSTLY


def _shared(earlier: Sweep, later: Sweep, room: int, kept: set[str]) -> dict[str, Made]:
    """Costly values that both sweeps compute, as far as there is room for what is not `kept`."""
    if len(later.axes) != 1 or earlier.axes != later.axes:
        return {}
    made = {node.name for node in earlier.code if isinstance(node, Made)}
    shared: dict[str, Made] = {}
    for node in later.code:
        if isinstance(node, Made) and node.name in made and _is_costly(node, later):
            needed = 0 if node.name in kept else _kept_bytes(later, node)
            if needed <= room:
                shared[node.name] = node
                room -= needed
    return shared


def _keeping(sweep: Sweep, shared: dict[str, Made]) -> Sweep:
    code: list[Code] = []
    already = {node.name for node in sweep.code if isinstance(node, Keep)}
    for node in sweep.code:
        code.append(node)
        if isinstance(node, Made) and node.name in shared and node.name not in already:
            code.append(Keep(node.name, _dtype(node), sweep.axes[0]))
    return dataclasses.replace(sweep, code=tuple(code))


def _reading(sweep: Sweep, shared: dict[str, Made]) -> Sweep:
    """The sweep with kept values read, and without what nothing needs any more."""
    code: list[Code] = [
        Kept(node.name, _dtype(node), sweep.axes[0])
        if isinstance(node, Made) and node.name in shared
        else node
        for node in sweep.code
    ]
    needed = set(names_in((*sweep.folds, *sweep.stores)))
    return dataclasses.replace(sweep, code=nodes_read(code, needed))
