"""Steps of random definitions that torch runs between kernels, and compositions of operations."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.random_functions import is_real
from tests.random_row_steps import new_index
from tests.random_values import FLOATS, MAX_INEXACT, MAX_RANK, Known, Writer, known

_WIDE = (DataType.Float, DataType.Double)
"""Of 16 bits, products are rounded by torch as they are added."""


def order(writer: Writer) -> None:
    """The largest or smallest of exact numbers; or how these are sorted, where equals keep order:
    of what is equal otherwise, either place may come first."""
    name = writer.pick(("topk", "argsort"))
    position = writer.operand(
        lambda h, k: is_real(h) and k.exact and k.finite and 0 not in h.value.shape
    )
    if position is None or not writer.shape(position):
        return
    shape, facts = writer.shape(position), writer.facts[position]
    dim, largest = writer.draw(st.integers(0, len(shape) - 1)), writer.draw(st.booleans())
    if name == "argsort":
        writer.add(
            lambda fd, v: fd.ops.argsort(v[position], dim, largest, stable=True),
            Known(shape[dim], 0),
        )
        return
    count = writer.draw(st.integers(1, min(shape[dim], 5)))
    writer.add(lambda fd, v: fd.ops.topk(v[position], count, dim, largest, True)[0], facts)


def product(writer: Writer) -> None:
    """A tensor times its own transpose, or that of some of its rows; perhaps with a bias."""
    position = writer.operand(
        lambda h, k: h.dtype() in _WIDE and len(h.value.shape) >= 2 and 0 not in h.value.shape
    )
    if position is None:
        return
    *batch, rows, inner = writer.shape(position)
    facts = writer.facts[position]
    bits = None if facts.bits is None else 2 * facts.bits
    result = known(facts.bound**2 * inner + facts.bound, bits)
    if rows * rows * math.prod(batch) > writer.scale.max_elements or result is None:
        return
    if writer.draw(st.booleans()) and rows * math.prod(batch) <= writer.scale.max_count:
        bias = writer.draw(st.booleans())

        def linear(fd: FusionDefinition, v: list[Handle]) -> Handle:
            weight = fd.ops.reshape(v[position], [-1, inner])
            column = fd.ops.select(weight, 0, 1) if bias else None
            return fd.ops.linear(v[position], weight, column)

        writer.add(linear, result)
        return
    dims = [*range(len(batch)), len(batch) + 1, len(batch)]
    writer.add(lambda fd, v: fd.ops.matmul(v[position], fd.ops.permute(v[position], dims)), result)


def embedding(writer: Writer) -> None:
    """Rows of a matrix."""
    position = writer.operand(
        lambda h, k: h.dtype() in FLOATS and len(h.value.shape) == 2 and 0 not in h.value.shape
    )
    if position is None:
        return
    rows, columns = writer.shape(position)
    shape = writer.pick(((), (2,), (2, 3)))
    if math.prod(shape) * columns > writer.scale.max_elements:
        return
    index = new_index(writer, shape, rows)
    writer.add(lambda fd, v: fd.ops.embedding_fwd(v[index], v[position]), writer.facts[position])


def batch_norm(writer: Writer) -> None:
    """A normalization of channels, without running statistics; with a large epsilon."""
    position = _normalized(writer, 2)
    if position is None:
        return
    last, scaled = writer.draw(st.booleans()), writer.draw(st.booleans())
    shape = writer.shape(position)
    channels = shape[-1 if last else 1]
    which = writer.pick((0, 0, 1, 2))

    def step(fd: FusionDefinition, v: list[Handle]) -> Handle:
        weight = fd.ops.iota(channels, 1, 1, DataType.Float) * 0.125 if scaled else None
        made = fd.ops.batch_norm(v[position], weight, weight, eps=1.0, channels_last=last)
        return made[which]

    weight = channels / 8 if scaled else 1.0
    writer.add(step, known((2 * writer.facts[position].bound + 1) * weight, None))


def moments(writer: Writer) -> None:
    """A mean, a sum of squared deviations, and a number of elements."""
    position = _normalized(writer, 1)
    if position is None:
        return
    shape, bound = writer.shape(position), writer.facts[position].bound
    dim, which = writer.draw(st.integers(0, len(shape) - 1)), writer.pick((0, 1, 1, 2))
    keepdim = writer.draw(st.booleans())
    facts = (known(bound, None), known(bound**2 * shape[dim], None), Known(shape[dim], 0))[which]
    writer.add(lambda fd, v: fd.ops.welford(v[position], [dim], keepdim)[which], facts)


def _normalized(writer: Writer, rank: int) -> int | None:
    return writer.operand(
        lambda h, k: (
            len(h.value.shape) >= rank
            and 0 not in h.value.shape
            and h.dtype() in FLOATS
            and k.bound <= 8.0
            and k.bound * math.prod(h.value.shape) <= 8 * MAX_INEXACT
        )
    )


def repeat(writer: Writer) -> None:
    """A tensor several times along its dimensions and along new ones."""
    position = writer.operand(lambda h, k: h.value.is_tensor)
    if position is None:
        return
    shape = writer.shape(position)
    times = [
        writer.pick((1, 1, 2, 3)) for _ in range(max(len(shape), min(MAX_RANK, len(shape) + 1)))
    ]
    times = times[: max(len(shape), writer.draw(st.integers(1, MAX_RANK)))]
    if math.prod(shape) * math.prod(times) > writer.scale.max_elements:
        return
    padded = [1] * (len(times) - len(shape)) + list(shape)
    sizes = [n * size for n, size in zip(times, padded, strict=True)]
    writer.add(
        # Sizes that are computed are not known where the definition is drawn.
        lambda fd, v: fd.ops.reshape(fd.ops.repeat(v[position], times), sizes),
        writer.facts[position],
    )


def of_its_size(writer: Writer) -> None:
    """A tensor less the size of a dimension, or viewed by it."""
    position = writer.operand(
        lambda h, k: len(h.value.shape) > 0 and is_real(h) and 0 not in h.value.shape
    )
    if position is None:
        return
    shape, facts = writer.shape(position), writer.facts[position]
    dim = writer.draw(st.integers(0, len(shape) - 1))
    way = writer.pick(("size", "shape", "view"))

    def step(fd: FusionDefinition, v: list[Handle]) -> Handle:
        x = v[position]
        if way == "view":
            sizes = [shape[dim], math.prod(shape) // shape[dim]]
            return fd.ops.reshape(fd.ops.reshape(x, [fd.ops.size(x, dim), -1]), sizes)
        size = fd.ops.size(x, dim) if way == "size" else fd.ops.at(fd.ops.shape(x), dim)
        return fd.ops.sub(x, size)

    writer.add(step, facts if way == "view" else known(facts.bound + shape[dim], facts.bits))


def like(writer: Writer) -> None:
    """Random numbers of torch's generator, of the sizes of a tensor."""
    position = writer.operand(lambda h, k: h.dtype() in FLOATS and h.value.is_tensor)
    if position is None:
        return
    name, narrow = writer.pick(("rand_like", "randn_like")), writer.dtype(position).itemsize == 2
    writer.add(lambda fd, v: getattr(fd.ops, name)(v[position]), Known(7.0, None, leaf=narrow))


LIBRARY = (order, product, embedding)
COMPOSED = (batch_norm, moments, repeat, of_its_size, like)
