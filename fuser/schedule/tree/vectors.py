"""Vector accesses: which accesses are consecutive along an axis, and how wide they may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Sequence

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.indices.rewrites import affine_parts
from fuser.schedule.tree.buffers import ACCESS_BYTES, Buffers
from fuser.schedule.tree.expressions import Convert, Expression, Ref
from fuser.schedule.tree.names import lanes_name
from fuser.schedule.tree.statements import Lanes, Let, Load, Store

Access = tuple[Value, Index]

SECTOR_BYTES = 32
"""What a GPU moves between its memory and a multiprocessor at least."""

SHORTEST_VECTOR = 8
"""Elements that compilers make a vector of by themselves."""

PERMUTED_STEPS = (2, 3, 4, 8)
"""Steps of vector lanes through memory that are numbers of the text. g++ 12 permutes no others, and
makes no vectors at all of a loop that reads or writes neighbours a step of 5 or 6 apart that it
knows; where it does not know the step, it moves one element at a time."""


def step_along(at: Index, axis: Axis) -> int | None:
    """How far `at` moves for a step of `axis`; None where a division decides."""
    if any(part.coefficient(axis) for part in list(affine_parts(at))[1:]):
        return None
    return at.coefficient(axis)


FLOATS_OF_16 = frozenset({DataType.BFloat16, DataType.Half})
"""The types that are read as float32, and rounded from it, a vector at a time."""

VECTOR_BYTES = 64
"""Bytes of a processor's widest vectors: so many of a narrow type fill one."""


def widens_vectors(load: Load, lanes: int) -> bool:
    """Whether lanes are whole vectors of numbers that were floats of 16 bits. Reading them at once
    takes fewer instructions than compilers use, whatever else lanes do."""
    return load.dtype in FLOATS_OF_16 and lanes * DataType.Float.itemsize % VECTOR_BYTES == 0


_WIDE = DataType.Float


def unrounded(store: Store, code: Iterable[object]) -> Expression:
    """What a store of a float of 16 bits rounds, where that is a float32, so that all lanes are
    rounded at once; else what it stores."""
    source = store.source
    if store.dtype not in FLOATS_OF_16 or not isinstance(source, Ref):
        return source
    for node in code:
        match node:
            case Let(name=source.name, expression=Convert(of=wide)) if wide.dtype is _WIDE:
                return wide
            case _:
                pass
    return source


def stores_of_lanes(
    stores: Iterable[Store], count: int, in_arrays: Container[str] = ()
) -> tuple[list[Lanes], list[Let], list[Store]]:
    """An array for `count` elements of each store, what fills it lane by lane, and the store of it.
    What is in an array anyway is stored from there."""
    arrays: list[Lanes] = []
    fills: list[Let] = []
    whole: list[Store] = []
    numbers: dict[Value, int] = {}
    for store in stores:
        if isinstance(store.source, Ref) and store.source.name in in_arrays:
            whole.append(dataclasses.replace(store, lanes=count))
            continue
        number = numbers.get(store.tensor, 0)
        numbers[store.tensor] = number + 1
        # Stores of one tensor are told apart.
        name = lanes_name(f"{store.tensor}_{number}" if number else str(store.tensor))
        dtype = store.source.dtype
        arrays.append(Lanes(name, dtype, count))
        fills.append(Let(name, dtype, store.source, in_lanes=True))
        whole.append(dataclasses.replace(store, source=Ref(name, dtype), lanes=count))
    return arrays, fills, whole


def widest_lanes(
    buffers: Buffers,
    accesses: Sequence[Access],
    inner: Axis,
    max_lane_bytes: int,
) -> int:
    """The widest power of two for which every one of these consecutive accesses is aligned.

    The narrowest type is accessed by whole accesses, as far as no tensor takes more than
    `max_lane_bytes` of a thread.
    """

    lanes = wanted_lanes(accesses, inner, max_lane_bytes)
    aligned = (aligned_lanes(buffers, each, inner, lanes) for each in accesses)
    return min(aligned, default=lanes)


def aligned_lanes(buffers: Buffers, access: Access, inner: Axis, lanes: int) -> int:
    """How many of the lanes a consecutive access can always move at once: so many of them start at
    a multiple of their bytes, up to an access's."""
    tensor, at = access
    size, alignment = tensor.dtype.itemsize, buffers.alignment(tensor)

    def are_aligned() -> bool:
        count = elements_at_once(size, lanes)
        return at.without(inner).is_multiple_of(count) and alignment % (count * size) == 0

    while lanes > 1 and not are_aligned():
        lanes //= 2
    return lanes


def wanted_lanes(accesses: Sequence[Access], inner: Axis, max_lane_bytes: int) -> int:
    """As `widest_lanes`, were everything aligned."""
    if not accesses:
        return 1
    sizes = [tensor.dtype.itemsize for tensor, _ in accesses]
    lanes = ACCESS_BYTES // min(sizes)
    while lanes > 1 and (max(sizes) * lanes > max_lane_bytes or lanes > inner.extent):
        lanes //= 2
    return lanes


def elements_at_once(size: int, lanes: int) -> int:
    """Elements of `size` bytes that one access moves of `lanes` of them."""
    return max(min(lanes * size, ACCESS_BYTES) // size, 1)
