"""Comparisons of 64-bit integers that are made in 32 bits, and those that are not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, agrees, defined
from tests.row_functions import softmax

ROWS, COLUMNS = 70, 1030


def both(fd: FusionDefinition, rows: int, columns: int) -> tuple[Handle, Handle]:
    """The numbers of the row and of the column, of each element."""
    sides: list[Handle] = []
    for dim, size in enumerate((rows, columns)):
        numbers = fd.ops.iota(size, dtype=DataType.Int)
        sides.append(fd.ops.broadcast_in_dim(numbers, [rows, columns], [dim]))
    return sides[0], sides[1]


def causal(fd: FusionDefinition, x: Handle) -> Handle:
    row, column = both(fd, ROWS, COLUMNS)
    return fd.ops.where(fd.ops.le(column, row), x, float("-inf"))


def beyond_a_number(fd: FusionDefinition, x: Handle) -> Handle:
    _, column = both(fd, ROWS, COLUMNS)
    return fd.ops.where(fd.ops.gt(column, 33), x, 0.0)


def softmax_of_causal(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, causal(fd, x))


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("define", [causal, beyond_a_number, softmax_of_causal])
def test_numbers_of_rows_and_columns(define: Define, target: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    fd = defined(define, x)
    (kernel,) = fd.plan([x], target=target).kernels
    assert "_narrow <= " in kernel.source or "_narrow > 33;" in kernel.source
    agrees(fd, [x], target)


def one_hot(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
    _, column = both(fd, ROWS, COLUMNS)
    chosen = fd.ops.broadcast_in_dim(index, [ROWS, COLUMNS], [0])
    return fd.ops.where(fd.ops.eq(column, chosen), x, 0.0)


def test_an_index_of_any_value_is_compared_in_64_bits() -> None:
    """2^32 + 5 is not 5."""
    x = torch.randn(ROWS, COLUMNS)
    index = torch.arange(ROWS) + 2**32
    index[3] = 3
    with FusionDefinition() as fd:
        fd.add_output(one_hot(fd, fd.from_pytorch(x), fd.from_pytorch(index)))
    (kernel,) = fd.plan([x, index], target="cpu").kernels
    assert "_narrow" not in kernel.source
    (made,) = agrees(fd, [x, index], "cpu")
    assert made.count_nonzero() == 1


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("op", ["eq", "ne"])
def test_a_row_s_number_is_compared_with_places_in_32_bits(op: str, target: str) -> None:
    """Whatever it is: 2^32 + 5 is not 5, nor is what has no 32 bits place -2^31."""
    x = torch.randn(ROWS, COLUMNS)
    index = torch.randint(0, COLUMNS, (ROWS,))
    index[:6] = torch.tensor([2**32 + 5, -(2**31), -(2**63), 2**63 - 1, -1, 2**31])
    with FusionDefinition() as fd:
        given, number = fd.from_pytorch(x), fd.from_pytorch(index)
        total = fd.ops.sum(given, [1], keepdim=True)
        _, column = both(fd, ROWS, COLUMNS)
        chosen = fd.ops.broadcast_in_dim(number, [ROWS, COLUMNS], [0])
        fd.add_output(fd.ops.where(getattr(fd.ops, op)(column, chosen), given - total, 0.0))
    (kernel,) = fd.plan([x, index], target=target).kernels
    assert re.search(r"_narrow [!=]= T\d+_narrow;", kernel.source)
    agrees(fd, [x, index], target)


def test_an_order_of_any_number_is_found_in_64_bits() -> None:
    x = torch.randn(ROWS, COLUMNS)
    index = torch.randint(-(2**40), 2**40, (ROWS,))
    index[:3] = torch.tensor([2**32 + 5, 7, -(2**63)])
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        total = fd.ops.sum(given, [1], keepdim=True)
        _, column = both(fd, ROWS, COLUMNS)
        last = fd.ops.broadcast_in_dim(fd.from_pytorch(index), [ROWS, COLUMNS], [0])
        fd.add_output(fd.ops.where(fd.ops.le(column, last), given - total, 0.0))
    (kernel,) = fd.plan([x, index], target="cpu").kernels
    assert "_narrow" not in kernel.source
    agrees(fd, [x, index], "cpu")


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**40])
def test_a_number_that_does_not_fit_is_compared_in_64_bits(number: int) -> None:
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        _, column = both(fd, ROWS, COLUMNS)
        below = fd.ops.lt(column, number)
        fd.add_output(fd.ops.where(below, fd.from_pytorch(x), 0.0))
    agrees(fd, [x], "cpu")
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert "_narrow" not in kernel.source


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_a_checked_index_is_compared_in_32_bits(target: str) -> None:
    """The gradient of a loss: a scatter that became a comparison."""
    scores = torch.randn(ROWS, COLUMNS)
    index = torch.randint(0, COLUMNS, (ROWS, 1))
    with FusionDefinition() as fd:
        x, at = fd.from_pytorch(scores), fd.from_pytorch(index)
        zeros = fd.ops.full([ROWS, COLUMNS], 0.0, dtype=DataType.Float)
        ones = fd.ops.full([ROWS, 1], -1.0, dtype=DataType.Float)
        fd.add_output(fd.ops.scatter(zeros, at, ones, 1) + fd.ops.exp(x))
    plan = fd.plan([scores, index], target=target)
    assert any("_narrow == " in kernel.source for kernel in plan.kernels)
    agrees(fd, [scores, index], target)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dim", [0, 1])
def test_what_a_row_has_narrow_is_made_once(dim: int, target: str) -> None:
    """The number of the row, compared before a sweep and after it."""
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        numbers = fd.ops.iota(x.shape[1 - dim], dtype=DataType.Int)
        weights = fd.ops.where(fd.ops.lt(numbers, 30), 1.0, 2.0)
        total = fd.ops.sum(given * fd.ops.broadcast(weights, [dim == 0, dim == 1]), [dim])
        fd.add_output(fd.ops.where(fd.ops.lt(numbers, 50), total, 0.0))
    (kernel,) = fd.plan([x], target=target).kernels
    assert len(re.findall(r"int32 \w+_index_narrow", kernel.source)) == 1
    agrees(fd, [x], target)


def kernel_text(source: str) -> str:
    """The kernel without the definition above it and the device library."""
    return source[source.index('extern "C"') :]


def near(fd: FusionDefinition, x: Handle) -> Handle:
    """A sliding window: the column is at most 5 before the row, and not after it."""
    row, column = both(fd, ROWS, COLUMNS)
    before = row - column
    return fd.ops.where(fd.ops.logical_and(fd.ops.lt(before, 6), fd.ops.ge(before, 0)), x, 0.0)


def diagonal_in_steps(fd: FusionDefinition, x: Handle) -> Handle:
    row, column = both(fd, ROWS, COLUMNS)
    return fd.ops.where(fd.ops.eq(-(row * 3) + 7, 1 - column), x, 0.0)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("define", [near, diagonal_in_steps])
def test_sums_of_rows_and_columns_are_one_number(define: Define, target: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    fd = defined(define, x)
    (kernel,) = fd.plan([x], target=target).kernels
    assert "int32" in kernel_text(kernel.source)
    assert not re.search(r"const int64 T\d+\w* =", kernel_text(kernel.source)), (
        "nothing else reads them"
    )
    agrees(fd, [x], target)


@pytest.mark.parametrize("factor", [2**31, 2**33, -(2**62)])
def test_products_that_do_not_fit_are_compared_in_64_bits(factor: int) -> None:
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        row, column = both(fd, ROWS, COLUMNS)
        same = fd.ops.eq(row * factor, column * factor)
        fd.add_output(fd.ops.where(same, fd.from_pytorch(x), 0.0))
    agrees(fd, [x], "cpu")
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert "int32" not in kernel_text(kernel.source)


def place_of(fd: FusionDefinition, x: Handle, moved: Handle) -> Handle:
    """Elements whose row, moved by a tensor's number, is the column: the gradient of a pool."""
    row, column = both(fd, ROWS, COLUMNS)
    wide = fd.ops.cast(moved, dtype=DataType.Int)
    return fd.ops.where(fd.ops.eq(row * 2 + wide, column + 1), x, 0.0)


