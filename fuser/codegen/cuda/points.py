"""CUDA C++ for the points of a row: which a thread takes, and where whole vectors begin.

`round` numbers what a thread does of a row.
"""

from __future__ import annotations

from fuser.codegen.cuda.ahead import in_rounds, loads_ahead
from fuser.codegen.cuda.kept import is_copied
from fuser.codegen.cuda.kernel import CudaKernel
from fuser.codegen.cuda.lanes import times
from fuser.codegen.cuda.teams import count_of, nest_of, unravel
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.counts import ceil_div, power_of_two
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import Store

_VECTORS_AHEAD, _ELEMENTS_AHEAD = 4, 8
"""Rounds of a long row whose loads are to be on their way at once."""


def over_points(kernel: CudaKernel, loop: Loop) -> None:
    """The threads of a team take every so many points."""
    nest = nest_of(loop)
    last = nest[-1]
    name = kernel.sizes.axis(loop.axis) if len(nest) == 1 else "point"
    axes = "_".join(kernel.sizes.axis(n.axis) for n in nest)
    by_lanes = f"_by_{last.step}" if last.step > 1 else ""  # sweeps may differ in their lanes
    count = count_of(kernel, f"points_{axes}{by_lanes}", nest)
    if last.peel:
        _find_ends(kernel, name, last)
        count = f"{name}_end"
    start, count = kernel.around.ranges.get(loop.axis, ("", count))
    step = last.step if len(nest) == 1 else 1
    with kernel.sharing(last):
        if last.rounds:
            _in_rounds(kernel, nest, name, count, step)
        else:
            _in_turn(kernel, nest, name, start, count, step)
        if any(isinstance(node, Keep) and is_copied(kernel, node.name) for node in last.body):
            kernel.out.line(f"{kernel.expressions.use('wait_for_copies')}();")


def _in_rounds(kernel: CudaKernel, nest: list[Loop], name: str, count: str, step: int) -> None:
    """As many rounds as the text says, so that what is kept lies in registers."""
    number, threads = "round", kernel.facts.threads
    if kernel.is_split:
        number = f"{kernel.index}(round * gridDim.y + blockIdx.y)"
    number = number if threads == 1 else f"{number} * {threads} + {kernel.around.thread}"
    first = times(number, step) + (f" + {name}_head" if nest[-1].peel else "")
    sure = _sure_rounds(kernel, nest)
    beyond = f"{name} >= {count}"
    beyond = f"round >= {sure} && {beyond}" if sure else beyond
    if _idles(kernel):
        beyond = f"!active || ({beyond})" if sure else f"!active || {beyond}"

    def begin() -> None:
        kernel.out.line(f"const {kernel.index} {name} = {first};")
        kernel.out.line(f"if ({beyond}) continue;")
        unravel(kernel, nest, name)

    in_rounds(kernel, nest[-1], "round", nest[-1].rounds, begin)


def _in_turn(
    kernel: CudaKernel, nest: list[Loop], name: str, start: str, count: str, step: int
) -> None:
    """As many rounds as the row's length takes."""
    body = nest[-1].body
    counts = any(isinstance(node, Keep | Kept) for node in every_node(body))
    first = kernel.around.thread
    if kernel.around.in_rows and kernel.is_split:
        first = f"{kernel.index}(blockIdx.y) * {kernel.facts.threads} + {first}"
    first = times(first, step) + (f" + {name}_head" if nest[-1].peel else "")
    first = f"{start} + {first}" if start else first
    stride = times(_point_stride(kernel), step)
    begin = f"{kernel.index} {name} = {first}" + (", round = 0" if counts else "")
    onwards = f"{name} += {stride}" + (", ++round" if counts else "")
    inner = (node for node in body if isinstance(node, Loop))
    is_flat = all(loop.binding is Binding.LANES for loop in inner)
    only_reads = not any(isinstance(node, Store | Keep) for node in body)
    if only_reads and kernel.around.in_rows and is_flat:
        in_vectors = nest[-1].step > 1
        ahead = _VECTORS_AHEAD if in_vectors else _ELEMENTS_AHEAD
        if kernel.is_split and in_vectors and loads_ahead(nest[-1], ahead):
            _some_at_once(kernel, nest, name, (first, count, stride), ahead)
            return
        kernel.out.line(f"#pragma unroll {ahead}")
    idle = "active && " if _idles(kernel) else ""
    with kernel.out.block(f"for ({begin}; {idle}{name} < {count}; {onwards})"):
        unravel(kernel, nest, name)
        kernel.nodes(body)


