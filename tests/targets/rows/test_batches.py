"""Short rows that are done in batches: any number of rows, of any length, in every type."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import only_kernel

FLOAT = DataType.Float
DTYPES = [DataType.BFloat16, DataType.Half, FLOAT, DataType.Double, DataType.Int, DataType.Int32]
Define = Callable[[FusionDefinition, Handle], list[Handle]]


def softmax(fd: FusionDefinition, x: Handle) -> list[Handle]:
    e = fd.ops.exp(x - fd.ops.max(x, [-1], keepdim=True))
    return [e / fd.ops.sum(e, [-1], keepdim=True)]


def layernorm(fd: FusionDefinition, x: Handle) -> list[Handle]:
    variance, mean = fd.ops.var_mean(x, [-1], correction=0, keepdim=True)
    return [(x - mean) * fd.ops.rsqrt(variance + 1e-5), mean]


def logarithms(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Two numbers of each row, and nothing else."""
    largest = fd.ops.max(fd.ops.abs(x), [-1])
    return [fd.ops.log2(largest + 1.0), fd.ops.gt(largest, 0.5)]


def scaled(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """As blocks of microscaling formats are."""
    largest = fd.ops.max(fd.ops.abs(x), [-1], keepdim=True)
    scale = fd.ops.exp2(fd.ops.floor(fd.ops.log2(largest + 2.0**-20)))
    codes = fd.ops.cast(x / scale, DataType.Float8_e4m3fn)
    return [codes, fd.ops.cast(scale, DataType.Float8_e8m0fnu)]


def several(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Folds of every kind, of which each has another type of lanes."""
    low, high = fd.ops.min(x, [-1], keepdim=True), fd.ops.max(x, [-1], keepdim=True)
    same = fd.ops.all(fd.ops.eq(x, high), [-1], keepdim=True)
    place = fd.ops.argmax(x, dim=x.ndim - 1, keepdim=True)
    spread = fd.ops.log1p(fd.ops.abs(high - low))
    return [fd.ops.where(same, 0.0, (x - low) / (spread + 1.0)), place, same]


CASES: list[Define] = [softmax, layernorm, logarithms, scaled, several]


def rows_of(shape: tuple[int, ...], dtype: DataType, gap: int = 0) -> torch.Tensor:
    """With NaN and infinities in a few rows, and gaps between them."""
    generator = torch.Generator().manual_seed(shape[-1])
    sizes = (*shape[:-1], shape[-1] + gap)
    if dtype.is_integral:
        made = torch.randint(-9, 9, sizes, generator=generator)
    else:
        made = torch.randn(sizes, generator=generator, dtype=torch.float64)
        made.view(-1, sizes[-1])[3, 1] = torch.nan
        made.view(-1, sizes[-1])[5, 2] = torch.inf
    return made.to(dtype.torch)[..., : shape[-1]]


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_rows_are_what_the_oracle_gives(make: Define, dtype: DataType) -> None:
    for length in (16, 17, 31, 32, 49, 64, 130, 256):
        for rows in (130, 144, 257):
            x = rows_of((rows, length), dtype)
            with FusionDefinition() as fd:
                wide = fd.from_pytorch(x)
                wide = wide if dtype is DataType.Double else fd.ops.cast(wide, FLOAT)
                for out in make(fd, wide):
                    fd.add_output(out)
            fd.validate([x])


@pytest.mark.parametrize("make", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [(3, 5, 128), (2, 129)], ids=str)
def test_rows_of_several_dimensions(make: Define, rows: tuple[int, ...]) -> None:
    """With gaps between the rows, and between groups of them."""
    x = rows_of((*rows, 40), DataType.BFloat16, gap=3)[..., 1:, :]
    with FusionDefinition() as fd:
        for out in make(fd, fd.ops.cast(fd.from_pytorch(x), FLOAT)):
            fd.add_output(out)
    fd.validate([x])


def batched(fd: FusionDefinition, given: list[torch.Tensor]) -> bool:
    return "first_row" in only_kernel(fd, given).code


def test_rows_are_in_batches_where_arithmetic_takes_the_time() -> None:
    def of(make: Define, dtype: DataType, rows: int, length: int) -> bool:
        x = rows_of((rows, length), dtype)
        with FusionDefinition() as fd:
            for out in make(fd, fd.ops.cast(fd.from_pytorch(x), FLOAT)):
                fd.add_output(fd.ops.cast(out, dtype) if out.dtype() is FLOAT else out)
        return batched(fd, [x])

    assert of(softmax, DataType.BFloat16, 4096, 64)
    assert of(layernorm, DataType.BFloat16, 4096, 128)
    assert of(scaled, FLOAT, 4096, 32)
    assert not of(layernorm, FLOAT, 4096, 128)  # memory does
    assert not of(softmax, DataType.BFloat16, 4096, 512)
    assert not of(softmax, DataType.BFloat16, 20, 64)  # 12 of 32 would be done twice
    assert not of(softmax, DataType.BFloat16, 12, 64)


def test_the_loss_of_short_rows() -> None:
    """An index is checked once a row, one after the other."""
    x, target = rows_of((300, 40), DataType.BFloat16), torch.randint(0, 40, (300, 1))
    with FusionDefinition() as fd:
        scores = fd.ops.cast(fd.from_pytorch(x), FLOAT)
        largest = fd.ops.max(scores, [1], keepdim=True)
        sums = fd.ops.sum(fd.ops.exp(scores - largest), [1], keepdim=True)
        logs = scores - largest - fd.ops.log(sums)
        fd.add_output(fd.ops.gather(logs, fd.from_pytorch(target), 1))
    fd.validate([x, target])
    assert batched(fd, [x, target])


def test_rows_that_overwrite_what_they_read() -> None:
    """Nothing may be done twice then."""
    x = torch.randn(300, 40).bfloat16()
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        (out,) = softmax(fd, fd.ops.cast(given, FLOAT))
        fd.add_output(fd.ops.cast(out, DataType.BFloat16), alias_input=given)
    expected = torch.softmax(x.float(), 1).bfloat16()
    fd.execute([x])
    torch.testing.assert_close(x, expected, rtol=1e-2, atol=1e-2)


def test_neighbours_of_the_result_are_left_alone() -> None:
    """The last batch is moved back, not over the end."""
    x, room = torch.randn(133, 40).bfloat16(), torch.full((137, 44), 7.0).bfloat16()
    into = room[2:135, 2:42]
    with FusionDefinition() as fd:
        given, old = fd.from_pytorch(x), fd.from_pytorch(into)
        (out,) = softmax(fd, fd.ops.cast(given, FLOAT))
        fd.add_output(fd.ops.cast(out, DataType.BFloat16), alias_input=old)
    fd.execute([x, into])
    assert (room[:2] == 7).all()
    assert (room[135:] == 7).all()
    assert (room[:, :2] == 7).all()
    assert (room[:, 42:] == 7).all()
    torch.testing.assert_close(into, torch.softmax(x.float(), 1).bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("length", [40, 64, 65, 100, 256])
@pytest.mark.parametrize("early", [False, True])
def test_rows_are_drawn_in_whole_vectors_of_blocks(length: int, early: bool) -> None:
    """Both where a fold needs the numbers and where only a result does."""
    x = rows_of((131, length), FLOAT)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        drawn = fd.ops.rand_like(given, rng_seed=3, rng_offset=5)
        (out,) = softmax(fd, given * drawn if early else given)
        for each in (fd.ops.gt(drawn, 0.1), out if early else out * drawn):
            fd.add_output(each)
    fd.validate([x])
    assert batched(fd, [x])
    text = only_kernel(fd, [x]).code
    lanes = {int(number) for number in re.findall(r"draw_lanes<\w+, (\d+)>", text)}
    assert min(lanes) >= (32 if length >= 64 else 16)
