"""C++ for chunks of a row on the CPU target: computed in registers, then stored at once."""

from __future__ import annotations

from fuser.codegen.cpu.checks import side_by_side
from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.surroundings import Chunk, Stored
from fuser.schedule.indices.index import ZERO
from fuser.schedule.indices.rewrites import substitute
from fuser.schedule.tree.expressions import REPEATED, names_of
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import Accumulate
from fuser.schedule.tree.statements import Let, Store


def store_lanes(kernel: CpuKernel, store: Store) -> None:
    """A store of the chunk at hand, past the cache or not, by a call's sizes."""
    moved, chunk = kernel.lanes_to_memory(store), kernel.around.chunk
    match chunk and chunk.stored:
        case Stored.COUNTED:
            past_cache = kernel.past_cache()
            whole, some = kernel.chunk_store(store), kernel.expressions.use("store_lanes")
            kernel.out.line(f"if (count == {store.lanes}) {whole}({moved}, {past_cache});")
            kernel.out.line(f"else {some}({moved}, count);")
        case Stored.MOVED:
            write, past_cache = kernel.chunk_store(store, "moved"), kernel.past_cache()
            kernel.out.line(f"{write}({moved}, moved, {past_cache});")
        case Stored.AGAIN:  # rounds do not begin where lines of the cache do
            kernel.out.line(f"{kernel.chunk_store(store)}({moved}, false);")
        case _:
            raise AssertionError("only chunks of a row store several elements at once")


def over_chunks(kernel: CpuKernel, loop: Loop) -> None:
    """Chunks that start where vectors are aligned in the first tensor that is stored. The ones
    at the ends are moved into range, and of them is stored what no other chunk has."""
    index, name = kernel.index, kernel.sizes.axis(loop.axis)
    (begin, end), chunk = kernel.range_of(loop.axis), f"chunk{next(kernel.numbers)}"
    kernel.expressions.use("stream_vector")
    store = next(node for node in loop.body if isinstance(node, Store))
    at = kernel.sizes.index(substitute(store.at, {loop.axis: ZERO}), store.tensor.name)
    inside = begin != "0"
    at = f"{at} + {begin}" if inside else at
    size = kernel.expressions.type(store.dtype)
    past = f"{index}(past_alignment({store.tensor}_out + {at}) / sizeof({size}))"
    start = f"{begin} - {past}" if inside else f"-{past}"
    head = f"{index} {chunk} = {start}; {chunk} < {end}; {chunk} += {loop.step}"
    with kernel.out.block(f"for ({head})"):
        last = f"{end} - {loop.step}"
        in_range = f"{chunk} < {begin} ? {begin} : {chunk} < {last} ? {chunk} : {last}"
        kernel.out.line(f"const {index} {name} = {in_range};")
        kernel.out.line(f"const {index} first = {name};")
        kernel.out.line(f"const {index} moved = {name} - {chunk};")
        with kernel.within(chunk=Chunk(loop.axis, Stored.MOVED)):
            kernel.nodes(loop.body)


def over_lanes_of_chunk(kernel: CpuKernel, loop: Loop, chunk: Chunk) -> None:
    """The elements of a chunk side by side; inside, the axis is that of the element."""
    index, name = kernel.index, kernel.sizes.axis(loop.axis)
    lanes = f"for (int lane = 0; lane < {kernel.lanes_used(loop.step)}; ++lane)"
    with side_by_side(kernel, loop, "simd"), kernel.out.block(lanes):
        kernel.out.line(f"const {index} {name} = first {'-' if chunk.turned else '+'} lane;")
        if chunk.stored is Stored.AGAIN and REPEATED.name in _read_in(loop):
            kernel.out.line(f"const bool {REPEATED.name} = lane < done;")
        kernel.nodes(loop.body)


def over_chunk_in_turn(kernel: CpuKernel, loop: Loop) -> None:
    """The elements of a chunk, one after the other, but those that were done before."""
    with kernel.out.block(f"for (int lane = done; lane < {loop.step}; ++lane)"):
        kernel.out.line(f"const {kernel.index} {kernel.sizes.axis(loop.axis)} = first + lane;")
        kernel.nodes(loop.body)


def _read_in(loop: Loop) -> set[str]:
    """The names that are read in each lane."""
    lets = [node.expression for node in loop.body if isinstance(node, Let)]
    joined = [node.value for node in loop.body if isinstance(node, Accumulate)]
    return {name for expression in (*lets, *joined) for name in names_of(expression)}
