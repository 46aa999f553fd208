"""CUDA C++ for slots of folds over the rows that threads keep in registers until all are done.

`part` is what a thread has of a fold; `parts`, those of all blocks; `of_block`, in shared memory,
what all teams of this one have.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext

from fuser.codegen.cuda.folds import fill_of, joined_to
from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import move, on_lanes, times, valid
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.buffers import ACCESS_BYTES
from fuser.schedule.tree.counts import power_of_two
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import OwnSlots, Partial


def slot_of(kernel: CudaKernel, block: str, partial: Partial, slot: str = "") -> str:
    """Where a slot of a block lies among those of all blocks."""
    slots = kernel.sizes.parameter(f"{partial.name}_slots", partial.slots)
    return f"{kernel.index}({block}) * {slots}" + (f" + {slot}" if slot else "")


def parts_of_block(kernel: CudaKernel, partial: Partial, slot: str = "") -> str:
    """Where this block leaves its parts."""
    return f"{partial.part}s + {slot_of(kernel, 'blockIdx.x', partial, slot)}"


def each_slot(kernel: CudaKernel, partial: Partial, first: str, step: int) -> str:
    """A loop in which a thread takes slots so far apart."""
    slots = kernel.sizes.parameter(f"{partial.name}_slots", partial.slots)
    return f"for ({kernel.index} slot = {first}; slot < {slots}; slot += {step})"


def declare_own(kernel: CudaKernel, own: OwnSlots) -> None:
    """The slots of a thread, in which is nothing yet."""
    name, type_ = own.partial.part, kernel.expressions.type(own.partial.kept)
    kernel.out.line(f"{type_} {name}[{own.rounds}][{own.lanes}];")
    kernel.out.line("#pragma unroll")
    place = f"{name}[i / {own.lanes}][i % {own.lanes}]"
    head = f"for (int i = 0; i < {own.rounds * own.lanes}; ++i)"
    kernel.out.line(f"{head} {place} = {fill_of(kernel, own.partial)};")


def leave_own(kernel: CudaKernel, own: Sequence[OwnSlots]) -> None:
    """What all rows of this block have, to where blocks leave their parts."""
    if kernel.facts.has_several:
        _join_teams(kernel, own)
        return
    across = kernel.facts.team is Team.COLUMN
    with _each_own(kernel, own[0]) as first:
        for each in own if across else ():
            _join_lanes(kernel, each)
        with kernel.out.block("if (threadIdx.x == 0)") if across else nullcontext():
            for each in own:
                _leave_slots(kernel, each, parts_of_block(kernel, each.partial, first))


def _join_lanes(kernel: CudaKernel, own: OwnSlots) -> None:
    """What the rows of a warp's lanes have of a round of slots, as one in all of them."""
    part = f"{own.partial.part}[round]"
    joiner = kernel.joiner(own.partial.operation, own.partial.kept, own.partial.name)
    join_warp = kernel.expressions.use("join_warp")
    on_lanes(kernel, own.lanes, f"{part}[lane] = {join_warp}({part}[lane], {joiner});")


def _join_teams(kernel: CudaKernel, own: Sequence[OwnSlots]) -> None:
    """One team after the other adds what it has; then the block leaves that."""
    x, y, _ = kernel.nest.launch.block
    for each in own:
        type_, room = kernel.expressions.type(each.partial.kept), power_of_two(each.partial.slots)
        kernel.out.line(f"alignas(16) __shared__ {type_} {each.partial.name}_of_block[{room}];")
    with kernel.out.block(f"for (int team = 0; team < {y}; ++team)"):
        with kernel.out.block("if (threadIdx.y == team)"), _each_own(kernel, own[0]) as first:
            for each in own:
                place = f"&{each.partial.name}_of_block[{first}]"
                with kernel.out.block("if (team > 0)"):
                    _join_own(kernel, each, place)
                _move_own(kernel, "store", each, f"{each.partial.part}[round]", place)
        kernel.out.line("__syncthreads();")
    for each in own:
        over = each_slot(kernel, each.partial, f"threadIdx.y * {x} + thread", x * y)
        to = f"({parts_of_block(kernel, each.partial)})[slot]"
        kernel.out.line(f"{over} {to} = {each.partial.name}_of_block[slot];")


def _join_own(kernel: CudaKernel, own: OwnSlots, place: str) -> None:
    """What the teams before have, joined to what this one has."""
    partial, part = own.partial, f"{own.partial.part}[round]"
    type_, before = kernel.expressions.type(partial.kept), f"{partial.name}_before"
    kernel.out.line(f"{type_} {before}[{own.lanes}];")
    _move_own(kernel, "load", own, before, place)
    joined = joined_to(kernel, partial, f"{before}[lane]", Ref(f"{part}[lane]", partial.kept))
    on_lanes(kernel, own.lanes, f"{part}[lane] = {joined};")


@contextmanager
def _each_own(kernel: CudaKernel, own: OwnSlots) -> Generator[str]:
    """A loop over a thread's slots, in rounds; the number of the first of each."""
    name, count = kernel.sizes.axis(own.axis), kernel.sizes.extent(own.axis)
    first = times(f"round * {kernel.facts.threads} + thread", own.lanes)
    with kernel.unrolled("round", own.rounds):
        kernel.out.line(f"const {kernel.index} {name} = {first};")
        kernel.out.line(f"if ({name} >= {count}) continue;")
        yield name


def _leave_slots(kernel: CudaKernel, own: OwnSlots, place: str) -> None:
    """A thread's slots of a round, to memory that may not be aligned."""
    part, size = f"{own.partial.part}[round]", own.partial.kept.itemsize
    if own.partial.slots * size % min(own.lanes * size, ACCESS_BYTES) == 0:
        _move_own(kernel, "store", own, part, place)
        return
    loop = _round_of(own)
    condition = "" if loop.whole else f"if (lane < {valid(kernel, loop)}) "
    with kernel.unrolled("lane", own.lanes):
        kernel.out.line(f"{condition}({place})[lane] = {part}[lane];")


def _move_own(kernel: CudaKernel, verb: str, own: OwnSlots, lanes: str, place: str) -> None:
    """Between lanes and memory that is aligned."""
    with kernel.sharing(_round_of(own)):
        move(kernel, verb, lanes, place)


def _round_of(own: OwnSlots) -> Loop:
    """The slots that threads have in a round, as a loop over them."""
    whole = own.axis.extent % own.lanes == 0
    return Loop(own.axis, Binding.TEAM, (), own.lanes, own.rounds, whole)
