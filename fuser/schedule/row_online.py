"""Online softmax: exponentials less a maximum are summed while the maximum is still being found.

    sweep   T1 folds T0 by maximum               block by block:
    sweep   T3 = exp(T0 - T1); T4 folds T3   ->    T1_block folds T0 by maximum
                                                   T1 = max(T1, T1_block); T4 times exp(old T1 - T1)
                                                   T3 = exp(T0 - T1); T4 folds T3

A long row is so read from memory once, by a processor that computes meanwhile. Source: M. Milakov,
N. Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import dataclasses
import itertools

from fuser.ir.dtypes import DataType
from fuser.schedule.bindings import Binding
from fuser.schedule.cpu_parameters import CpuRowParameters
from fuser.schedule.expressions import Call, Expression, Literal, Ref
from fuser.schedule.index import ZERO
from fuser.schedule.loop_tree import Loop, Node, Region
from fuser.schedule.names import block_name
from fuser.schedule.row_body import Code, Fold, RowBody, Sweep, names_in
from fuser.schedule.row_folds_cpu import in_own_type
from fuser.schedule.row_memory import ask_for, consecutive
from fuser.schedule.row_parts import Part, parts_of
from fuser.schedule.row_statements import Accumulate, Finish, Raise
from fuser.schedule.row_sweeps_cpu import Ways, block_of, partials_of, sweep_along
from fuser.schedule.statements import Let, Load


def online_pair(body: RowBody, parameters: CpuRowParameters) -> tuple[Sweep, Sweep] | None:
    """Two sweeps, one after the other, that may go through a long row together, if there are such:
    the first finds its largest element, the second one sums. What is done once between them may as
    well be done after them."""
    sweeps = [(at, sweep) for at, sweep in enumerate(body.stages) if sweep.axes]
    for (at, largest), (end, sums) in itertools.pairwise(sweeps):
        between = {node.name for stage in body.stages[at + 1 : end] for node in stage.code}
        if between.isdisjoint(names_in(sums.code)) and _online(largest, sums, parameters):
            whole = len(parts_of(largest, parameters.shortest_part)) == 1
            return (largest, sums) if whole else None
    return None


def swept_online(largest: Sweep, sums: Sweep, ways: Ways) -> list[Node]:
    """The loops of such a pair, block by block."""
    parameters = ways.parameters
    (axis,) = sums.axes
    (fold,) = largest.folds
    block = dataclasses.replace(fold, name=block_name(fold.name))
    (held,), sums_held = partials_of(largest), partials_of(sums)
    found = dataclasses.replace(largest, folds=(block,), ahead=())
    risen = Raise(fold.name, held, Ref(block.name, held.kept), sums_held)
    summed = dataclasses.replace(sums, ahead=tuple(ask_for(largest, parameters.online_block)))
    inner = block_of(Part(summed), sums_held, ways)
    loops = (
        *sweep_along(found, ways, in_own_type),
        risen,
        Loop(axis, Binding.BLOCKS, inner, parameters.block),
    )
    # Without any finite number a row has no sum.
    none = Call("mul", (Literal(0, held.kept), Ref(fold.name, held.kept)), held.kept)
    finished = (
        Finish(held, ZERO),
        *(Accumulate(partial, ZERO, none) for partial in sums_held),
        *(Finish(partial, ZERO) for partial in sums_held),
    )
    blocks = Loop(axis, Binding.BLOCKS, loops, parameters.online_block)
    return [Region((held, *sums_held), (blocks,), finished, threaded=False)]


def _online(largest: Sweep, sums: Sweep, parameters: CpuRowParameters) -> bool:
    if len(sums.axes) != 1 or sums.axes != largest.axes:
        return False
    if _read_bytes(sums) < parameters.online_bytes or not largest.folds:
        return False
    fold, *others = largest.folds
    if others or fold.operation != "maximum" or fold.dtype is not DataType.Float:
        return False
    nodes = (*largest.code, *sums.code)
    plain = not (largest.stores or sums.stores) and all(isinstance(n, Load | Let) for n in nodes)
    return plain and bool(sums.folds) and _only_powers(fold, sums)


def _read_bytes(sweep: Sweep) -> int:
    """Bytes that a sweep reads of a row."""
    return sum(load.tensor.dtype.itemsize * sweep.axes[-1].extent for load in consecutive(sweep))


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
