"""C++ for loops of rows on the CPU target, by what runs them: shared out over threads, in blocks,
side by side, or one after the other."""

from __future__ import annotations

from fuser.codegen.cpu.batches import over_batches, over_rows_of_batch
from fuser.codegen.cpu.checks import side_by_side
from fuser.codegen.cpu.chunks import over_chunk_in_turn, over_chunks, over_lanes_of_chunk
from fuser.codegen.cpu.folds import much_is_joined
from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.rounds import over_rounds
from fuser.codegen.cpu.scans import over_scanned_chunks
from fuser.codegen.cpu.scatter import block_size, shares
from fuser.codegen.cpu.strips import (
    choose_strip,
    over_columns,
    over_rows_of_strip,
    over_strips,
    over_unrolled,
)
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Share

_BLOCK = "block_size"
"""What a block's size is called in the text, if it is no number."""

_OVER_THREADS = (Binding.PARALLEL, Binding.STRIP, Binding.BLOCKS, Binding.BATCHES)


def over_axis(kernel: CpuKernel, loop: Loop) -> None:
    """A loop over all of an axis, or a part of it."""
    if any(isinstance(node, Share) for node in loop.body):
        kernel.count_threads()
    if loop.span is None:
        _over_range(kernel, loop)
        return
    first, end = (kernel.sizes.bound(loop.axis, place) for place in loop.span)
    with kernel.in_range(loop.axis, first, end):
        _over_range(kernel, loop)


def _over_range(kernel: CpuKernel, loop: Loop) -> None:
    """A loop over the range at hand, by its binding."""
    match loop.binding:
        case Binding.PARALLEL | Binding.BLOCKS | Binding.STRIP | Binding.BATCHES | Binding.JOINED:
            _over_threads(kernel, loop)
        case Binding.SIMD:
            _in_lanes(kernel, loop)
        case Binding.SERIAL:
            kernel.in_turn(loop)
        case Binding.CHUNKS:
            over_chunks(kernel, loop)
        case Binding.CHUNK_IN_TURN:
            over_chunk_in_turn(kernel, loop)
        case Binding.SWEEP | Binding.ROUNDS:
            over_rounds(kernel, loop)
        case Binding.SCAN:
            over_scanned_chunks(kernel, loop)
        case Binding.BATCH_LANES:
            with side_by_side(kernel, loop, "simd"):
                over_rows_of_batch(kernel, loop)
        case Binding.BATCH_IN_TURN:
            over_rows_of_batch(kernel, loop)
        case Binding.COLUMNS:
            over_columns(kernel, loop)
        case Binding.STRIP_LANES:
            with side_by_side(kernel, loop, "simd"):
                over_rows_of_strip(kernel, loop)
        case Binding.STRIP_IN_TURN:
            over_rows_of_strip(kernel, loop)
        case Binding.UNROLLED:
            over_unrolled(kernel, loop)
        case _:
            raise AssertionError(f"no row of a processor is swept by {loop.binding.name}")


def _over_threads(kernel: CpuKernel, loop: Loop) -> None:
    """The outermost loop over threads shares out its iterations, with those of the next."""
    around = kernel.around
    if not around.divided:
        choose_strip(kernel, loop)
        _choose_block(kernel, loop)
        joins = loop.binding is Binding.JOINED
        worth = much_is_joined(kernel, loop) if joins else "threaded"
        collapse = " collapse(2)" if _holds_over_threads(loop) else ""
        clauses = f"for{collapse}{shares(kernel, loop)}"
        if around.threads_started:
            kernel.out.line(f"#pragma omp {clauses}")
        else:
            kernel.start_threads(f"{clauses} if ({worth})")
    with kernel.within(divided=True):
        match loop.binding:
            case Binding.BLOCKS:
                _over_blocks(kernel, loop)
            case Binding.STRIP:
                over_strips(kernel, loop)
            case Binding.BATCHES:
                over_batches(kernel, loop)
            case _:
                kernel.in_turn(loop)


def _holds_over_threads(loop: Loop) -> bool:
    """Whether all that a loop does is another loop over threads."""
    inside = loop.body[0]
    return len(loop.body) == 1 and isinstance(inside, Loop) and inside.binding in _OVER_THREADS


def _in_lanes(kernel: CpuKernel, loop: Loop) -> None:
    """Elements, or rows, in the lanes of vectors as a compiler arranges them."""
    around = kernel.around
    kernel.sizes.in_lanes(loop.axis)
    if around.chunk is not None and loop.axis == around.chunk.axis:
        over_lanes_of_chunk(kernel, loop, around.chunk)
        return
    alone = not around.divided and not around.threads_started
    threads = "parallel for simd if (parallel : threaded)" if alone else "simd"
    with side_by_side(kernel, loop, threads, kernel.has_points(loop)):
        kernel.in_turn(loop)


def _choose_block(kernel: CpuKernel, loop: Loop) -> None:
    """How many elements a block has, if that depends on how many threads there are."""
    if loop.binding is Binding.BLOCKS and loop.unit > 1:
        extent, here = kernel.sizes.extent(loop.axis), kernel.expressions.use("threads_here")
        shared = f"{kernel.expressions.use('part_of_round')}({extent}, {here}(), {loop.step}, "
        kernel.out.line(f"const {kernel.index} {_BLOCK} = {shared}{loop.unit});")


def _over_blocks(kernel: CpuKernel, loop: Loop) -> None:
    """Blocks of an axis, or of a block of it."""
    index, (first, end) = kernel.index, kernel.range_of(loop.axis)
    name = "block" if first == "0" else "inner_block"
    size = _BLOCK if loop.unit > 1 else block_size(kernel, loop)
    head = f"for ({index} {name} = {first}; {name} < {end}; {name} += {size})"
    with kernel.out.block(head):
        left = f"{end} - {name}"
        last = f"{name} + ({left} < {size} ? {left} : {size})"
        kernel.out.line(f"const {index} {name}_end = {last};")
        with kernel.in_range(loop.axis, name, f"{name}_end"):
            kernel.nodes(loop.body)
