"""Random drafts around gathers and scatters: data, arithmetic and views before and after, indices.

Indices are ranges, random ones with duplicates, and now and then ones that are out of range.
"""

from __future__ import annotations

import math
import random

import torch

from fuser.errors import FuserError
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Full,
    Gather,
    Iota,
    Permute,
    Scatter,
    Squeeze,
    Value,
    View,
)
from tests.passes.rewriting import Draft

NUMBERS = (DataType.Float, DataType.Double, DataType.Half, DataType.Int, DataType.Int32)
INDICES = (DataType.Int, DataType.Int32)
GATHERS = ("gather", "index_select", "take_along_axis", "select")
ALONG = ("scatter", "scatter_add", "scatter_amax", "scatter_amin", "scatter_prod")
SCATTERS = (*ALONG, "index_add", "index_put_accumulate")
MAX_ELEMENTS = 200


def random_tensor(rng: random.Random, shape: tuple[int, ...], dtype: DataType) -> torch.Tensor:
    """Small numbers: contiguous, permuted or strided."""
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    numbers = torch.randint(-4, 5, shape, generator=generator)
    tensor = (numbers if dtype.is_integral else numbers / 4).to(dtype.torch)
    layout = rng.choice(["contiguous", "contiguous", "permuted", "strided"])
    if layout == "permuted":
        order = list(range(len(shape)))
        rng.shuffle(order)
        return (
            tensor.permute(order)
            .contiguous()
            .permute([order.index(dim) for dim in range(len(order))])
        )
    if layout == "strided" and shape:
        return tensor.repeat_interleave(2, -1)[..., ::2]
    return tensor


def draft_of_gather(rng: random.Random) -> Draft:
    """Inputs, operations on them, and one or two gathers that are outputs."""
    draft = Draft()
    values: list[Value] = []
    for _ in range(rng.randint(1, 3)):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        given = random_tensor(rng, shape, rng.choice(NUMBERS))
        values.append(draft.tensor(given, declared=rng.random() < 0.7))
    if rng.random() < 0.4:
        values.append(draft.scalar(1.5, DataType.Double))
    if rng.random() < 0.3:
        shape = (rng.randint(1, 4), rng.randint(1, 4))
        values.append(draft.add(Full(shape, draft.number(1), rng.choice(NUMBERS))))
    grow(rng, draft, values)
    for _ in range(rng.randint(1, 2)):
        data = rng.choice(
            [value for value in values[-4:] if value.is_tensor and value.shape] or values[:1]
        )
        found = add_gather(rng, draft, data)
        if found is not None:
            values.append(found)
            draft.out(found)
            grow(rng, draft, values)
    return draft.out(next(value for value in reversed(values) if value.is_tensor))


def add_gather(rng: random.Random, draft: Draft, data: Value) -> Value | None:
    """A gather from `data`, if it can be."""
    mode = rng.choice(GATHERS)
    dim = rng.randrange(len(data.shape))
    size = data.shape[dim]
    if mode == "select":
        at = rng.randint(-size - 1, size) if rng.random() < 0.3 else rng.randrange(max(size, 1))
        known = rng.random() < 0.5
        index = draft.number(at) if known else draft.scalar(at, DataType.Int)
    else:
        shape = _index_shape(rng, mode, data.shape, dim)
        along = 0 if mode == "index_select" else dim
        index = random_index(rng, draft, shape, along, size)
    try:
        return draft.add(Gather(mode, data, index, dim))
    except FuserError:
        return None


def _index_shape(rng: random.Random, mode: str, data: tuple[int, ...], dim: int) -> tuple[int, ...]:
    count = rng.randrange(4)
    match mode:
        case "index_select":
            return () if rng.random() < 0.1 else (count,)
        case "gather":
            return tuple(
                count if d == dim else rng.randint(max(size - 1, 0), size)
                for d, size in enumerate(data)
            )
        case _:
            return tuple(
                count if d == dim or size == 1 else rng.choice([1, size])
                for d, size in enumerate(data)
            )


def draft_of_scatter(rng: random.Random) -> Draft:
    """A scatter that is an output, into an input or a constant, and operations on it."""
    draft = Draft()
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3)))
    dtype = rng.choice([*NUMBERS, DataType.Bool, DataType.ComplexFloat])
    data = _scatter_data(rng, draft, shape, dtype)
    mode = rng.choice([mode for mode in SCATTERS if not dtype.is_complex or "_am" not in mode])
    dim = 0 if mode == "index_put_accumulate" else rng.randrange(len(shape))
    size = shape[dim]
    if mode in ALONG:
        # Unlike torch's other modes, `scatter` keeps any one of the elements that meet.
        along = 1 if rng.random() < 0.4 or mode == "scatter" else rng.randint(1, size)
        rows = tuple(n if rng.random() < 0.7 else rng.randint(0, n) for n in shape)
        at = (*rows[:dim], along, *rows[dim + 1 :])
        source = tuple(n + rng.choice([0, 0, 1]) for n in at)
    else:
        count = rng.randint(0, size)
        at = rng.choice([(count,), (count,), (1, count) if mode != "index_add" else (count,), ()])
        middle = (math.prod(at),) if mode == "index_add" else at
        source = (*shape[:dim], *middle, *shape[dim + 1 :])
    if mode == "scatter" and rng.random() < 0.3:
        at = shape
        source = shape
    index = random_index(rng, draft, at, dim if len(at) == len(shape) else 0, size, at == shape)
    if mode == "scatter" and rng.random() < 0.4:
        known = rng.random() < 0.5
        src = draft.number(2.7, DataType.Double) if known else draft.scalar(-1.5, DataType.Double)
    else:
        src = draft.tensor(random_tensor(rng, source, dtype), declared=rng.random() < 0.7)
    values = [draft.add(Scatter(data, index, src, dim, mode))]
    draft.out(*values)
    if dtype in NUMBERS:
        grow(rng, draft, values)
    return draft.out(values[-1])


