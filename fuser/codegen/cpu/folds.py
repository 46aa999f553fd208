"""C++ for folds on the CPU target: lanes of a row that are joined, and folds over the rows.

Every thread has a part of a fold over the rows, in lines of the cache that no other writes to, and
joins blocks of rows to it where it is wider than they are. The epilogue of a region joins parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fuser.codegen.cpu.batches import is_of_batch
from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.strips import ROWS
from fuser.ir.dtypes import DataType
from fuser.schedule.tree.counts import ceil_div
from fuser.schedule.tree.expressions import Call, Convert, Expression, Literal, Ref, join
from fuser.schedule.tree.folds import lowest_finite
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.names import block_name
from fuser.schedule.tree.row_statements import (
    Accumulate,
    Combine,
    Finish,
    JoinGroups,
    KeepLanes,
    Partial,
    Raise,
    Widen,
)
from fuser.schedule.tree.statements import Let

_LINES = 128
"""Bytes of two lines of the cache."""

_MUCH_JOINED = 1 << 13
"""Numbers from which threads are started to join them: an estimate for many cores, where each line
of them comes from the cache of whoever wrote it."""


def keep_lanes(kernel: CpuKernel, node: KeepLanes) -> None:
    """Lanes of a row are kept until all rows of a batch have some."""
    join = node.join
    joiner = kernel.joiner(join.operation, join.kept, join.name)
    use = kernel.expressions.use("keep_lanes")
    given = ", ".join((f"{join.name}_batch[row]", joiner, *join.arrays))
    kernel.out.line(f"{use}({given});")


def combine(kernel: CpuKernel, node: Combine) -> None:
    """A fold's result from its lanes."""
    if is_of_batch(kernel):
        joiner = kernel.joiner(node.operation, node.kept, node.name, generic=True)
        use = kernel.expressions.use("join_batch")
        kernel.out.line(f"{use}({node.name}_row, {joiner}, {node.name}_batch);")
        return
    if kernel.around.lanes_used == ROWS:
        kept = kernel.expressions.type(node.dtype)
        join = f"{kernel.expressions.use('join_rows')}<{kept}>"
        given = kernel.joiner(node.operation, node.dtype, node.name, generic=True), *node.arrays
        joined = f"{join}({', '.join(given)}, {kernel.lanes_used(node.count)})"
        _result(kernel, node.name, node.dtype, joined, node.dtype)
        return
    given = ", ".join((kernel.joiner(node.operation, node.kept, node.name), *node.arrays))
    lanes = f"{kernel.expressions.use('join_lanes')}<{node.count}>({given})"
    _result(kernel, node.name, node.dtype, lanes, node.kept)


def join_groups(kernel: CpuKernel, node: JoinGroups) -> None:
    """Lanes that are joined group by group."""
    array = node.array
    joiner = kernel.joiner(node.operation, array.dtype, array.name)
    group = kernel.sizes.parameter("group", node.group)
    join = kernel.expressions.use("join_groups")
    kernel.out.line(f"{join}({joiner}, {array.name}, {kernel.lanes_used(1)}, {group});")


def accumulate(kernel: CpuKernel, node: Accumulate) -> None:
    """One more value of a fold over the rows."""
    partial = node.partial
    at = kernel.sizes.index(node.at, partial.name)
    if partial.in_blocks:
        held = Ref(f"{block_name(partial.name)}[{at}]", partial.dtype)
    else:
        held = Ref(f"{partial.part}[{at}]", partial.kept)
    _add_to(kernel, held, node.value, partial)


def _add_to(kernel: CpuKernel, held: Ref, value: Expression, partial: Partial) -> None:
    joined = join(partial.operation, held, value)
    kernel.out.line(f"{held.name} = {kernel.expressions.print(joined, partial.name)};")


def widen(kernel: CpuKernel, node: Widen) -> None:
    """Joins blocks of folds over the rows to what is kept of them."""
    name = node.partial.name
    slots = _slots(kernel, node.partial)
    first, end = "0", slots
    if node.every == 1:
        _join_block(kernel, node.partial, first, end)
        return
    if node.span:
        first, end = f"{name}_first", f"{name}_end"
        place, span = f"{name}_place", kernel.sizes.parameter(f"{name}_span", node.span)
        kernel.out.line(f"const {kernel.index} {place} = {kernel.sizes.index(node.first, name)};")
        kernel.out.line(f"{first} = {place} < {first} ? {place} : {first};")
        kernel.out.line(f"{end} = {place} + {span} > {end} ? {place} + {span} : {end};")
    every = kernel.sizes.parameter(f"{name}_rows_of_block", node.every)
    with kernel.out.block(f"if (++{name}_rows == {every})"):
        _join_block(kernel, node.partial, first, end)
        kernel.out.line(f"{name}_rows = 0;")
        if node.span:  # from here on, no place has been added to
            kernel.out.line(f"{first} = {slots};")
            kernel.out.line(f"{end} = 0;")


def _join_block(kernel: CpuKernel, partial: Partial, first: str, end: str) -> None:
    """Joins the places of a block from `first` to before `end` to what is kept."""
    kernel.out.line("#pragma omp simd")
    with kernel.out.block(f"for (long long slot = {first}; slot < {end}; ++slot)"):
        block = Ref(f"{block_name(partial.name)}[slot]", partial.dtype)
        _add_to(kernel, Ref(f"{partial.part}[slot]", partial.kept), block, partial)
        fill = kernel.expressions.print(partial.block_fill, partial.name)
        kernel.out.line(f"{block.name} = {fill};")


