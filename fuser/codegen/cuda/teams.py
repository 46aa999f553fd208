"""CUDA C++ for teams of threads: which rows a team takes, and which thread acts for it.

`thread` numbers the threads of a team in a block.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.indices import index_in_range, reported_index
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.loop_tree import Alone, Loop, every_node
from fuser.schedule.tree.names import own_name
from fuser.schedule.tree.statements import CheckedIndex


def in_turn(kernel: CudaKernel, loop: Loop) -> None:
    """One after the other: as many as the axis has or, unrolled, as the text says."""
    name, extent = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
    if loop.rounds:
        kernel.out.line("#pragma unroll")
    most = loop.rounds or extent
    with kernel.out.block(f"for ({kernel.index} {name} = 0; {name} < {most}; ++{name})"):
        if loop.rounds:
            kernel.out.line(f"if ({name} >= {extent}) continue;")
        kernel.nodes(loop.body)


def checked_index(kernel: CudaKernel, node: CheckedIndex) -> None:
    """An index that is another number where it is out of range. That of a row that is not
    there, which may be made of what nothing was folded to, is not reported."""
    name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
    index = index_in_range(kernel, node)
    if kernel.reports_indices and node.reports:
        idles = kernel.around.in_rows and kernel.facts.may_idle
        reported = reported_index(kernel, node)
        index = f"active ? {reported} : {index}" if idles else reported
    kernel.out.line(f"{name} = {index};")


def once_a_row(kernel: CudaKernel) -> AbstractContextManager[None]:
    """Print, meanwhile, what one thread does for all; of points of its own, each does."""
    conditions = ["active"] if kernel.around.in_rows and kernel.facts.may_idle else []
    conditions += once(kernel)
    return kernel.out.block(f"if ({' && '.join(conditions)})") if conditions else nullcontext()


def alone(kernel: CudaKernel, node: Alone) -> None:
    """What one thread does for all; what it makes for later is held outside of its block."""
    for made in node.later:
        kernel.out.line(f"{kernel.expressions.type(made.dtype)} {own_name(made.name)};")
    with once_a_row(kernel), kernel.within(alone=True):
        for read in node.reads:
            type_ = kernel.expressions.type(read.dtype)
            kernel.out.line(f"const {type_} {read.name} = {own_name(read.name)};")
        kernel.nodes(node.body)
        for made in node.later:
            kernel.out.line(f"{own_name(made.name)} = {made.name};")


def of_a_column(kernel: CudaKernel) -> AbstractContextManager[None]:
    """Print, meanwhile, what threads of a column do only if their row is there: those of a warp
    that have none do nothing at its points."""
    is_column = kernel.around.in_rows and kernel.facts.team is Team.COLUMN
    return kernel.out.block("if (active)") if is_column else nullcontext()


def once(kernel: CudaKernel) -> list[str]:
    """What is so of the thread that does something once for a row, or at the end; nothing, where
    each has points of its own, or does a row, or the only point, without others."""
    around, facts = kernel.around, kernel.facts
    is_alone = facts.team is None or around.alone or (around.in_rows and facts.threads == 1)
    if around.sharing or is_alone:
        return []
    block = " && blockIdx.y == 0" if around.in_rows and facts.in_cluster else ""
    return [f"{around.thread} == 0{block}"]


def meet(kernel: CudaKernel) -> None:
    """The threads of a team wait for each other."""
    kernel.out.line("__syncwarp();" if kernel.facts.team is Team.WARP else "__syncthreads();")


def begin_team(kernel: CudaKernel) -> None:
    """Which thread of its team each is, and where the team meets."""
    x, _, _ = kernel.nest.launch.block
    match kernel.facts.team:
        case Team.WARP | Team.BLOCK:
            thread = "int thread = threadIdx.x" if x > 1 else "int thread = 0"
        case Team.COLUMN:
            thread = "int thread = threadIdx.y"
        case Team.GRID:  # the rounds of a block are next to each other
            loops = (node for node in every_node(kernel.nest.body) if isinstance(node, Loop))
            rounds = max([1, *(loop.rounds for loop in loops if loop.binding is Binding.TEAM)])
            first = f"{kernel.index}(blockIdx.x) * {x * rounds}"
            thread = f"{kernel.index} thread = {first} + threadIdx.x"
        case None:
            raise AssertionError("points are not done by teams")
    kernel.out.line(f"const {thread};")
    if kernel.facts.team is not Team.GRID:
        _shared_memory(kernel)
    if kernel.nest.launch.shared_bytes:
        kernel.out.line("extern __shared__ __align__(16) unsigned char row_memory[];")


def _shared_memory(kernel: CudaKernel) -> None:
    """Room in which threads of a block exchange a number each, or warps one each."""
    rooms = max(kernel.facts.joins, 1) if kernel.facts.has_several else 1
    nbytes = rooms * kernel.facts.exchanged_bytes
    kernel.out.line(f"alignas(8) __shared__ unsigned char shared[{nbytes}];")
    if kernel.facts.in_cluster and kernel.facts.joins:
        warps = kernel.nest.launch.cluster * kernel.facts.exchanged_bytes // 8
        kernel.out.line(f"__shared__ {kernel.expressions.use('cluster_mail')}<{warps}> mail;")
        kernel.out.line("unsigned int joined = 0;")
        kernel.out.line(f"{kernel.expressions.use('open_barriers')}(mail.barriers);")


def over_rows(kernel: CudaKernel, loop: Loop) -> None:
    """A team takes every so many rows; its threads stay together."""
    nest = nest_of(loop)
    name = kernel.sizes.axis(loop.axis) if len(nest) == 1 else "row"
    rows = count_of(kernel, "rows", nest)
    x, y, _ = kernel.nest.launch.block
    block, place = f"{kernel.index}(blockIdx.x)", f"tile + {kernel.index}(threadIdx.x)"
    if kernel.facts.team is Team.COLUMN:
        first, step = f"{block} * {x}", f" * {x}"
    elif kernel.facts.may_idle:
        of_warp = WARP // kernel.facts.threads
        place = f"tile + {kernel.index}(threadIdx.y % {of_warp})"
        first, step = f"{block} * {y} + threadIdx.y / {of_warp} * {of_warp}", f" * {y}"
    elif kernel.facts.has_several:  # what is left after whole rounds is for all blocks
        first, step = f"{kernel.index}(threadIdx.y) * gridDim.x + blockIdx.x", f" * {y}"
    elif kernel.facts.team is Team.WARP:
        first, step = f"{block} * {y} + threadIdx.y", f" * {y}"
    else:
        first, step = block, ""
    at = "tile" if kernel.facts.may_idle else name
    head = f"{kernel.index} {at} = {first}; {at} < {rows}; {at} += gridDim.x{step}"
    with kernel.out.block(f"for ({head})"):
        if kernel.facts.may_idle:
            kernel.out.line(f"const bool active = {place} < {rows};")
            kernel.out.line(f"const {kernel.index} {name} = active ? {place} : {rows} - 1;")
        unravel(kernel, nest, name)
        if kernel.facts.repeated:
            kernel.out.line(f"const int zero_of_row = {kernel.expressions.use('unknown_zero')}();")
        with kernel.within(row=name, row_axes=tuple(each.axis for each in nest)):
            kernel.nodes(nest[-1].body)


def count_of(kernel: CudaKernel, name: str, nest: list[Loop]) -> str:
    """The name of the number of iterations of a nest, all steps of them."""
    if len(nest) == 1:
        return kernel.sizes.extent(nest[0].axis)
    return kernel.sizes.parameter(name, math.prod(n.axis.extent // n.step for n in nest))


def unravel(kernel: CudaKernel, nest: list[Loop], number: str) -> None:
    """The indices of a nest from the number of its iteration."""
    if len(nest) == 1:
        return
    kernel.out.line(f"{kernel.index} left = {number};")
    for loop in reversed(nest[1:]):
        name, extent = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
        count, over = loop.axis.extent // loop.step, f"{name}_over"
        if loop.step > 1:
            extent = kernel.sizes.parameter(f"{extent}_by_{loop.step}", count)
        divided = kernel.sizes.quotient("left", extent, count)
        rest = f"left - {over} * {extent}"
        rest = f"({rest}) * {loop.step}" if loop.step > 1 else rest
        kernel.out.line(f"const {kernel.index} {over} = {divided};")
        kernel.out.line(f"const {kernel.index} {name} = {rest};")
        kernel.out.line(f"left = {over};")
    kernel.out.line(f"const {kernel.index} {kernel.sizes.axis(nest[0].axis)} = left;")


def nest_of(loop: Loop) -> list[Loop]:
    """A loop and the loops inside it that the same threads share out."""
    nest = [loop]
    while True:
        inside = nest[-1].body[0]
        if not isinstance(inside, Loop) or inside.binding is not loop.binding:
            return nest
        nest.append(inside)
