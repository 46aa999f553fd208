"""CUDA C++ for the lanes of a thread: neighbouring elements that vector accesses move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuser.codegen.cuda.kernel import CudaKernel
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import ZERO
from fuser.schedule.indices.rewrites import substitute, variables_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.buffers import ACCESS_BYTES
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Accumulate, Combine
from fuser.schedule.tree.statements import Let, Load, LoadRun, Store, StoreRun, reads_in

_WORDS_AHEAD = 32
"""Registers for what the lanes of a thread load before they compute, at most."""


def store_lanes(kernel: CudaKernel, store: Store) -> None:
    """Lanes of a thread to memory, in pieces or at once."""
    at = kernel.sizes.index(store.at, store.tensor.name)
    place = f"{store.tensor}_out + {grouped(at)}"
    move(kernel, "store", kernel.lanes_of(store), place, store.piece)


def load_lanes(kernel: CudaKernel, load: Load) -> None:
    """Lanes of a thread, from memory; or drawn, the first with a number that `piece` divides."""
    declare_lanes(kernel, load.name, load.dtype, load.lanes)
    if load.drawn is None:
        at = kernel.read_at(load, kernel.sizes.index(load.at, load.tensor.name))
        place = f"{load.tensor}_in + {grouped(at)}"
        move(kernel, "load", load.name, place, load.piece)
    else:
        draw = kernel.expressions.use("draw_vector")
        call = f"{draw}<{kernel.drawn_numbers(load, load.drawn)}, {load.piece or load.lanes}>"
        kernel.out.line(f"{call}({load.name}, {kernel.drawn_at(load, load.drawn)});")


def combine_lanes(kernel: CudaKernel, node: Combine) -> None:
    """One number of a vector: the largest or the smallest of its floats of 16 bits."""
    (lanes,), type_ = node.arrays, kernel.expressions.type(node.dtype)
    join = kernel.expressions.use("extreme_lane")
    largest = str(node.operation == "maximum").lower()
    kernel.out.line(f"const {type_} {node.name} = {join}<{largest}>({lanes});")


def load_run(kernel: CudaKernel, run: LoadRun) -> None:
    """Lanes of several names, which take turns in memory."""
    for name in run.names:
        kernel.expressions.known.loaded(name, run.tensor.dtype)
        declare_lanes(kernel, name, run.tensor.dtype, run.lanes)
    place = f"{run.tensor}_in + {grouped(kernel.sizes.index(run.at, run.tensor.name))}"
    call = f"{kernel.expressions.use('load_run')}<{run.piece}>"
    kernel.out.line(f"{call}({place}, {', '.join(run.names)});")


def store_run(kernel: CudaKernel, run: StoreRun) -> None:
    """Lanes of several names to memory, where they take turns."""
    place = f"{run.tensor}_out + {grouped(kernel.sizes.index(run.at, run.tensor.name))}"
    call = f"{kernel.expressions.use('store_run')}<{run.piece}>"
    kernel.out.line(f"{call}({place}, {', '.join(source.name for source in run.sources)});")


def declare_lanes(kernel: CudaKernel, name: str, dtype: DataType, lanes: int) -> None:
    """An array of what the lanes of a thread have."""
    kernel.expressions.lane_arrays.add(name)
    kernel.out.line(f"{kernel.expressions.type(dtype)} {name}[{lanes}];")


def declare_rounds(kernel: CudaKernel, name: str, dtype: DataType, rounds: int, lanes: int) -> None:
    """An array of what a thread has in each of some rounds: the lanes of it, or one element."""
    type_ = kernel.expressions.type(dtype)
    if lanes == 1:
        kernel.out.line(f"{type_} {name}[{rounds}];")
    else:
        aligned = f"alignas({min(lanes * dtype.itemsize, ACCESS_BYTES)})"
        kernel.out.line(f"{aligned} {type_} {name}[{rounds}][{lanes}];")


def put_lanes(kernel: CudaKernel, name: str, lanes: int, place: str) -> None:
    """The lanes of a thread, or its one element, to where they are read again."""
    if lanes == 1:
        kernel.out.line(f"{place} = {name};")
    else:
        kernel.out.line(f"{kernel.expressions.use('store_vector')}({name}, {place});")


def take_lanes(kernel: CudaKernel, name: str, dtype: DataType, lanes: int, place: str) -> None:
    """The lanes of a thread, or its one element, from where they were put."""
    if lanes == 1:
        kernel.expressions.lane_arrays.discard(name)
        kernel.out.line(f"const {kernel.expressions.type(dtype)} {name} = {place};")
    else:
        declare_lanes(kernel, name, dtype, lanes)
        kernel.out.line(f"{kernel.expressions.use('load_vector')}({name}, {place});")


def move(kernel: CudaKernel, verb: str, lanes: str, place: str, piece: int = 0) -> None:
    """Between lanes and memory, in pieces or at once; as many of them as there are."""
    sharing = kernel.around.sharing
    assert sharing is not None
    if sharing.whole and sharing.binding is Binding.SCAN:
        _move_if_there(kernel, verb, lanes, place, is_there(kernel, sharing))
        return
    if sharing.whole:
        function, count = "pieces" if piece else "vector", ""
    else:
        function, count = "part_pieces" if piece else "part", f", {valid(kernel, sharing)}"
    call = kernel.expressions.use(f"{verb}_{function}") + (f"<{piece}>" if piece else "")
    kernel.out.line(f"{call}({lanes}, {place}{count});")


def _move_if_there(kernel: CudaKernel, verb: str, lanes: str, place: str, there: str) -> None:
    """Between lanes and memory, at once, if a thread of the team has some in this round."""
    if verb == "load":
        kernel.out.line(f"{kernel.expressions.use('load_there')}({lanes}, {place}, {there});")
    else:
        call = kernel.expressions.use(f"{verb}_vector")
        kernel.out.line(f"if ({there}) {call}({lanes}, {place});")


def is_there(kernel: CudaKernel, sharing: Loop) -> str:
    """Whether a thread of the team has lanes in a round of a scan, where they are all there."""
    return f"{kernel.sizes.axis(sharing.axis)} < {kernel.sizes.extent(sharing.axis)}"


def valid(kernel: CudaKernel, sharing: Loop) -> str:
    """How many elements are left for the lanes of a thread."""
    return f"{kernel.sizes.extent(sharing.axis)} - {kernel.sizes.axis(sharing.axis)}"


def over_lanes(kernel: CudaKernel, loop: Loop) -> None:
    """What a thread does with each of its lanes; those of a fold over the rows that lie together
    are read and written at once."""
    sharing = kernel.around.sharing
    assert sharing is not None
    folds = (node for node in loop.body if isinstance(node, Accumulate))
    others = (node for node in folds if node.partial.name not in kernel.facts.own)
    places: dict[str, str] = {}
    for node in (node for node in others if _is_vector(kernel, node, loop, sharing)):
        name, type_ = node.partial.name, kernel.expressions.type(node.partial.kept)
        first = substitute(node.at, {loop.axis: ZERO})
        places[name] = f"&{node.partial.part}[{kernel.sizes.index(first, name)}]"
        kernel.out.line(f"{type_} {name}_held[{loop.axis.extent}];")
        move(kernel, "load", f"{name}_held", places[name])
    with kernel.within(held=frozenset(places)):
        _each_lane(kernel, loop, sharing)
    for name, place in places.items():
        move(kernel, "store", f"{name}_held", place)


def _each_lane(kernel: CudaKernel, loop: Loop, sharing: Loop) -> None:
    kernel.sizes.name_axis(loop.axis, "lane")
    in_order = sharing.binding is Binding.SCAN
    if in_order and sharing.whole:
        with kernel.out.block(f"if ({is_there(kernel, sharing)})"):
            _all_lanes(kernel, loop.axis.extent, loop.body)
        return
    lets = not in_order and all(isinstance(node, Let) for node in loop.body)
    if sharing.whole or lets:
        _all_lanes(kernel, loop.axis.extent, loop.body)
        return
    known = set(kernel.expressions.lane_arrays)
    ahead = _ahead(loop)
    for load in ahead:
        declare_lanes(kernel, load.name, load.dtype, loop.axis.extent)
    if ahead:
        loads = [replace(load, in_lanes=True) for load in ahead]
        _all_lanes(kernel, loop.axis.extent, loads, valid(kernel, sharing))
    rest = [node for node in loop.body if node not in ahead]
    _all_lanes(kernel, loop.axis.extent, rest, valid(kernel, sharing))
    kernel.expressions.lane_arrays.intersection_update(known)


def _all_lanes(kernel: CudaKernel, count: int, nodes: Sequence[Node], valid: str = "") -> None:
    """What is done for each of some lanes, as far as they are `valid`."""
    with kernel.unrolled("lane", count):
        if valid:
            kernel.out.line(f"if (lane >= {valid}) break;")
        kernel.nodes(nodes)


def _ahead(loop: Loop) -> list[Load]:
    """The loads of a loop over lanes that wait for nothing which it computes, if registers hold
    them: in the loop, where lanes may end, each would be waited for before the next."""
    loads = [node for node in reads_in(loop.body) if node.lanes == 1 and not node.in_lanes]
    ready = [load for load in loads if not variables_of(load.at)]
    words = sum(ceil_div(load.dtype.itemsize, 4) for load in ready) * loop.axis.extent
    return ready if words <= _WORDS_AHEAD and len(ready) < len(loop.body) else []


def on_lanes(kernel: CudaKernel, count: int, statement: str) -> None:
    """The same for each of `count` lanes."""
    kernel.out.line("#pragma unroll")
    kernel.out.line(f"for (int lane = 0; lane < {count}; ++lane) {statement}")


def _is_vector(kernel: CudaKernel, node: Accumulate, loop: Loop, sharing: Loop) -> bool:
    """Whether the lanes of a fold are neighbours, and aligned as vector accesses need it."""
    size = node.partial.kept.itemsize
    wanted = min(loop.axis.extent * size, ACCESS_BYTES)
    inner = (loop.axis, sharing.axis)
    steps = [step for term, step in node.at.terms if term not in inner]
    steps += [] if kernel.facts.parts_in_shared else [node.partial.slots]
    aligned = all(step * size % wanted == 0 for step in (*steps, node.at.constant))
    return aligned and all(node.at.coefficient(axis) == 1 for axis in inner)


def grouped(text: str) -> str:
    """The text of an index, in parentheses if it has several words."""
    return f"({text})" if " " in text else text


def times(number: str, step: int) -> str:
    """The text of a product."""
    return f"{grouped(number)} * {step}" if step > 1 else number
