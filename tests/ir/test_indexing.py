"""Gathers and scatters are torch's, and an index out of range is named, with the operation."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import errors
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType, from_torch
from fuser.ir.interpret import interpret
from fuser.ir.nodes import CheckIndex, Gather, Operation, Scatter, Value
from fuser.ir.types import ScalarType, TensorType

GATHERS = ("index_select", "gather", "take_along_axis")
ADDING = ("scatter_add", "index_add", "index_put_accumulate")
JOINING = (*ADDING, "scatter_amax", "scatter_amin", "scatter_prod")
WRAPPING = ("select", "take_along_axis", "index_put_accumulate")
DATA = torch.arange(10.0)
SOURCE = torch.tensor([100.0, 200.0])


def declared(builder: FusionBuilder, tensor: torch.Tensor) -> Value:
    dtype = from_torch(tensor.dtype)
    assert dtype is not None
    return builder.input(TensorType(dtype, tuple(tensor.shape)))


def scattered(
    mode: str, data: torch.Tensor, index: torch.Tensor, src: torch.Tensor, dim: int = 0
) -> torch.Tensor:
    builder = FusionBuilder()
    values = [declared(builder, tensor) for tensor in (data, index, src)]
    builder.output(*builder.add(Scatter(*values, dim, mode)))
    return interpret(builder.fusion, [data, index, src])[0]


def indexed(mode: str, index: torch.Tensor | int, data: torch.Tensor = DATA) -> torch.Tensor:
    """What an operation of this mode makes of the data at `index`."""
    builder = FusionBuilder()
    value = declared(builder, data)
    if isinstance(index, int):
        at = builder.input(ScalarType(DataType.Int))
        op: Operation = Gather(mode, value, at, 0)
    else:
        at = declared(builder, index)
        if mode in GATHERS:
            op = Gather(mode, value, at, 0)
        elif mode == "check_index":
            op = CheckIndex(at, data.shape[0], mode)
        else:
            source = builder.add(Gather("index_select", value, at, 0))[0]
            return scattered(mode, data, index, torch.ones(source.shape))
    builder.output(*builder.add(op))
    return interpret(builder.fusion, [data, index])[0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_every_scatter_is_torchs(dim: int, dtype: torch.dtype) -> None:
    data, src = torch.randn(4, 5, 6), torch.randn(3, 5, 6)
    index = torch.randint(0, 4, (3, 2, 5), dtype=dtype)
    added = scattered("scatter_add", data, index, src, dim)
    assert torch.equal(added, torch.scatter_add(data, dim, index.long(), src))
    for reduce in ("amax", "amin", "prod"):
        joined = scattered(f"scatter_{reduce}", data, index, src, dim)
        assert torch.equal(joined, data.scatter_reduce(dim, index.long(), src, reduce))
    written = scattered("scatter", data, index[:1, :, :1], src, dim)
    assert torch.equal(written, torch.scatter(data, dim, index[:1, :, :1].long(), src))
    rows = torch.tensor([1, 3, 1], dtype=dtype)
    slices = torch.randn([3 if d == dim else size for d, size in enumerate(data.shape)])
    expected = torch.index_add(data, dim, rows, slices)
    assert torch.equal(scattered("index_add", data, rows, slices, dim), expected)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_rows_are_added_at_an_index_of_any_shape(shape: tuple[int, ...]) -> None:
    acc, value = torch.randn(4, 5), torch.randn(*shape, 5)
    index = torch.randint(-4, 4, shape)
    expected = torch.index_put(acc, (index,), value, accumulate=True)
    assert torch.equal(scattered("index_put_accumulate", acc, index, value), expected)


@pytest.mark.parametrize("columns", [1, 39, 40])
def test_an_expanded_index_may_be_shorter_than_a_row(columns: int) -> None:
    data, src, rows = torch.zeros(3, 40), torch.ones(20, columns), torch.arange(20) % 2
    got = scattered("scatter_add", data, rows[:, None].expand(20, columns), src)
    expected = torch.zeros(3, 40)
    expected[:2, :columns] = 10.0
    assert torch.equal(got, expected)


def test_one_slice_is_added_at_an_index_without_dimensions() -> None:
    acc, value = torch.randn(4, 5), torch.randn(4, 1)
    expected = torch.index_add(acc, 1, torch.tensor(3), value)
    assert torch.equal(scattered("index_add", acc, torch.tensor(3), value, 1), expected)


def test_take_along_axis_broadcasts_beside_its_dimension() -> None:
    data, index = torch.randn(4, 1, 6), torch.randint(-6, 6, (1, 5, 2))
    builder = FusionBuilder()
    values = [declared(builder, data), declared(builder, index)]
    builder.output(*builder.add(Gather("take_along_axis", *values, 2)))
    (result,) = interpret(builder.fusion, [data, index])
    assert torch.equal(result, torch.take_along_dim(data, index % 6, 2))


# -- out of range --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["scatter", "check_index", *GATHERS, *JOINING])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("wrong", [10, 99, -11, -1])
def test_an_index_out_of_range_is_named(mode: str, dtype: torch.dtype, wrong: int) -> None:
    index = torch.tensor([3, wrong], dtype=dtype)
    wraps = mode in WRAPPING
    if wraps and wrong == -1:
        assert torch.equal(indexed(mode, index), indexed(mode, torch.tensor([3, 9])))
        return
    words = f"{mode}: index {wrong} is out of range; allowed: {-10 if wraps else 0} to 9"
    with pytest.raises(errors.IndexOutOfRangeError, match=f"^{re.escape(words)}$"):
        indexed(mode, index)


@pytest.mark.parametrize("wrong", [10, -11])
def test_a_selected_position_out_of_range_is_named(wrong: int) -> None:
    assert indexed("select", -1) == 9
    with pytest.raises(errors.IndexOutOfRangeError, match=f"select: index {wrong} .* -10 to 9"):
        indexed("select", wrong)


@pytest.mark.parametrize("mode", ["check_index", *GATHERS, *JOINING])
def test_nothing_is_in_range_of_an_empty_dimension(mode: str) -> None:
    nothing = torch.empty(0)
    assert indexed(mode, torch.empty(0, dtype=torch.int64), nothing).shape == (0,)
    with pytest.raises(errors.IndexOutOfRangeError, match="none, the dimension is empty"):
        indexed(mode, torch.tensor([0]), nothing)


def test_the_error_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        indexed("gather", torch.tensor([10]))


def test_a_checked_index_is_unchanged() -> None:
    index = torch.tensor([9, 0, 4])
    assert torch.equal(indexed("check_index", index), index)


def test_what_several_elements_are_added_to() -> None:
    for mode in ADDING:
        total = scattered(mode, DATA, torch.tensor([4, 4]), SOURCE)
        assert total[4] == 304
        assert torch.equal(total[5:], DATA[5:])
