"""CUDA C++ for scans: the rounds of a team, or a part of a row for every block.

`carry` is what came before the points at hand, the same in all threads of a team.
"""

from __future__ import annotations

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import times
from fuser.codegen.kernel_source import Workspace
from fuser.ir.dtypes import DataType
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.loop_tree import Loop, Share
from fuser.schedule.tree.row_statements import Carry, ScanLanes


def in_order(kernel: CudaKernel, loop: Loop) -> None:
    """Rounds in which the lanes of the team's threads follow each other; all threads take part
    in each, so that they meet."""
    name = kernel.sizes.axis(loop.axis)
    begin, end = kernel.range_of(loop.axis)
    round_, step = f"{name}_round", kernel.facts.threads * loop.step
    head = f"{kernel.index} {round_} = {begin}; {round_} < {end}; {round_} += {step}"
    own = times(kernel.around.thread, loop.step)
    with kernel.sharing(loop), kernel.out.block(f"for ({head})"):
        kernel.out.line(f"const {kernel.index} {name} = {round_} + {own};")
        kernel.nodes(loop.body)


def scan_lanes(kernel: CudaKernel, node: ScanLanes) -> None:
    """The lanes of all threads of a team, each joined to what came before."""
    given = f"{node.array}, {node.carry.name}, {_joiner(kernel, node.carry)}"
    match kernel.facts.team:
        case Team.WARP:
            call = f"{kernel.expressions.use('scan_warp')}({given})"
        case Team.COLUMN:
            shape = f"{kernel.facts.threads}, {kernel.facts.columns}"
            call = f"{kernel.expressions.use('scan_column')}<{shape}>({given}, shared)"
        case Team.BLOCK | Team.GRID:
            call = f"{kernel.expressions.use('scan_block')}<{kernel.facts.warps}>({given}, shared)"
        case None:
            raise AssertionError("points are not done by teams")
    sharing = kernel.around.sharing
    if sharing is None or not sharing.turned:
        kernel.out.line(f"{call};")
        return
    turn = f"{kernel.expressions.use('turn_lanes')}({node.array});"
    for line in (turn, f"{call};", turn):
        kernel.out.line(line)


def _joiner(kernel: CudaKernel, carry: Carry) -> str:
    """A function that joins what comes later to what came before."""
    return kernel.joiner(carry.operation, carry.dtype, carry.name)


def share(kernel: CudaKernel, node: Share) -> None:
    """Each block takes a part, leaves its total, and goes on from the totals before it."""
    rows, parts, _ = kernel.nest.launch.grid
    extent = kernel.sizes.extent(node.axis)
    counters = rows * (parts + 2)
    shares = Workspace("shares", DataType.Int32, counters, zeroed=True, restored=True)
    kernel.workspaces.append(shares)
    count = kernel.sizes.parameter("share", node.step)
    take = kernel.expressions.use("take_part")
    kernel.out.line("int* const of_row = shares + blockIdx.x * (gridDim.y + 2);")
    kernel.out.line(f"const {kernel.index} part = {take}(of_row);")
    kernel.out.line(f"const {kernel.index} begin = part * {count};")
    end = f"begin + {count} < {extent} ? begin + {count} : {extent}"
    kernel.out.line(f"const {kernel.index} end = {end};")
    first = "blockIdx.x * gridDim.y"
    with kernel.in_range(node.axis, "begin", "end"):
        kernel.nodes(node.totals)
        for carry in node.carries:
            kernel.workspaces.append(Workspace(f"{carry.total}s", carry.dtype, rows * parts))
            left = f"{carry.total}s[{first} + part] = {carry.total};"
            kernel.out.line(f"if ({kernel.around.thread} == 0) {left}")
        hand, wait = map(kernel.expressions.use, ("hand_on", "wait_for_parts"))
        kernel.out.line(f"{hand}(of_row, part);")
        kernel.out.line(f"{wait}(of_row, part, gridDim.y);")
        for carry in node.carries:
            none = kernel.expressions.print(carry.fill, carry.name)
            call = f"{kernel.expressions.use('carry_to_part')}<{kernel.facts.warps}>"
            given = f"{carry.total}s + {first}, part, {none}, {_joiner(kernel, carry)}"
            kernel.begin_carry(carry, f"{call}({given}, shared)")
        kernel.nodes(node.body)