def raise_largest(kernel: CpuKernel, node: Raise) -> None:
    """A maximum grows, and sums that depend on it are scaled."""
    dtype, wide = node.largest.kept, DataType.Double
    held = Ref(f"{node.largest.part}[0]", dtype)
    finite = join("maximum", held, lowest_finite(dtype))
    before, after = Ref(f"{node.name}_before", dtype), Ref(node.name, dtype)
    kernel.node(Let(before.name, dtype, finite))
    _add_to(kernel, held, node.value, node.largest)
    kernel.node(Let(after.name, dtype, finite))
    risen = Call("sub", (Convert(before, wide), Convert(after, wide)), wide)
    scale = Ref(f"{node.name}_scale", wide)
    kernel.node(Let(scale.name, wide, Call("exp", (risen,), wide)))
    for partial in node.sums:
        part = Ref(f"{partial.part}[0]", partial.kept)
        scaled = Call("mul", (part, scale), wide)
        kernel.out.line(f"{part.name} = {kernel.expressions.print(scaled, partial.name)};")


def finish(kernel: CpuKernel, node: Finish) -> None:
    """A result of a fold over the rows."""
    partial = node.partial
    if partial.name in kernel.around.own_parts:
        _result(kernel, partial.name, partial.dtype, f"{partial.part}[0]", partial.kept)
        return
    type_, name = kernel.expressions.type(partial.kept), f"{partial.name}_all"
    at = kernel.sizes.index(node.at, partial.name)
    part = f"{partial.part}s[thread * {_slots(kernel, partial)} + {at}]"
    more = join(partial.operation, Ref(name, partial.kept), Ref(part, partial.kept))
    joined = kernel.expressions.print(more, name)
    kernel.out.line(f"{type_} {name} = {kernel.expressions.print(partial.fill, name)};")
    kernel.out.line(f"for (int thread = 0; thread < threads; ++thread) {name} = {joined};")
    _result(kernel, partial.name, partial.dtype, name, partial.kept)


def much_is_joined(kernel: CpuKernel, places: Loop) -> str:
    """Whether the parts of some places are worth starting threads, which a call's sizes and the
    number of threads decide."""
    partial = next(node.partial for node in every_node(places.body) if isinstance(node, Finish))
    return f"threads * {_slots(kernel, partial)} > {_MUCH_JOINED}"


def _result(kernel: CpuKernel, name: str, dtype: DataType, value: str, kept: DataType) -> None:
    converted = value if dtype is kept else f"{kernel.expressions.type(dtype)}({value})"
    kernel.define(name, dtype, converted)


# -- parts of threads ----------------------------------------------------------------------------


def parts_of_threads(kernel: CpuKernel, partials: Sequence[Partial]) -> None:
    """Room for the parts of all threads."""
    kernel.count_threads()
    room = kernel.expressions.use("on_own_lines")
    for partial in partials:
        for array, dtype, _ in _arrays(partial):
            type_ = kernel.expressions.type(dtype)
            count = f"threads * {_slots(kernel, partial)}"
            kernel.out.line(f"{type_}* const {array}s = {room}<{type_}>({count});")


def _arrays(partial: Partial) -> Iterator[tuple[str, DataType, Literal]]:
    """What a thread has of a fold over the rows: names, types, and what is there at first."""
    yield partial.part, partial.kept, partial.fill
    if partial.in_blocks:
        yield block_name(partial.name), partial.dtype, partial.block_fill


def free_parts(kernel: CpuKernel, partials: Sequence[Partial]) -> None:
    """Gives the room back."""
    for partial in partials:
        for array, _, _ in _arrays(partial):
            kernel.out.line(f"__builtin_free({array}s);")


def count_rows_of_blocks(kernel: CpuKernel, nodes: Iterable[Node]) -> None:
    """What a thread counts where it joins blocks at some rows only."""
    for node in every_node(nodes):
        if isinstance(node, Widen) and node.every > 1:
            name = node.partial.name
            kernel.out.line(f"int {name}_rows = 0;")
            if node.span:
                first = _slots(kernel, node.partial)
                kernel.out.line(f"long long {name}_first = {first}, {name}_end = 0;")


def only_part(kernel: CpuKernel, partial: Partial) -> None:
    """A number that one thread folds alone: an array of one, as parts of threads are arrays."""
    assert partial.slots == 1, f"{partial.name} is {partial.slots} numbers, not one"
    fill = kernel.expressions.print(partial.fill, partial.name)
    type_, name = kernel.expressions.type(partial.kept), partial.part
    kernel.out.line(f"{type_} {name}[1] = {{{fill}}};")


def own_part(kernel: CpuKernel, partial: Partial) -> None:
    """This thread's part of a fold over the rows, which it fills, as memory is close to whoever
    writes it first."""
    own, slots = kernel.expressions.use("own_part"), _slots(kernel, partial)
    for array, dtype, fill in _arrays(partial):
        type_ = f"{kernel.expressions.type(dtype)}* {kernel.target.restrict}"
        first = kernel.expressions.print(fill, array)
        kernel.out.line(f"{type_} const {array} = {own}({array}s, {slots}, threads, {first});")


def _slots(kernel: CpuKernel, partial: Partial) -> str:
    """The places of a thread's part: a number for each piece of the rows."""
    return kernel.sizes.parameter(f"{partial.name}_slots", _apart(partial))


def _apart(partial: Partial) -> int:
    """Room for the slots of a partial, so that no two threads write to one line of the cache, nor
    to two that are brought together: of what is kept, nor of the blocks, which may be narrower."""
    narrowest = partial.kept.itemsize
    if partial.in_blocks:
        narrowest = min(narrowest, partial.dtype.itemsize)
    apart = _LINES // narrowest
    return ceil_div(partial.slots, apart) * apart
