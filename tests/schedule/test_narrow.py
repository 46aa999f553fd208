"""Comparisons of 64-bit integers that are made in 32 bits, and those that are not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.agreement import agrees

Define = Callable[[FusionDefinition, Handle], Handle]
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
    masked = causal(fd, x)
    powers = fd.ops.exp(masked - fd.ops.max(masked, [1], keepdim=True))
    return powers / fd.ops.sum(powers, [1], keepdim=True)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("define", [causal, beyond_a_number, softmax_of_causal])
def test_numbers_of_rows_and_columns(define: Define, target: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        fd.add_output(define(fd, fd.from_pytorch(x)))
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
