"""CUDA C++ for rounds whose loads are all on their way before the first is used.

    T0_ahead[0] = load; T0_ahead[1] = load    the loads of all rounds
    T0 = T0_ahead[0]; sum += T0; ...          then what is done in each

In one round after the other, compilers wait for the loads of a round that may not be there, or that
is done under a condition, before they begin with the next.
"""

from __future__ import annotations

from collections.abc import Callable

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import declare_rounds, put_lanes, take_lanes
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import Load, Store, reads_in

_WORDS = 16
"""Registers for what a thread loads ahead, at most."""


def loads_ahead(loop: Loop, rounds: int) -> list[Load]:
    """The loads of a loop that only folds what it reads, if registers hold those of all rounds."""
    if any(isinstance(node, Store | Keep | Kept) for node in every_node(loop.body)):
        return []
    loads = [
        load for load in reads_in(loop.body) if not load.in_lanes and not variables_of(load.at)
    ]
    words = sum(ceil_div(load.lanes * load.dtype.itemsize, 4) for load in loads)
    return loads if words * rounds <= _WORDS else []


def in_rounds(
    kernel: CudaKernel, loop: Loop, name: str, rounds: int, begin: Callable[[], None]
) -> None:
    """Print the body of a loop in so many rounds, numbered by `name`; `begin` prints where a round
    is, and leaves out those that are not there."""
    ahead = loads_ahead(loop, rounds) if rounds > 1 and kernel.around.in_rows else []
    if not ahead:
        with kernel.unrolled(name, rounds):
            begin()
            kernel.nodes(loop.body)
        return
    with kernel.out.block(""):  # other sweeps have such arrays, too
        for load in ahead:
            dtype = load.dtype
            declare_rounds(kernel, f"{load.name}_ahead", dtype, rounds, load.lanes)
        with kernel.unrolled(name, rounds):
            begin()
            for load in ahead:
                kernel.node(load)
                put_lanes(kernel, load.name, load.lanes, f"{load.name}_ahead[{name}]")
        with kernel.unrolled(name, rounds):
            begin()
            for load in ahead:
                place = f"{load.name}_ahead[{name}]"
                take_lanes(kernel, load.name, load.dtype, load.lanes, place)
            kernel.nodes([node for node in loop.body if node not in ahead])
