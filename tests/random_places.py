"""Steps of random definitions that compute integers, and gather at places made of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.random_values import INTEGERS, Known, Writer, known

Function = Callable[[FusionDefinition, Handle], Handle]

_MOST = 2**20
"""No number of a chain is larger, so that none wraps around."""


def whole_numbers(writer: Writer) -> None:
    """A chain of integer arithmetic on whole numbers, its bounds known or not."""
    position = writer.operand(lambda h, k: h.value.is_tensor and k.bits == 0 and k.finite)
    if position is None:
        return
    functions, bound = _chain(writer, writer.facts[position].bound)
    dtype = writer.pick(INTEGERS)

    def step(fd: FusionDefinition, values: list[Handle]) -> Handle:
        made = fd.ops.cast(values[position], dtype)
        for function in functions:
            made = function(fd, made)
        return made

    writer.add(step, known(bound, 0))


def at_computed_places(writer: Writer) -> None:
    """Slices along a dimension at whole numbers, or at a range's, which are put in range."""
    data = writer.operand(lambda h, k: any(size > 0 for size in h.value.shape))
    if data is None:
        return
    shape = list(writer.shape(data))
    dim = writer.draw(st.sampled_from([dim for dim, size in enumerate(shape) if size > 0]))
    count = _places(writer)
    if count * math.prod(shape[:dim] + shape[dim + 1 :]) > writer.scale.max_elements:
        return
    place = len(writer.handles) - 1
    into = _into_range(writer, shape[dim], writer.facts[place].bound)
    times = writer.pick((1, 1, 2, 5))
    if times * count > writer.scale.max_count:
        times = 1

    def indices(fd: FusionDefinition, values: list[Handle]) -> Handle:
        one = into(fd, fd.ops.reshape(values[place], [count]))
        if times == 1:
            return one
        return fd.ops.reshape(fd.ops.broadcast_in_dim(one, [times, count], [1]), [times * count])

    writer.add(indices, known(shape[dim], 0))
    index = len(writer.handles) - 1
    if times * count * math.prod(shape[:dim] + shape[dim + 1 :]) > writer.scale.max_elements:
        return
    parts = [*shape[:dim], *([times] if times > 1 else []), count, *shape[dim + 1 :]]
    writer.add(
        lambda fd, v: fd.ops.reshape(fd.ops.index_select(v[data], v[index], dim), parts),
        writer.facts[data],
    )


def _places(writer: Writer) -> int:
    """Make whole numbers, the last of the writer's values; how many they are."""
    position = writer.operand(
        lambda h, k: (
            h.value.is_tensor
            and k.bits == 0
            and k.finite
            and k.bound <= _MOST
            and 0 < h.value.elements <= writer.scale.max_count
        )
    )
    if position is not None and writer.draw(st.booleans()):
        dtype = writer.pick(INTEGERS)
        writer.add(lambda fd, v: fd.ops.cast(v[position], dtype), writer.facts[position])
        return math.prod(writer.shape(position))
    count = writer.pick(writer.scale.counts)
    scale = writer.pick((0.5, 0.75, 1.5, 2.25, 4.0))

    def middles(fd: FusionDefinition, values: list[Handle]) -> Handle:
        """Pixels of an image that is resized, as many float32 numbers as are exact."""
        floats = fd.ops.cast(fd.ops.iota(count, dtype=DataType.Int), DataType.Float)
        return fd.ops.cast(fd.ops.maximum((floats + 0.5) * scale - 0.5, 0.0), DataType.Int)

    step = middles if writer.draw(st.booleans()) else lambda fd, _: fd.ops.iota(count)
    writer.add(step, Known(max(count * scale, count), 0))
    return count


def _chain(writer: Writer, bound: float) -> tuple[list[Function], float]:
    """Functions one after the other, and how large what they make may be."""
    functions: list[Function] = []
    for _ in range(writer.draw(st.integers(1, 4))):
        name = writer.pick((*_GROWS, *_DIVIDES, "neg", "abs", "clamp", "where"))
        number = writer.pick((1, 2, 3, 7, 64, 255))
        grown = _GROWS[name](bound, number) if name in _GROWS else max(bound, number)
        if grown <= _MOST:
            functions.append(_function(name, number))
            bound = grown
    return functions, bound


_GROWS: dict[str, Callable[[float, int], float]] = {
    "add": lambda bound, number: bound + number,
    "sub": lambda bound, number: bound + number,
    "mul": lambda bound, number: bound * number,
    "bitwise_and": lambda bound, number: 2 * max(bound, number),
    "bitwise_xor": lambda bound, number: 2 * max(bound, number),
}
_DIVIDES = ("remainder", "mod", "div", "floor_divide")


def _function(name: str, number: int) -> Function:
    match name:
        case "neg" | "abs":
            return lambda fd, x: getattr(fd.ops, name)(x)
        case "clamp":
            return lambda fd, x: fd.ops.clamp(x, -number, number)
        case "where":
            return lambda fd, x: fd.ops.where(fd.ops.lt(x, number), x, -1)
        case _:
            return lambda fd, x: getattr(fd.ops, name)(x, number)


def _into_range(writer: Writer, size: int, bound: float) -> Function:
    """What makes places from 0 to `size` - 1 of whole numbers."""
    match writer.pick(("clamp", "remainder", "steps", "from the end")):
        case "clamp":
            return lambda fd, x: fd.ops.clamp(x, 0, size - 1)
        case "remainder":
            return lambda fd, x: fd.ops.remainder(x, size)
        case "steps":
            step = int(bound) // size + 1
            return lambda fd, x: fd.ops.floor_divide(fd.ops.abs(x), step)
        case _:

            def from_the_end(fd: FusionDefinition, x: Handle) -> Handle:
                least = fd.ops.maximum(fd.ops.minimum(x, size - 1), -size)
                return fd.ops.where(fd.ops.lt(least, 0), least + size, least)

            return from_the_end


COMPUTED_PLACES = (whole_numbers, at_computed_places)
