"""C++ for scans on the CPU target: chunks of a row in order, or a part of it for every thread."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.strips import rows_side_by_side
from fuser.codegen.cpu.surroundings import Chunk, Stored
from fuser.schedule.indices.index import ZERO, Axis
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.loop_tree import Loop, Share
from fuser.schedule.tree.row_statements import Carry, ScanLanes
from fuser.schedule.tree.statements import Lanes, Store

_JOINS = {
    "add": "running_sum",
    "mul": "running_product",
    "maximum": "running_maximum",
    "minimum": "running_minimum",
}

_COLUMNS = 128
"""Columns whose totals are whole lines of the cache, two of them, of any type."""


def scan_lanes(kernel: CpuKernel, node: ScanLanes) -> None:
    """The lanes of a chunk, joined in order to what comes before them."""
    chunk, join = kernel.around.chunk, kernel.expressions.use(_JOINS[node.carry.operation])
    none = kernel.expressions.print(node.carry.fill, node.array)
    backwards = "true" if chunk is not None and chunk.turned else "false"
    call = f"{kernel.expressions.use('scan_lanes')}<{join}, {backwards}>"
    kernel.out.line(f"{call}({node.array}, count, {none}, {node.carry.name});")


def over_scanned_chunks(kernel: CpuKernel, loop: Loop) -> None:
    """Chunks in order, of which `count` lanes have a point; what is stored past the cache begins
    where memory is aligned."""
    number = next(kernel.numbers)
    index, name = kernel.index, kernel.sizes.axis(loop.axis)
    first, extent = kernel.range_of(loop.axis)
    known = set(kernel.expressions.lane_arrays)
    given = "begin" if loop.turned else name
    chunk = Chunk(loop.axis, Stored.COUNTED, turned=loop.turned)
    with (
        kernel.function(f"scan{number}", f"const {index} {given}, const int count"),
        kernel.within(chunk=chunk, lanes_used="count"),
    ):
        if loop.turned:
            kernel.out.line(f"const {index} {name} = begin + count - 1;")
        kernel.out.line(f"const {index} first = {name};")
        kernel.nodes(loop.body)
    kernel.expressions.lane_arrays.intersection_update(known)
    length = f"length{number}"
    kernel.out.line(f"int {length} = {_first_chunk(kernel, loop, first)};")
    start = f"start{number}"
    onwards = f"{start} += {length}, {length} = {loop.step}"
    loop_head = f"for ({index} {start} = {first}; {start} < {extent}; {onwards})"
    with kernel.out.block(loop_head):
        left = f"{extent} - {start}"
        kernel.out.line(f"if ({length} > {left}) {length} = int({left});")
        kernel.out.line(f"if ({length} == {loop.step}) scan{number}({start}, {loop.step});")
        kernel.out.line(f"else scan{number}({start}, {length});")


def _first_chunk(kernel: CpuKernel, loop: Loop, first: str) -> str:
    """Elements up to where memory is aligned as stores past the cache need it; as many as of
    other chunks, if it is so from the beginning."""
    store = next((n for n in loop.body if isinstance(n, Store) and n.lanes > 1), None)
    if store is None:
        return str(loop.step)
    kernel.expressions.use("stream_vector")
    at = kernel.sizes.index(substitute(store.at, {loop.axis: ZERO}), store.tensor.name)
    place = f"{store.tensor}_out" if at == "0" else f"{store.tensor}_out + {at}"
    if first != "0":
        place += f" - {first}" if loop.turned else f" + {first}"
    if loop.turned:  # chunks end before what is given
        return f"{kernel.expressions.use('down_to_alignment')}({place} + 1, {loop.step})"
    return f"{kernel.expressions.use('up_to_alignment')}({place}, {loop.step})"


# -- a row on all threads ------------------------------------------------------------------------


def share(kernel: CpuKernel, node: Share) -> None:
    """Every thread has the totals of a part, then what comes before it, then scans the part."""
    kernel.count_threads()
    places = "threads * 2"
    if node.columns:
        of_lines = f"({kernel.lanes_used(1)} + {_COLUMNS - 1}) / {_COLUMNS} * {_COLUMNS}"
        kernel.out.line(f"const int slots = {of_lines};")
        places += " * slots"
    for carry in node.carries:
        type_, room = kernel.expressions.type(carry.dtype), kernel.expressions.use("on_own_lines")
        kernel.out.line(f"{type_}* const {carry.total}s = {room}<{type_}>({places});")
    kernel.start_threads("num_threads(threads)")
    with kernel.out.block(""):
        _on_team(kernel, node)
        kernel.fence()
    for carry in node.carries:
        kernel.out.line(f"__builtin_free({carry.total}s);")


def _on_team(kernel: CpuKernel, node: Share) -> None:
    """What each thread does: totals of a part are kept while those of the next are made, so
    that threads meet once a part."""
    index, extent = kernel.index, kernel.sizes.extent(node.axis)
    here, number = kernel.expressions.use("threads_here"), kernel.expressions.use("thread_number")
    kernel.out.line(f"const int team = {here}(), thread = {number}();")
    step = kernel.sizes.parameter(f"{node.carries[0].name}_step", node.step)
    part = f"{kernel.expressions.use('part_of_round')}({extent}, team, {step}, {node.unit})"
    kernel.out.line(f"const {index} part = {part};")
    for carry in node.carries:
        kernel.node(_in_columns(carry, node.columns) if node.columns else carry)
    onwards = "block += part * team, turn ^= 1"
    with kernel.out.block(f"for ({index} block = 0, turn = 0; block < {extent}; {onwards})"):
        for name, first in (("begin", "thread"), ("end", "(thread + 1)")):
            place = f"block + part * {first}"
            kernel.out.line(f"const {index} {name} = {place} < {extent} ? {place} : {extent};")
        with kernel.out.block("if (team > 1)"):
            _totals(kernel, node)
            kernel.out.line("#pragma omp barrier")
        _join_parts(kernel, node, "0", "thread")
        with kernel.in_range(node.axis, "begin", "end"):
            kernel.nodes(node.body)
        _join_parts(kernel, node, "thread + 1", "team")


def _totals(kernel: CpuKernel, node: Share) -> None:
    """What this thread's part comes to, where all threads can read it."""
    with kernel.in_range(node.axis, "begin", "end"):
        kernel.nodes(node.totals)
    with _each_column(kernel, node):
        for carry in node.carries:
            own = f"{carry.total}s{_place(node, 'thread')}"
            kernel.out.line(f"{own} = {carry.total}{_column(node)};")


