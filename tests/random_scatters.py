"""Steps of random definitions that scatter."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.random_row_steps import new_index
from tests.random_values import INTEGERS, Known, Writer, known


def scatter_joined(writer: Writer) -> None:
    """Elements joined at an index, which may be the same along some dimensions; some meet."""
    scattered = _scattered(writer)
    if scattered is None:
        return
    position, source, dim, size = scattered
    shape = writer.shape(position)
    same = writer.draw(st.booleans())
    sizes = tuple(1 if same and d != dim else n for d, n in enumerate(writer.shape(source)))
    if math.prod(sizes) > writer.scale.max_count:
        return
    index = new_index(writer, sizes, size)
    whole = list(writer.shape(source))
    mode = writer.pick(("add", "add", "amax", "amin"))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        at = fd.ops.expand(values[index], whole) if same else values[index]
        scatter = getattr(fd.ops, f"scatter_{mode}")
        return scatter(values[position], at, values[source], dim)

    assert len(shape) == len(whole)
    facts = _sum_of if mode == "add" else _either_of
    writer.add(step, facts(writer, position, source))


def index_add(writer: Writer) -> None:
    """Slices added along a dimension; some meet."""
    scattered = _scattered(writer)
    if scattered is None:
        return
    position, source, dim, size = scattered
    index = new_index(writer, (writer.shape(source)[dim],), size)
    writer.add(
        lambda fd, v: fd.ops.index_add(v[position], v[index], v[source], dim),
        _sum_of(writer, position, source),
    )


def index_put_accumulate(writer: Writer) -> None:
    """Rows added at an index of one dimension, or of two; some count from the end."""
    scattered = _scattered(writer, dim=0)
    if scattered is None:
        return
    position, source, _, size = scattered
    count, *rest = writer.shape(source)
    split = count % 2 == 0 and writer.draw(st.booleans())
    shape = (2, count // 2) if split else (count,)
    index = new_index(writer, shape, size, lowest=-size)

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        rows = fd.ops.reshape(values[source], [*shape, *rest]) if split else values[source]
        return fd.ops.index_put_accumulate(values[position], values[index], rows)

    writer.add(step, _sum_of(writer, position, source))


def scatter(writer: Writer) -> None:
    """Elements, slices or a number written at an index that has each place once: which of several
    stays is open."""
    scattered = _scattered(writer)
    if scattered is None:
        return
    position, source, dim, size = scattered
    sizes = list(writer.shape(source))
    count = min(sizes[dim], size)
    sizes[dim] = count
    if math.prod(sizes) > writer.scale.max_count:
        return
    index = _places_once(writer, count, size)
    apart = [d != dim for d in range(len(sizes))]
    number = writer.pick((None, None, 1, 0, -2))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        at = fd.ops.expand(fd.ops.broadcast(values[index], apart), sizes)
        written = values[source] if number is None else number
        return fd.ops.scatter(values[position], at, written, dim)

    facts = writer.facts[position]
    writer.add(step, known(max(facts.bound, 2), facts.bits))


def _places_once(writer: Writer, count: int, size: int) -> int:
    """The position of an index of different places: a new input, or the first or last ones."""
    dtype = writer.pick(INTEGERS)
    if writer.draw(st.booleans()):
        generator = torch.Generator().manual_seed(writer.draw(st.integers(0, 1000)))
        given = torch.randperm(size, generator=generator)[:count].to(dtype.torch)
        writer.inputs.append(given)
        writer.add(lambda fd, _: fd.from_pytorch(given, static_sizes=True), Known(size, 0))
    else:
        start, step = writer.pick(((0, 1), (size - 1, -1), (size - count, 1)))
        writer.add(lambda fd, _: fd.ops.iota(count, start, step, dtype), Known(size, 0))
    return len(writer.handles) - 1


def _scattered(writer: Writer, dim: int | None = None) -> tuple[int, int, int, int] | None:
    """Data of exact numbers, and a source made of it that is shorter, or longer, along a dimension.

    Sums of 16-bit numbers are rounded by torch after each addition, so these are left out.
    """
    position = writer.operand(
        lambda h, k: (
            0 not in h.value.shape
            and len(h.value.shape) > 0
            and k.exact
            and h.dtype() in (DataType.Float, DataType.Double, *INTEGERS)
        )
    )
    if position is None:
        return None
    shape = writer.shape(position)
    along = writer.draw(st.integers(0, len(shape) - 1)) if dim is None else dim
    others = math.prod(shape) // shape[along]
    counts = [n for n in writer.scale.counts if n * others <= writer.scale.max_elements]
    if not counts:
        return None
    count = writer.pick(counts)
    picks = new_index(writer, (count,), shape[along])
    facts = writer.facts[position]
    writer.add(lambda fd, v: fd.ops.index_select(v[position], v[picks], along), facts)
    return position, len(writer.handles) - 1, along, shape[along]


def _sum_of(writer: Writer, position: int, source: int) -> Known | None:
    """The facts of data with all of a source added to one place."""
    data, added = writer.facts[position], writer.facts[source]
    assert data.bits is not None
    assert added.bits is not None
    bound = data.bound + added.bound * math.prod(writer.shape(source))
    return known(bound, max(data.bits, added.bits))


def _either_of(writer: Writer, position: int, source: int) -> Known | None:
    """The facts of data of which some elements are those of a source."""
    data, placed = writer.facts[position], writer.facts[source]
    assert data.bits is not None
    assert placed.bits is not None
    return known(max(data.bound, placed.bound), max(data.bits, placed.bits))


def sum_of_scatters(writer: Writer) -> None:
    """Slices, and multiples of them, added to zeros at indices of their own, and then together."""
    scattered = _scattered(writer)
    if scattered is None:
        return
    position, source, dim, size = scattered
    count = writer.shape(source)[dim]
    shape, dtype = list(writer.shape(position)), writer.dtype(position)
    factors = [writer.pick((-1, 1, 2, 3)) for _ in range(writer.draw(st.integers(2, 5)))]
    first = len(writer.handles)
    for _ in factors:
        new_index(writer, (count,), size)

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        zeros = fd.ops.full(shape, 0, dtype)
        terms = [
            fd.ops.index_add(zeros, values[first + n], values[source] * factor, dim)
            for n, factor in enumerate(factors)
        ]
        while len(terms) > 1:
            terms = [*terms[2:], terms[0] + terms[1]]
        return terms[0]

    facts, whole = writer.facts[source], math.prod(writer.shape(source))
    bound = facts.bound * whole * sum(map(abs, factors))
    writer.add(step, known(bound, facts.bits))


def at_a_range(writer: Writer) -> None:
    """A tensor laid out in any order, and slices of it at a range: picked, written or added there,
    all of which passes make other operations of; torch has orders of its own for each."""
    position = writer.operand(
        lambda h, k: (
            len(h.value.shape) > 1
            and 0 not in h.value.shape
            and k.exact
            and h.dtype() in (DataType.Float, DataType.Double, *INTEGERS)
        )
    )
    if position is None:
        return
    shape, facts = writer.shape(position), writer.facts[position]
    order = writer.draw(st.permutations(range(len(shape))))
    dim = writer.draw(st.integers(0, len(shape) - 1))
    count = writer.draw(st.integers(1, min(shape[dim], 6)))
    start = writer.draw(st.sampled_from((0, shape[dim] - count)))
    way = writer.pick(("index_select", "index_add", "index_add", "scatter"))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        laid = fd.ops.stride_order(values[position], order)
        places = fd.ops.iota(count, start, 1, DataType.Int)
        if way == "index_select":
            return fd.ops.index_select(laid, places, dim)
        ends = [count if d == dim else size for d, size in enumerate(shape)]
        source = fd.ops.slice(laid, [0] * len(shape), ends)
        if way == "index_add":
            return fd.ops.index_add(laid, places, source, dim)
        across = fd.ops.broadcast(places, [d != dim for d in range(len(shape))])
        return fd.ops.scatter(laid, fd.ops.expand(across, ends), source, dim)

    writer.add(step, known(2 * facts.bound, facts.bits))


WRITES = (scatter, at_a_range)
SCATTERS = (scatter_joined, index_add, index_put_accumulate, sum_of_scatters)
