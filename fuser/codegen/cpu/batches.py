"""C++ for batches of short rows on the CPU target: each stage for all of them before the next."""

from __future__ import annotations

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import KeepLanes


def over_batches(kernel: CpuKernel, loop: Loop) -> None:
    """Batches of rows, the last of which is moved back to end in range."""
    index, extent = kernel.index, kernel.sizes.extent(loop.axis)
    with kernel.out.block(f"for ({index} batch = 0; batch < {extent}; batch += {loop.step})"):
        last = f"{extent} - {loop.step}"
        kernel.out.line(f"const {index} first_row = batch < {last} ? batch : {last};")
        with kernel.within(batch=loop):
            kernel.nodes(loop.body)


def over_rows_of_batch(kernel: CpuKernel, loop: Loop) -> None:
    """What is done with each row of a batch."""
    for node in loop.body:
        if isinstance(node, KeepLanes):
            type_, count = kernel.expressions.type(node.join.kept), node.join.count
            room = f"{node.join.name}_batch[{loop.step}][{count}]"
            kernel.out.line(f"alignas(64) {type_} {room};")
    with kernel.out.block(f"for (int row = 0; row < {loop.step}; ++row)"):
        kernel.out.line(f"const {kernel.index} {kernel.sizes.axis(loop.axis)} = first_row + row;")
        with kernel.within(row_of_batch=True):
            kernel.nodes(loop.body)


def is_of_batch(kernel: CpuKernel) -> bool:
    """Whether what is printed is done for all rows of a batch at once."""
    return kernel.around.batch is not None and not kernel.around.row_of_batch


def kept_count(kernel: CpuKernel, axes: tuple[Axis, ...]) -> str:
    """Of how many elements there is room for what is kept along axes."""
    elements = " * ".join(map(kernel.sizes.extent, axes))
    batch = kernel.around.batch
    if batch is None:
        return elements
    rows = str(batch.step)
    return rows if axes == (batch.axis,) else f"{rows} * {elements}"


def kept_at(kernel: CpuKernel, axes: tuple[Axis, ...]) -> str:
    """Where the element at hand is kept."""
    batch = kernel.around.batch
    if batch is not None and axes == (batch.axis,):
        return "row"
    at = "" if batch is None else "row"
    for axis in axes:
        before = f"({at})" if "+" in at else at
        name = kernel.sizes.axis(axis)
        at = f"{before} * {kernel.sizes.extent(axis)} + {name}" if at else name
    return at
