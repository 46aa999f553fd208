"""Points that a processor places one after the other, of which much is computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from tests.definitions import Define, defined

COUNTS = 1, 15, 16, 40, 64, 65, 127, 1000
PLACES = 37


def checked(define: Define, *inputs: torch.Tensor) -> str:
    """The text of the kernel that scatters, which agrees with the oracle."""
    fd = defined(define, *inputs)
    fd.validate(inputs, target="cpu")
    return fd.plan(inputs, target="cpu").kernels[-1].source


def function(name: str) -> Callable[[FusionDefinition, Handle], Handle]:
    match name:
        case "sum":
            return lambda fd, x: x + x
        case "polynomial":
            return lambda fd, x: ((x * 0.5 + 1.0) * x - 2.0) * x + fd.ops.abs(x)
        case _:
            return lambda fd, x: getattr(fd.ops, name)(x)


def in_rows(fd: FusionDefinition, index: Handle, added: Handle) -> Handle:
    zeros = fd.ops.full([12, PLACES], 0.0, added.dtype())
    return fd.ops.scatter_add(zeros, index, added, 1)


def in_all(fd: FusionDefinition, index: Handle, added: Handle) -> Handle:
    zeros = fd.ops.full([PLACES], 0.0, added.dtype())
    return fd.ops.index_add(zeros, index, added, 0)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "all"])
@pytest.mark.parametrize("name", ["sum", "polynomial", "exp", "sin", "sqrt"])
@pytest.mark.parametrize("count", COUNTS)
def test_what_is_added_is_made_side_by_side(count: int, name: str, rows: bool):
    torch.manual_seed(count)
    shape = (12, count) if rows else (count,)
    compute = function(name)

    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        return (in_rows if rows else in_all)(fd, index, compute(fd, x))

    source = checked(define, torch.rand(shape), torch.randint(0, PLACES, shape))
    assert ("_placed[lane]" in source) == (count >= 16 and name not in ("sum", "sqrt"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("count", COUNTS)
def test_numbers_of_other_types(count: int, dtype: torch.dtype):
    """Whole numbers, of which no sum is rounded."""

    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        made = x
        for _ in range(7):
            made = fd.ops.maximum(made - 1, 0)
        return in_rows(fd, index, fd.ops.cast(made, x.dtype()))

    x = torch.randint(0, 12, (12, count)).to(dtype)
    assert ("_placed[lane]" in checked(define, x, torch.randint(0, PLACES, x.shape))) == (
        count >= 16
    )


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "all"])
@pytest.mark.parametrize("count", COUNTS)
def test_places_that_are_computed(count: int, rows: bool):
    """A histogram of what is weighed by a function."""
    shape = (12, count) if rows else (count,)

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        index = fd.ops.clamp(fd.ops.cast(x * PLACES, DataType.Int), 0, PLACES - 1)
        return (in_rows if rows else in_all)(fd, index, fd.ops.exp(x))

    source = checked(define, torch.randn(shape))
    assert ("_index[lane]" in source) == (count >= 16)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "all"])
@pytest.mark.parametrize("computed", [True, False], ids=["computed", "read"])
@pytest.mark.parametrize("wrong", [0, 38, 99])
def test_a_wrong_index_is_named(wrong: int, computed: bool, rows: bool):
    """In a whole round, in one that is moved back, and in those of it that are done again."""
    shape = (12, 100) if rows else (100,)

    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        at = (index * 3 + 1 - index * 2) - 1 if computed else index
        return (in_rows if rows else in_all)(fd, at, fd.ops.exp(x))

    x, index = torch.rand(shape), torch.randint(0, PLACES, shape)
    checked(define, x, index)
    fd = defined(define, x, index)
    index[..., wrong] = PLACES + 5
    operation = "scatter_add" if rows else "index_add"
    with pytest.raises(IndexOutOfRangeError, match=rf"{operation}.*index 42 .* 0 to 36"):
        fd.execute([x, index], target="cpu")


@pytest.mark.parametrize("count", COUNTS)
def test_the_last_of_several_written_to_one_place_stays(count: int):
    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        zeros = fd.ops.full([12, PLACES], 0.0, DataType.Float)
        return fd.ops.scatter(zeros, index, fd.ops.exp(x), 1)

    x, index = torch.rand(12, count), torch.arange(count).div(7, rounding_mode="floor")
    index = (index % PLACES).expand(12, count).contiguous()
    (made,) = defined(define, x, index).execute([x, index], target="cpu")
    want = torch.zeros(12, PLACES)
    for place in range(count):
        want[:, index[0, place]] = x[:, place].exp()
    torch.testing.assert_close(made, want)


@pytest.mark.parametrize("count", COUNTS)
def test_points_of_several_tensors(count: int):
    """Each part of a row is done in rounds of its own."""

    def define(fd: FusionDefinition, x: Handle, low: Handle, high: Handle) -> Handle:
        one, other = in_rows(fd, low, fd.ops.exp(x)), in_rows(fd, high, fd.ops.sin(x))
        return one + other

    indices = (torch.randint(0, PLACES, (12, count)) for _ in range(2))
    checked(define, torch.rand(12, count), *indices)


def test_random_numbers_are_drawn_in_turn():
    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        seed, offset = (fd.define_scalar(n, DataType.Int) for n in (7, 0))
        low, high = (fd.define_scalar(n, DataType.Double) for n in (0.0, 1.0))
        drawn = fd.ops.uniform(low, high, [12, 100], rng_seed=seed, rng_offset=offset)
        return in_rows(fd, index, fd.ops.exp(x * drawn))

    checked(define, torch.rand(12, 100), torch.randint(0, PLACES, (12, 100)))
