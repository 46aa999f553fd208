"""Steps of random definitions that make rows, or choose of them: reductions, gathers."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.random_values import INTEGERS, MAX_INEXACT, MAX_RANK, Known, Writer, known

MOST_FACTORS = 20
"""The most elements that are multiplied."""


# -- reductions ----------------------------------------------------------------------------------


def reduce_(writer: Writer) -> None:
    """A sum, mean, maximum or minimum over some dimensions, none of which is empty."""
    name = writer.pick(("sum", "mean", "max", "min"))
    position = _reduced(writer, floating=name == "mean")
    if position is None:
        return
    facts = writer.facts[position]
    dims, count, keepdim = _dims(writer, position)
    if name == "sum":
        result = known(facts.bound * count, facts.bits)
    else:
        result = known(facts.bound, facts.bits if name != "mean" else None)
    if name in ("sum", "mean") and not facts.exact and facts.bound * count > MAX_INEXACT:
        return
    writer.add(lambda fd, v: getattr(fd.ops, name)(v[position], dims, keepdim), result)


def product(writer: Writer) -> None:
    """A product, of so few or so small numbers that it stays small."""
    position = _reduced(writer)
    if position is None:
        return
    facts = writer.facts[position]
    dims, count, keepdim = _dims(writer, position)
    if count > MOST_FACTORS:
        return
    bits = None if facts.bits is None else facts.bits * count
    result = known(facts.bound**count, bits)
    writer.add(lambda fd, v: fd.ops.prod(v[position], dims, keepdim), result)


def truth(writer: Writer) -> None:
    """Whether any number, or all, are not zero."""
    name = writer.pick(("any", "all"))
    position = _reduced(writer, exact=True)
    if position is not None:
        dims, _, keepdim = _dims(writer, position)
        writer.add(lambda fd, v: getattr(fd.ops, name)(v[position], dims, keepdim), Known(1, 0))


def variance(writer: Writer) -> None:
    """A variance; perhaps with the mean, which is the result then."""
    name = writer.pick(("var", "var_mean"))
    position = _reduced(writer, floating=True)
    if position is None:
        return
    dims, count, keepdim = _dims(writer, position)
    correction = writer.draw(st.integers(0, 1)) if count > 1 else 0
    bound = writer.facts[position].bound
    if bound * count > MAX_INEXACT:
        return
    facts = known(2 * bound**2 if name == "var" else bound, None)

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        both = fd.ops.var_mean(values[position], dims, correction, keepdim)
        made = fd.ops.var(values[position], dims, correction, keepdim)
        return made if name == "var" else both[1]

    writer.add(step, facts)


def position_of_extreme(writer: Writer) -> None:
    """The place of the largest or smallest of exact numbers, the first of several."""
    name = writer.pick(("argmax", "argmin"))
    position = _reduced(writer, exact=True, boolean=False)
    if position is None:
        return
    shape = writer.shape(position)
    dim = writer.draw(st.sampled_from([None, *range(len(shape))]))
    keepdim = writer.draw(st.booleans())
    facts = known(math.prod(shape) if dim is None else shape[dim], 0)
    dims = None if dim is None else [dim]
    writer.add(lambda fd, v: getattr(fd.ops, name)(v[position], dims, keepdim), facts)


def _reduced(
    writer: Writer, floating: bool = False, exact: bool = False, boolean: bool = True
) -> int | None:
    """A tensor that is not empty."""
    return writer.operand(
        lambda h, k: (
            0 not in h.value.shape
            and h.value.is_tensor
            and (h.dtype().is_floating or not floating)
            and (k.exact or not exact)
            and (boolean or h.dtype() is not DataType.Bool)
        )
    )


def _dims(writer: Writer, position: int) -> tuple[list[int] | None, int, bool]:
    """Dimensions to reduce, None for those of a number; how many elements they have; keepdim."""
    shape = writer.shape(position)
    dims = writer.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    dims = dims or list(range(len(shape)))
    return dims or None, math.prod(shape[dim] for dim in dims), writer.draw(st.booleans())


# -- normalizations ------------------------------------------------------------------------------


def softmax(writer: Writer) -> None:
    """A softmax, or its logarithm, along one dimension."""
    position = _long(writer)
    if position is None:
        return
    dim = writer.draw(st.integers(0, len(writer.shape(position)) - 1))
    logarithm = writer.draw(st.booleans())

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        x = values[position]
        shifted = fd.ops.sub(x, fd.ops.max(x, [dim], keepdim=True))
        powers = fd.ops.exp(shifted)
        total = fd.ops.sum(powers, [dim], keepdim=True)
        return fd.ops.sub(shifted, fd.ops.log(total)) if logarithm else fd.ops.div(powers, total)

    bound = 2 * writer.facts[position].bound + 5 if logarithm else 1.0
    writer.add(step, known(bound, None))


def layernorm(writer: Writer) -> None:
    """A layernorm over the last dimensions, with a large epsilon so that errors stay small."""
    position = _long(writer)
    if position is None:
        return
    shape = writer.shape(position)
    dims = list(range(writer.draw(st.integers(0, len(shape) - 1)), len(shape)))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        x = values[position]
        variance_, mean = fd.ops.var_mean(x, dims, 0, keepdim=True)
        return fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(variance_, 1.0)))

    writer.add(step, known(2 * writer.facts[position].bound, None))


def beside_its_rows(writer: Writer) -> None:
    """A tensor less, or limited by, something of its rows along any dimensions."""
    position = _reduced(writer, boolean=False)
    if position is None:
        return
    facts, floating = writer.facts[position], writer.dtype(position).is_floating
    dims, _, _ = _dims(writer, position)
    of_row = writer.pick(("max", "min", "mean") if floating else ("max", "min"))
    name = writer.pick(("sub", "minimum", "maximum"))

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        x = values[position]
        return getattr(fd.ops, name)(x, getattr(fd.ops, of_row)(x, dims, keepdim=True))

    writer.add(step, known(2 * facts.bound, None if of_row == "mean" else facts.bits))


def several_times(writer: Writer) -> None:
    """A tensor repeated along a new dimension, and computed with there."""
    position = writer.operand(
        lambda h, k: (
            0 < len(h.value.shape) < MAX_RANK
            and 3 * math.prod(h.value.shape) <= writer.scale.max_elements
        )
    )
    if position is None:
        return
    shape, facts = writer.shape(position), writer.facts[position]
    at, times = writer.draw(st.integers(0, len(shape))), writer.draw(st.integers(2, 3))
    new = [d == at for d in range(len(shape) + 1)]

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        repeated = fd.ops.expand(
            fd.ops.broadcast(values[position], new), [times if n else -1 for n in new]
        )
        return fd.ops.mul(repeated, 1.5)

    writer.add(step, known(2 * facts.bound, None if facts.bits is None else facts.bits + 1))


def _long(writer: Writer) -> int | None:
    return writer.operand(
        lambda h, k: (
            len(h.value.shape) > 0
            and 0 not in h.value.shape
            and h.dtype().is_floating
            and k.bound <= 8.0
        )
    )


# -- gathers -------------------------------------------------------------------------------------


def index_select(writer: Writer) -> None:
    """Some slices along a dimension, at an index of 0 or 1 dimension."""
    gathered = _gathered(writer)
    if gathered is None:
        return
    position, dim, size = gathered
    count = writer.pick(writer.scale.counts)
    others = math.prod(writer.shape(position)) // size
    if count * others > writer.scale.max_elements:
        return
    index = new_index(writer, writer.pick([(), (count,), (count,)]), size)
    writer.add(
        lambda fd, v: fd.ops.index_select(v[position], v[index], dim), writer.facts[position]
    )


def gather(writer: Writer) -> None:
    """An element for each of an index, which may be smaller than the data."""
    gathered = _gathered(writer)
    if gathered is None:
        return
    position, dim, size = gathered
    shape = [writer.draw(st.integers(min(1, n), n)) for n in writer.shape(position)]
    shape[dim] = writer.pick(writer.scale.counts)
    if math.prod(shape) <= writer.scale.max_count:
        index = new_index(writer, tuple(shape), size)
        writer.add(lambda fd, v: fd.ops.gather(v[position], v[index], dim), writer.facts[position])


def take_along_axis(writer: Writer) -> None:
    """An element for each of an index that broadcasts against the data; some count from the end."""
    gathered = _gathered(writer)
    if gathered is None:
        return
    position, dim, size = gathered
    shape = [
        writer.draw(st.sampled_from((n, 1, 3) if n == 1 else (n, 1)))
        for n in writer.shape(position)
    ]
    shape[dim] = writer.pick(writer.scale.counts)
    if math.prod(shape) <= writer.scale.max_count:
        index = new_index(writer, tuple(shape), size, lowest=-size)
        writer.add(
            lambda fd, v: fd.ops.take_along_axis(v[position], v[index], dim),
            writer.facts[position],
        )


def select(writer: Writer) -> None:
    """One slice along a dimension, from either end."""
    gathered = _gathered(writer)
    if gathered is None:
        return
    position, dim, size = gathered
    at = writer.draw(st.integers(-size, size - 1))
    writer.add(lambda fd, v: fd.ops.select(v[position], at, dim), writer.facts[position])


def _gathered(writer: Writer) -> tuple[int, int, int] | None:
    """A tensor, one of its dimensions, and the size of that, which is not 0."""
    position = writer.operand(lambda h, k: any(size > 0 for size in h.value.shape))
    if position is None:
        return None
    sizes = list(enumerate(writer.shape(position)))
    dim, size = writer.draw(st.sampled_from([(dim, size) for dim, size in sizes if size > 0]))
    return position, dim, size


def new_index(writer: Writer, shape: tuple[int, ...], size: int, lowest: int = 0) -> int:
    """The position of an index below `size`: a new input, or made by the definition."""
    dtype = writer.pick(INTEGERS)
    count = math.prod(shape)
    if writer.draw(st.booleans()):
        generator = torch.Generator().manual_seed(writer.draw(st.integers(0, 1000)))
        numbers = torch.randint(lowest, size, shape, generator=generator)
        given = numbers.to(dtype.torch)
        writer.inputs.append(given)
        writer.add(lambda fd, _: fd.from_pytorch(given, static_sizes=True), Known(size, 0))
    else:
        step = writer.pick((1, 2, 3))

        def made(fd: FusionDefinition, _: list[Handle]) -> Handle:
            counted = fd.ops.remainder(fd.ops.iota(count, 1, step, dtype), size)
            return fd.ops.reshape(fd.ops.add(counted, lowest), list(shape))

        writer.add(made, Known(size, 0))
    return len(writer.handles) - 1


REDUCTIONS = (reduce_, reduce_, product, truth, variance, position_of_extreme)
NORMALIZATIONS = (softmax, layernorm, beside_its_rows, several_times)
GATHERS = (index_select, gather, take_along_axis, select)