def other_than(fd: FusionDefinition, x: Handle, moved: Handle) -> Handle:
    row, column = both(fd, ROWS, COLUMNS)
    wide = fd.ops.cast(moved, dtype=DataType.Int)
    return fd.ops.where(fd.ops.ne(column, wide + row), x, 0.0)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("define", [place_of, other_than])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_numbers_of_a_tensor_are_compared_with_differences(
    define: Callable[[FusionDefinition, Handle, Handle], Handle], dtype: torch.dtype, target: str
) -> None:
    """The largest and the smallest do not wrap around to what they are compared with."""
    x = torch.randn(ROWS, COLUMNS)
    limits = torch.iinfo(dtype)
    moved = torch.randint(max(limits.min, -100), 100, x.shape).to(dtype)
    moved[:, ::3], moved[:, 1::7] = limits.max, limits.min
    fd = defined(define, x, moved)
    (kernel,) = fd.plan([x, moved], target=target).kernels
    assert re.search(r"[!=]= T\d+_place;", kernel.source)
    (out,) = agrees(fd, [x, moved], target)
    assert out.count_nonzero()


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_two_numbers_of_tensors_and_large_differences_are_compared_in_64_bits(target: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    one, other = (torch.randint(-3, 3, x.shape, dtype=torch.int32) for _ in range(2))
    one[0], other[0] = 2**31 - 1, -(2**31)
    with FusionDefinition() as fd:
        given, left, right = map(fd.from_pytorch, (x, one, other))
        row, column = both(fd, ROWS, COLUMNS)
        wide = [fd.ops.cast(side, dtype=DataType.Int) for side in (left, right)]
        same = fd.ops.eq(row + wide[0], column + wide[1])
        far = fd.ops.eq(row + wide[0], column + 2**33)
        fd.add_output(fd.ops.where(fd.ops.logical_or(same, far), given, 0.0))
    (kernel,) = fd.plan([x, one, other], target=target).kernels
    assert "_place" not in kernel_text(kernel.source)
    agrees(fd, [x, one, other], target)


def test_what_only_wide_comparisons_read_is_not_made() -> None:
    """A causal softmax has the numbers of its rows and columns in 32 bits alone."""
    x = torch.randn(ROWS, COLUMNS)
    fd = defined(softmax_of_causal, x)
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert not re.search(r"const int64 T\d+\w* =", kernel_text(kernel.source))


def positions(fd: FusionDefinition, x: Handle) -> Handle:
    row, column = both(fd, ROWS, COLUMNS)
    return x * fd.ops.cast(column - row * 2, dtype=DataType.Float)


def promoted_positions(fd: FusionDefinition, x: Handle) -> Handle:
    return x * both(fd, ROWS, COLUMNS)[1]


def far_positions(fd: FusionDefinition, x: Handle) -> Handle:
    _, column = both(fd, ROWS, COLUMNS)
    return x * fd.ops.cast(column * 2**22 + 1, dtype=DataType.Double)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize(
    ("define", "narrow"),
    [(positions, True), (promoted_positions, True), (far_positions, False)],
)
def test_positions_become_floating_from_32_bits(define: Define, narrow: bool, target: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    fd = defined(define, x)
    (kernel,) = fd.plan([x], target=target).kernels
    assert ("_narrow" in kernel_text(kernel.source)) == narrow
    agrees(fd, [x], target)