def _some_at_once(
    kernel: CudaKernel, nest: list[Loop], name: str, span: tuple[str, str, str], ahead: int
) -> None:
    """As many rounds as the row's length takes, `ahead` of them at once. A compiler that does not
    know the stride may unroll rounds, but wait for the loads of each before it asks whether the
    next is there."""
    (first, count, stride), index = span, kernel.index
    onwards = f"{name}_first += {ahead} * {name}_stride"

    def begin() -> None:
        kernel.out.line(f"const {index} {name} = {name}_first + ahead * {name}_stride;")
        kernel.out.line(f"if ({name} >= {count}) continue;")
        unravel(kernel, nest, name)

    begins = f"{index} {name}_first = {first}, {name}_stride = {stride}"
    head = f"{begins}; {name}_first < {count}; {onwards}"
    with kernel.out.block(f"for ({head})"):
        in_rounds(kernel, nest[-1], "ahead", ahead, begin)


def _sure_rounds(kernel: CudaKernel, nest: list[Loop]) -> int:
    """Rounds in which every thread has points: more than half of as many as there are rounds
    for are there, where that number is the next power of two."""
    *outer, last = nest
    alone = kernel.facts.team in (Team.WARP, Team.COLUMN) and not kernel.is_split
    vectors = ceil_div(last.axis.extent, last.step)
    rounded = power_of_two(vectors) == last.rounds * kernel.facts.threads
    return last.rounds // 2 if alone and rounded and not outer and not last.peel else 0


def _idles(kernel: CudaKernel) -> bool:
    """Whether a thread without a row does no points: it would read what others overwrite."""
    return kernel.around.in_rows and kernel.facts.may_idle and kernel.facts.team is Team.WARP


def _point_stride(kernel: CudaKernel) -> str:
    if not kernel.around.in_rows:
        return str(kernel.facts.block_threads)
    # Of a signed type: with an unsigned step, the compiler does not know how many rounds there
    # are, and the loads of unrolled ones wait for each other.
    grid = f"{kernel.index}(gridDim.y) * " if kernel.is_split else ""
    grid = f"{kernel.index}(gridDim.x) * " if kernel.facts.team is Team.GRID else grid
    return f"{grid}{kernel.facts.threads}"


def _find_ends(kernel: CudaKernel, name: str, loop: Loop) -> None:
    """How many elements come before the whole vectors of a row, and where these end."""
    if name in kernel.peeled or loop.peel is None:
        return
    kernel.peeled.add(name)
    peel, extent = loop.peel, kernel.sizes.extent(loop.axis)
    at = kernel.sizes.index(peel.at, f"{name}_start")
    stored = peel.tensor in kernel.segment.stores
    pointer = f"{peel.tensor}_{'out' if stored else 'in'} + ({at})"
    call = f"{kernel.expressions.use('before_aligned')}<{peel.lanes}>({pointer}, {extent})"
    kernel.out.line(f"const {kernel.index} {name}_head = {call};")
    whole = f"({extent} - {name}_head) / {loop.step} * {loop.step}"
    kernel.out.line(f"const {kernel.index} {name}_end = {name}_head + {whole};")


def over_ends(kernel: CudaKernel, loop: Loop) -> None:
    """Single elements before and after the whole vectors of a row, for the first threads."""
    name, extent = kernel.sizes.axis(loop.axis), kernel.sizes.extent(loop.axis)
    behind = f"{name}_end - {name}_head + {kernel.around.thread}"
    own = f"{kernel.around.thread} < {name}_head ? {kernel.around.thread} : {behind}"
    mine = " && blockIdx.y == 0" if kernel.is_split else ""
    block = f"if (const {kernel.index} {name} = {own}; {name} < {extent}{mine})"
    with kernel.sharing(loop), kernel.out.block(block):
        kernel.nodes(loop.body)
