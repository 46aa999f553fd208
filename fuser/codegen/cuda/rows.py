"""CUDA C++ for rows: what each block folds over its rows, and what the last one makes of that.

`part` is what a thread or a block has of a fold; `parts`, those of all blocks.
"""

from __future__ import annotations

import math

from fuser.codegen.cuda.folds import (
    fill_of,
    fold_row,
    gather_parts,
    joined_to,
    leave_unless_last,
    over_block,
    over_team,
)
from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import grouped, times
from fuser.codegen.cuda.slots import declare_own, each_slot, leave_own, parts_of_block, slot_of
from fuser.codegen.cuda.teams import begin_team, once
from fuser.codegen.kernel_source import Workspace
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.buffers import ACCESS_BYTES
from fuser.schedule.tree.counts import ceil_div, power_of_two
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.loop_tree import Region
from fuser.schedule.tree.row_statements import Accumulate, Finish, Partial

_GROUP = 16
"""Blocks whose folds over the rows are joined before those of all groups are: about as many as
there are groups then."""

_BLOCK_WORDS, _THREAD_WORDS, _THREAD_LOADS = 1 << 14, 32, 16
"""The most that is asked for before the first is joined: a quarter of a block's registers, half of
a thread's, in which every load has an address too."""


def region(kernel: CudaKernel, node: Region) -> None:
    """The rows, and what is done when all are; or a row, and what it is folded to."""
    if kernel.around.in_rows:
        fold_row(kernel, node)
        return
    begin_team(kernel)
    with kernel.within(in_rows=True):
        for partial in node.partials:
            _own_part(kernel, partial)
        if any(p.slots > 1 and p.name not in kernel.facts.own for p in node.partials):
            kernel.out.line("__syncthreads();")
        kernel.nodes(node.body)
    if node.partials:
        _finish_rows(kernel, node)


def accumulate(kernel: CudaKernel, node: Accumulate) -> None:
    """One more value of a fold."""
    partial = node.partial
    held = partial.part
    if partial.name in kernel.around.held:
        held = f"{partial.name}_held[lane]"
    elif partial.name in kernel.facts.own:
        held += "[round][lane]" if kernel.facts.own[partial.name].lanes > 1 else "[round][0]"
    elif partial.slots > 1:
        held += f"[{kernel.sizes.index(node.at, partial.name)}]"
    conditions = once(kernel)
    if kernel.facts.may_idle and partial.name in kernel.facts.folds:
        conditions.append("active")
    line = f"{held} = {joined_to(kernel, partial, held, node.value)};"
    kernel.out.line(f"if ({' && '.join(conditions)}) {line}" if conditions else line)


def finish(kernel: CudaKernel, node: Finish) -> None:
    """A result of a fold of a row, or of one over the rows, of which blocks have left parts; where
    there are several results, the last block has joined them."""
    partial, name = node.partial, node.partial.name
    type_ = kernel.expressions.type(partial.dtype)
    if kernel.around.in_rows:
        value = over_team(kernel, partial)
    elif partial.slots == 1:
        gather_parts(kernel, partial, _blocks(kernel))
        value = over_block(kernel, partial)
    else:
        slot = grouped(kernel.sizes.index(node.at, name))
        value = f"{kernel.expressions.use('part_at')}({partial.part}s + {slot})"
    kernel.out.line(f"const {type_} {name} = {value};")


def _own_part(kernel: CudaKernel, partial: Partial) -> None:
    """What this thread, or this block, has of a fold over the rows: nothing yet."""
    type_ = kernel.expressions.type(partial.kept)
    blocks = math.prod(kernel.nest.launch.grid)
    kernel.workspaces.append(Workspace(f"{partial.part}s", partial.kept, blocks * partial.slots))
    fill = fill_of(kernel, partial)
    if partial.name in kernel.facts.own:
        declare_own(kernel, kernel.facts.own[partial.name])
        return
    if partial.slots == 1:
        kernel.out.line(f"{type_} {partial.part} = {fill};")
        return
    if kernel.facts.parts_in_shared:
        room = power_of_two(partial.slots)
        kernel.out.line(f"alignas(16) __shared__ {type_} {partial.part}[{room}];")
    else:
        own = parts_of_block(kernel, partial)
        kernel.out.line(f"{type_}* const {partial.part} = {own};")
    over = each_slot(kernel, partial, kernel.around.thread, kernel.facts.threads)
    kernel.out.line(f"{over} {partial.part}[slot] = {fill};")


def _finish_rows(kernel: CudaKernel, node: Region) -> None:
    """Each block leaves its parts; the last one joins them, and does the epilogue."""
    arrays = [partial for partial in node.partials if partial.slots > 1]
    if kernel.facts.has_several:
        kernel.out.line("__syncthreads();")
    if node.own:
        leave_own(kernel, node.own)
    thread = kernel.around.thread
    if kernel.facts.team in (Team.WARP, Team.COLUMN) or kernel.facts.has_several:
        x, _, _ = kernel.nest.launch.block
        thread = "block_thread"
        kernel.out.line(f"const int {thread} = threadIdx.y * {x} + threadIdx.x;")
    with kernel.within(thread=thread):
        for partial in node.partials:
            if partial.slots == 1:
                kernel.out.line(f"{partial.part} = {over_block(kernel, partial)};")
                block = "blockIdx.x"
                block += " * gridDim.y + blockIdx.y" if kernel.facts.in_cluster else ""
                own = f"{partial.part}s[{block}] = {partial.part}"
                kernel.out.line(f"if ({thread} == 0) {own};")
        if arrays:
            _join_groups(kernel, arrays)
        else:
            leave_unless_last(kernel, "finished", _blocks(kernel), 1)
        kernel.nodes(node.epilogue)


