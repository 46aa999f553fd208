"""Scatters whose rows have points of their own: on the processor, one kernel makes row by row."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from tests.definitions import Define, defined

ROWS, COUNT = 24, 50
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.uint8,
)


def one_kernel(define: Define, *inputs: torch.Tensor) -> FusionDefinition:
    """A definition that is one kernel, which agrees with the oracle."""
    fd = defined(define, *inputs)
    plan = fd.plan(inputs, target="cpu")
    assert len(plan.kernels) == len(plan.steps) == 1, str(plan)
    fd.validate(inputs)
    return fd


def added(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.scatter_add(x, index, source, -1)


def given(
    length: int, dtype: torch.dtype = torch.float32, *, rows: tuple[int, ...] = (ROWS,)
) -> list[torch.Tensor]:
    torch.manual_seed(length)
    index = torch.randint(0, length, (*rows, COUNT))
    return [
        torch.randn(*rows, length).mul(9).to(dtype),
        index,
        torch.randn(*rows, COUNT).mul(9).to(dtype),
    ]


@pytest.mark.parametrize("length", [16, 77, 600, 2048])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_added(length: int, dtype: torch.dtype) -> None:
    one_kernel(added, *given(length, dtype))


@pytest.mark.parametrize("length", [16, 600])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool], ids=str)
def test_the_last_of_several_written_to_one_place_stays(length: int, dtype: torch.dtype) -> None:
    x, _, source = given(length, dtype)
    index = torch.arange(COUNT).div(10, rounding_mode="floor").expand(ROWS, COUNT).contiguous()
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.scatter(*map(fd.from_pytorch, (x, index, source)), 1))
    expected = x.clone()
    expected[:, :5] = source[:, 9::10]
    assert torch.equal(fd.execute([x, index, source], target="cpu")[0], expected)


def test_what_surrounds_the_scatter_is_in_its_kernel() -> None:
    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> list[Handle]:
        total = fd.ops.scatter_add(fd.ops.neg(x), fd.ops.abs(index), fd.ops.sin(source), 2)
        return [total, fd.ops.exp(fd.ops.neg(fd.ops.abs(total)))]

    one_kernel(define, *given(600, rows=(3, 8)))


def test_a_scalar_is_written_into_zeros() -> None:
    """A row for each label, with a one in its place."""

    def define(fd: FusionDefinition, index: Handle) -> Handle:
        zeros = fd.ops.full([ROWS, 100], 0.0, DataType.Float)
        return fd.ops.scatter_add(zeros, index, fd.ops.full([ROWS, 1], 1.0, DataType.Float), 1)

    one_kernel(define, torch.randint(0, 100, (ROWS, 1)))


@pytest.mark.parametrize("length", [40, 600])
def test_rows_that_share_an_index(length: int) -> None:
    x, index, source = given(length)

    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        return fd.ops.index_add(x, index, source, 1)

    one_kernel(define, x, index[0].contiguous(), source)


@pytest.mark.parametrize("index", [torch.tensor(7), torch.tensor([7])], ids=["number", "list"])
def test_rows_have_one_point_at_one_index(index: torch.Tensor) -> None:
    x, _, source = given(40)

    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        return fd.ops.index_add(x, index, source, 1)

    one_kernel(define, x, index, source[:, :1])


def test_memory_of_other_layouts() -> None:
    x, index, source = given(40)
    one_kernel(added, x.t().contiguous().t(), index[:, ::2], source[:, ::2])
    one_kernel(added, x[:1].expand(ROWS, 40), index, source[:, :1].expand(ROWS, COUNT))


def test_a_source_with_more_than_the_index() -> None:
    x, index, source = given(40)
    one_kernel(added, x, index[:, :20].contiguous(), source)


@pytest.mark.parametrize("wrong", [-1, 40])
def test_a_wrong_index_is_named(wrong: int) -> None:
    x, index, source = given(40)
    fd = one_kernel(added, x, index, source)
    index[7, 3] = wrong
    with pytest.raises(IndexOutOfRangeError, match=rf"scatter_add.*index {wrong} .* 0 to 39"):
        fd.execute([x, index, source], target="cpu")


def test_sums_do_not_stop_growing() -> None:
    """16-bit numbers are added in a wider type, and rounded once."""
    x, ones = torch.zeros(8, 16).bfloat16(), torch.ones(8, 5000).bfloat16()
    index = torch.zeros(8, 5000, dtype=torch.int64)
    (made,) = one_kernel(added, x, index, ones).execute([x, index, ones], target="cpu")
    assert made[:, 0].float().tolist() == [torch.tensor(5000.0).bfloat16().float().item()] * 8
