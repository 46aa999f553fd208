"""CUDA C++ for folds of a row, over all threads that share it.

Lanes join by shuffles, warps through shared memory, the blocks of a cluster through that of each
other, and other blocks through a workspace. `part` is what a thread or a block has of a fold;
`parts`, those of all blocks.
"""

from __future__ import annotations

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Expression, Ref, join
from fuser.schedule.tree.loop_tree import Region
from fuser.schedule.tree.row_statements import FinishPowers, Partial

_PARTS_AHEAD = 8
"""Parts of other blocks that a thread asks for at once."""


def fold_row(kernel: CudaKernel, node: Region) -> None:
    """What a row is folded to, and then what follows from that."""
    for partial in node.partials:
        type_ = kernel.expressions.type(partial.kept)
        kernel.out.line(f"{type_} {partial.part} = {fill_of(kernel, partial)};")
    kernel.nodes(node.body)
    if kernel.is_split and not kernel.facts.in_cluster:
        _join_blocks_of_row(kernel, node)
    kernel.nodes(node.epilogue)


def _join_blocks_of_row(kernel: CudaKernel, node: Region) -> None:
    """Each block leaves its part; the last one joins them, and goes on with the row."""
    _, parts, _ = kernel.nest.launch.grid
    rows = point_count(kernel.around.row_axes)
    writer = "active && thread == 0" if kernel.facts.team is Team.COLUMN else "thread == 0"
    for partial in node.partials:
        part = partial.part
        kernel.workspaces.append(Workspace(f"{part}s", partial.kept, parts * rows))
        kernel.out.line(f"{part} = {over_team(kernel, partial)};")
        kernel.out.line(f"if ({writer}) {part}s[{_part_of_row(kernel, 'blockIdx.y')}] = {part};")
    leave_unless_last(kernel, "finished + blockIdx.x", "gridDim.y", kernel.nest.launch.grid[0])
    for partial in node.partials:
        place = f"{partial.part}s + {_part_of_row(kernel, 'part')}"
        part = Ref(f"{kernel.expressions.use('part_at')}({place})", partial.kept)
        joined = joined_to(kernel, partial, partial.part, part)
        kernel.out.line(f"{partial.part} = {fill_of(kernel, partial)};")
        head = f"int part = thread; part < gridDim.y; part += {kernel.facts.threads}"
        kernel.out.line(f"for ({head}) {partial.part} = {joined};")


def _part_of_row(kernel: CudaKernel, block: str) -> str:
    """Where the part of a block lies among those of all blocks and rows."""
    if not kernel.around.row_axes:
        return block
    rows = kernel.sizes.parameter("rows_kept", point_count(kernel.around.row_axes))
    return f"{kernel.index}({block}) * {rows} + {kernel.around.row}"


def finish_powers(kernel: CudaKernel, node: FinishPowers) -> None:
    """A row's largest number and its sum of powers, of what the threads have of both."""
    powers = f"{node.sum.name}_powers"
    own = f"{{{node.own.name}, {node.sum.part}}}"
    if kernel.facts.in_cluster:
        call = kernel.expressions.use("join_cluster_powers")
        call += f"<{kernel.nest.launch.cluster}, {kernel.facts.warps}>({own}, mail, joined)"
    else:
        call = kernel.expressions.use("join_block_powers")
        call += f"<{kernel.facts.warps}>({own}, shared)"
    kernel.out.line(f"const powers {powers} = {call};")
    for partial, member in ((node.largest, "largest"), (node.sum, "sum")):
        type_ = kernel.expressions.type(partial.dtype)
        kernel.out.line(f"const {type_} {partial.name} = {powers}.{member};")


def over_team(kernel: CudaKernel, partial: Partial) -> str:
    """The parts of a team's threads as one, in all of them."""
    facts = kernel.facts
    if facts.team is Team.WARP:
        if facts.threads == 1:
            return partial.part
        if facts.threads == WARP:
            return _joined_by(kernel, partial, "join_warp")
        return _joined_by(kernel, partial, "join_lanes", facts.threads)
    if facts.team is Team.COLUMN:
        shape = (facts.threads, *([facts.columns] if facts.columns < WARP else []))
        return _joined_by(kernel, partial, "join_column", *shape, places="shared")
    if facts.has_several:
        # The joins of a row have a room each, but for one that is done again before teams meet.
        again, place = "true", "shared"
        if facts.joins != 1:
            again, place = "false", f"shared + {next(kernel.rooms) * facts.exchanged_bytes}"
        return _joined_by(kernel, partial, "join_team", facts.threads // WARP, again, places=place)
    if facts.in_cluster:
        counts = kernel.nest.launch.cluster, facts.warps
        return _joined_by(kernel, partial, "join_cluster", *counts, places="mail, joined")
    return over_block(kernel, partial)


def over_block(kernel: CudaKernel, partial: Partial) -> str:
    """The parts of the threads of a block as one."""
    return _joined_by(kernel, partial, "join_block", kernel.facts.warps, places="shared")


def _joined_by(
    kernel: CudaKernel, partial: Partial, function: str, *numbers: int | str, places: str = ""
) -> str:
    """A call that joins parts; `numbers` are known to the compiler, `places` where they meet."""
    call = kernel.expressions.use(function)
    call += f"<{', '.join(map(str, numbers))}>" if numbers else ""
    joiner = kernel.joiner(partial.operation, partial.kept, partial.name)
    return f"{call}({partial.part}, {joiner}{places and ', '}{places})"


def gather_parts(kernel: CudaKernel, partial: Partial, count: str) -> None:
    """The parts that many blocks have left, on the threads of the last one, each of which asks for
    some before it joins the first: nothing else is left to do while it waits."""
    held, parts, threads = partial.part, f"{partial.name}_of_blocks", kernel.facts.block_threads
    type_, fill = kernel.expressions.type(partial.kept), fill_of(kernel, partial)
    joined = joined_to(kernel, partial, held, Ref(f"{parts}[ahead]", partial.kept))
    kernel.out.line(f"{held} = {fill};")
    onwards = f"first += {_PARTS_AHEAD * threads}"
    head = f"int first = {kernel.around.thread}; first < {count}; {onwards}"
    with kernel.out.block(f"for ({head})"):
        kernel.out.line(f"{type_} {parts}[{_PARTS_AHEAD}];")
        with kernel.unrolled("ahead", _PARTS_AHEAD):
            kernel.out.line(f"const int part = first + ahead * {threads};")
            there = f"{kernel.expressions.use('part_at')}({held}s + part)"
            kernel.out.line(f"{parts}[ahead] = part < {count} ? {there} : {fill};")
        with kernel.unrolled("ahead", _PARTS_AHEAD):
            kernel.out.line(f"{held} = {joined};")


def leave_unless_last(kernel: CudaKernel, counter: str, blocks: str, counters: int) -> None:
    """Go on in the last of some blocks only."""
    finished = Workspace("finished", DataType.Int32, counters, zeroed=True, restored=True)
    kernel.workspaces.append(finished)
    kernel.out.line("__shared__ bool is_last;")
    call = f"{kernel.expressions.use('last_to_finish')}({counter}, {blocks}, &is_last)"
    kernel.out.line(f"if (!{call}) return;")


def fill_of(kernel: CudaKernel, partial: Partial) -> str:
    """What nothing folds to."""
    return kernel.expressions.print(partial.fill, partial.name)


def joined_to(kernel: CudaKernel, partial: Partial, held: str, value: Expression) -> str:
    """What `held` is with one more value."""
    joined = join(partial.operation, Ref(held, partial.kept), value)
    return kernel.expressions.print(joined, partial.name)