def _blocks(kernel: CudaKernel) -> str:
    """How many blocks have parts."""
    return "gridDim.x * gridDim.y" if kernel.facts.in_cluster else "gridDim.x"


def _join_groups(kernel: CudaKernel, arrays: list[Partial]) -> None:
    """The last block of every few joins their parts, and the last of all what that leaves."""
    if kernel.facts.parts_in_shared:
        kernel.out.line("__syncthreads();")
        for partial in arrays:
            to = f"{partial.part}s[{slot_of(kernel, 'blockIdx.x', partial, 'slot')}]"
            over = each_slot(kernel, partial, kernel.around.thread, kernel.facts.threads)
            kernel.out.line(f"{over} {to} = {partial.part}[slot];")
    kernel.out.line(f"const int group = blockIdx.x / {_GROUP} * {_GROUP};")
    kernel.out.line(f"const int groups = (gridDim.x + {_GROUP - 1}) / {_GROUP};")
    end = f"group + {_GROUP} < gridDim.x ? group + {_GROUP} : gridDim.x"
    kernel.out.line(f"const int group_end = {end};")
    counters = ceil_div(kernel.nest.launch.grid[0], _GROUP) + 1
    counter = f"finished + blockIdx.x / {_GROUP}"
    leave_unless_last(kernel, counter, "group_end - group", counters)
    _join_parts(kernel, arrays, "int part = group; part < group_end; ++part", "group")
    call = f"{kernel.expressions.use('last_to_finish')}(finished + groups, groups, &is_last)"
    kernel.out.line(f"if (!{call}) return;")
    _join_parts(kernel, arrays, f"int part = 0; part < gridDim.x; part += {_GROUP}", "0")
    kernel.out.line("__syncthreads();")


def _join_parts(kernel: CudaKernel, arrays: list[Partial], parts: str, to: str) -> None:
    """Several blocks' parts, in their order; what all have comes where those of one were."""
    kinds = dict.fromkeys((partial.slots, partial.kept.itemsize) for partial in arrays)
    for slots, size in kinds:
        alike = [p for p in arrays if (p.slots, p.kept.itemsize) == (slots, size)]
        _join_alike(kernel, alike, parts, to)


def _join_alike(kernel: CudaKernel, arrays: list[Partial], parts: str, to: str) -> None:
    """Up to 16 bytes of slots at once; fewer, but 8, where these leave threads without any."""
    first, threads = arrays[0], kernel.facts.block_threads
    size = first.kept.itemsize
    whole = size >= 4 and first.slots * size % ACCESS_BYTES == 0
    lanes = max(ACCESS_BYTES // size, 1) if whole else 1
    while lanes > 1 and lanes * size > 8 and 2 * power_of_two(first.slots) <= threads * lanes:
        lanes //= 2
    words = lanes * max(size // 4, 1)
    most = min(_BLOCK_WORDS // threads, _THREAD_WORDS)
    each = min(_THREAD_LOADS, most // words)
    unroll = max(each // len(arrays), 1)
    start = times(kernel.around.thread, lanes)
    with kernel.out.block(each_slot(kernel, first, start, threads * lanes)):
        for partial in arrays:
            type_, fill = kernel.expressions.type(partial.kept), fill_of(kernel, partial)
            fills = ", ".join([fill] * lanes)
            kernel.out.line(f"{type_} {partial.name}[{lanes}] = {{{fills}}};")
        kernel.out.line(f"#pragma unroll {unroll}")
        with kernel.out.block(f"for ({parts})"):
            _join_lanes(kernel, arrays, lanes)
        store = kernel.expressions.use("store_vector")
        for partial in arrays:
            place = f"{partial.part}s + {slot_of(kernel, to, partial, 'slot')}"
            kernel.out.line(f"{store}({partial.name}, {place});")


def _join_lanes(kernel: CudaKernel, arrays: list[Partial], lanes: int) -> None:
    read = kernel.expressions.use("parts_at")
    for partial in arrays:
        type_, name = kernel.expressions.type(partial.kept), partial.name
        kernel.out.line(f"{type_} {name}_given[{lanes}];")
        place = f"{partial.part}s + {slot_of(kernel, 'part', partial, 'slot')}"
        kernel.out.line(f"{read}({name}_given, {place});")
    with kernel.unrolled("lane", lanes):
        for partial in arrays:
            held, given = f"{partial.name}[lane]", f"{partial.name}_given[lane]"
            joined = joined_to(kernel, partial, held, Ref(given, partial.kept))
            kernel.out.line(f"{held} = {joined};")