def _join_parts(kernel: CpuKernel, node: Share, first: str, end: str) -> None:
    """Joins to the carries what the parts of some threads come to."""
    with (
        kernel.out.block(f"for (int other = {first}; other < {end}; ++other)"),
        _each_column(kernel, node),
    ):
        for carry in node.carries:
            held = Ref(f"{carry.name}{_column(node)}", carry.dtype)
            total = Ref(f"{carry.total}s{_place(node, 'other')}", carry.dtype)
            joined = kernel.expressions.print(join(carry.operation, held, total), carry.name)
            kernel.out.line(f"{held.name} = {joined};")


def _each_column(kernel: CpuKernel, node: Share) -> AbstractContextManager[None]:
    """A loop over the rows side by side, if there are any."""
    return rows_side_by_side(kernel) if node.columns else nullcontext()


def _in_columns(carry: Carry, columns: Axis) -> Lanes:
    return Lanes(carry.name, carry.dtype, columns.extent, carry.fill)


def _column(node: Share) -> str:
    """Which of a thread's numbers is a column's."""
    return "[lane]" if node.columns else ""


def _place(node: Share, thread: str) -> str:
    """Which of the totals is a thread's, or in it a column's."""
    place = f"turn * threads + {thread}"
    return f"[({place}) * slots + lane]" if node.columns else f"[{place}]"