def _scatter_data(
    rng: random.Random, draft: Draft, shape: tuple[int, ...], dtype: DataType
) -> Value:
    match rng.randrange(4):
        case 0:
            given = random_tensor(rng, shape, dtype)
            return draft.tensor(given, declared=rng.random() < 0.7)
        case 1:
            small = draft.add(Full((1,) * len(shape), draft.number(0), DataType.Float))
            return draft.add(Cast(draft.add(Expand(small, shape)), dtype))
        case number:
            return draft.add(Full(shape, draft.number(number - 2), dtype))


def random_index(
    rng: random.Random,
    draft: Draft,
    shape: tuple[int, ...],
    dim: int,
    size: int,
    covers: bool = False,
) -> Value:
    """An index into a dimension of `size`; if it `covers` it, a range."""
    wild = rng.random() < 0.15
    if covers or rng.random() < 0.5:
        return _range_index(rng, draft, shape, dim, size, covers, wild)
    low, high = (-size - 1, size + 1) if wild else (0, max(size - 1, 0))
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    numbers = torch.randint(low, high + 1, shape, generator=generator)
    given = numbers.to(rng.choice(INDICES).torch)
    return draft.tensor(given, declared=rng.random() < 0.7)


def _range_index(
    rng: random.Random,
    draft: Draft,
    shape: tuple[int, ...],
    dim: int,
    size: int,
    covers: bool,
    wild: bool,
) -> Value:
    """An iota in one of many guises: computed in another type, shifted, scaled, broadcast."""
    count = shape[dim] if shape else 1
    step = rng.choice([1, -1] if covers else [1, 1, -1, 2, -2, 3, 0])
    start = rng.randint(-size - 1, size) if wild else rng.randrange(max(size, 1))
    if covers and not wild:
        start = 0 if step == 1 else size - 1
    dtype = rng.choice([*INDICES, DataType.Float])
    scale, shift = rng.choice([(1, 0), (1, 3), (-1, 1)])
    first, pace = draft.number(start * scale + shift), draft.number(step * scale)
    value = draft.add(Iota(count, first, pace, dtype))
    if shift:
        value = draft.pointwise("sub", value, draft.number(shift))
    if scale != 1:
        value = draft.pointwise("mul", draft.number(scale), value)
    if dtype is DataType.Float:
        value = draft.add(Cast(value, rng.choice(INDICES)))
    if not shape:
        return draft.add(Squeeze(value, (0,)))
    if len(shape) == 1:
        return value
    value = draft.add(Broadcast(value, tuple(d != dim for d in range(len(shape)))))
    return draft.add(Expand(value, shape))


def grow(rng: random.Random, draft: Draft, values: list[Value]) -> None:
    """Append a few operations on the last values."""
    for _ in range(rng.randrange(8)):
        value = rng.choice(values[-3:])
        if not value.is_tensor:
            continue
        try:
            made = _step(rng, draft, value, rng.choice(values))
        except FuserError:
            continue
        if len(made.shape) <= 4 and made.elements <= MAX_ELEMENTS:
            values.append(made)


def _step(rng: random.Random, draft: Draft, value: Value, other: Value) -> Value:
    rank = len(value.shape)
    match rng.randrange(8):
        case 0:
            return draft.pointwise(rng.choice(["neg", "exp", "abs", "set"]), value)
        case 1 | 2 | 3:
            made = draft.pointwise(rng.choice(["add", "mul", "sub", "maximum"]), value, other)
            # Where both operands broadcast, torch's strides depend on those of sizes of 1.
            return made if made.shape in (value.shape, other.shape) else value
        case 4:
            return draft.add(Cast(value, rng.choice(NUMBERS)))
        case 5:
            dims = list(range(rank))
            rng.shuffle(dims)
            return draft.add(Permute(value, tuple(dims)))
        case 6:
            new = rng.randint(0, rank)
            value = draft.add(Broadcast(value, tuple(d == new for d in range(rank + 1))))
            # Beside dimensions of size 1, what torch computes from an expanded tensor is laid out
            # by strides that are never used.
            repeats = 1 if value.shape.count(1) > 1 else rng.randint(1, 3)
            return draft.add(Expand(value, (*value.shape[:new], repeats, *value.shape[new + 1 :])))
        case _:
            return draft.add(View(value, another_shape(rng, value.shape)))


def another_shape(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Two dimensions merged, or one split."""
    if not shape or 0 in shape:
        return shape
    dim = rng.randrange(len(shape))
    if rng.random() < 0.5 and dim + 1 < len(shape):
        return (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])
    size = shape[dim]
    factor = rng.choice([n for n in range(1, size + 1) if size % n == 0])
    return (*shape[:dim], factor, size // factor, *shape[dim + 1 :])
