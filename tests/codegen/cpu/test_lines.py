"""Reductions to a few columns on the processor: line by line of memory, which threads share out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen.kernel_source import KernelSource
from fuser.frontend.handles import Handle
from tests.covering import more
from tests.definitions import Define, defined
from tests.row_functions import softmax_of_columns
from tests.vector_notes import assert_vectorized, needs_notes


def summed(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(x * 2.0, [0])


def extremes(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.max(x, [0]), fd.ops.min(x, [0], keepdim=True)]


def batch_norm(fd: FusionDefinition, x: Handle) -> list[Handle]:
    var, mean = fd.ops.var_mean(x, [0], correction=0, keepdim=True)
    scale = fd.ops.rsqrt(var + 1e-5)
    return [(x - mean) * scale, mean, fd.ops.squeeze(scale, [0])]


def stored_with_a_fold(fd: FusionDefinition, x: Handle) -> list[Handle]:
    y = fd.ops.sin(x)
    return [y, fd.ops.sum(y, [0])]


def of_two_dimensions(fd: FusionDefinition, x: Handle) -> Handle:
    """Lines with gaps between them, along two dimensions that are not one."""
    y = fd.ops.slice(x, [0, 0, 0], [64, 18, x.size(2)], [1, 1, 1])
    return y - fd.ops.mean(y, [0, 1], keepdim=True)


def inputs(define: Define, lines: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shape = (64, 20, columns) if define is of_two_dimensions else (lines, columns)
    return [(torch.randn(shape) * 3 + 1).to(dtype)]


def kernel(define: Define, lines: int, columns: int) -> KernelSource:
    given = inputs(define, lines, columns, torch.float32)
    (step,) = defined(define, *given).plan(given, target="cpu").kernels
    assert step.kernel_source is not None
    assert "columns of lines" in step.mapping
    return step.kernel_source


CASES = [summed, extremes, batch_norm, softmax_of_columns, stored_with_a_fold, of_two_dimensions]


@pytest.mark.parametrize("define", CASES)
@pytest.mark.parametrize("columns", [2, 16, 63, 300, 1025, 3000, *more(9, 64, 513)])
@pytest.mark.parametrize("lines", [1024, 1025])
def test_columns_agree_with_the_oracle(define: Define, columns: int, lines: int) -> None:
    given = inputs(define, lines, columns, torch.float32)
    defined(define, *given).validate(given)


@pytest.mark.parametrize("define", CASES)
@pytest.mark.parametrize("columns", [7, 600, 2050, *more(40)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_columns_of_any_type(define: Define, columns: int, dtype: torch.dtype) -> None:
    given = inputs(define, 1030, columns, dtype)
    defined(define, *given).validate(given)


@pytest.mark.parametrize("columns", [5, 40, 600, 1100])
def test_special_numbers_come_through(columns: int) -> None:
    given = inputs(extremes, 1030, columns, torch.float32)
    for place, number in enumerate((torch.nan, torch.inf, -torch.inf, -0.0)):
        given[0][place::97, place::5] = number
    for define in (summed, extremes, softmax_of_columns):
        defined(define, *given).validate(given)


@pytest.mark.parametrize("columns", [40, 600, 1100])
def test_sums_of_integers(columns: int) -> None:
    given = [torch.randint(-9, 9, (1030, columns))]
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given[0])
        fd.add_output(fd.ops.sum(x, [0]))
        fd.add_output(fd.ops.prod(fd.ops.sign(x), [0]))
    fd.validate(given)


def test_long_sums_are_kept_in_a_wider_type() -> None:
    for columns in (16, 64, 1024):
        given = [torch.full((1 << 18 if columns < 1024 else 1 << 14, columns), 0.1)]
        (total,) = defined(summed, *given).execute(given, target="cpu")
        expected = given[0].double().sum(0) * 2
        torch.testing.assert_close(total.double(), expected, rtol=1e-6, atol=0)


@needs_notes
@pytest.mark.parametrize("columns", [40, 600, 1100])
@pytest.mark.parametrize("define", [summed, batch_norm, softmax_of_columns, stored_with_a_fold])
def test_loops_over_columns_are_vectors(define: Define, columns: int, tmp_path: Path) -> None:
    assert_vectorized(kernel(define, 1030, columns), tmp_path)


def test_lines_are_folded_in_blocks_where_little_is_computed() -> None:
    """The largest of each column by blocks, whose lanes are in registers; exponentials by line."""
    for columns in (100, 1100):
        code = kernel(softmax_of_columns, 1030, columns).code
        assert code.count("const int rows = ") == 1
        assert "in_lanes(" in code[code.index("prefetch_ahead<64>(T0_in") :]


def test_blocks_of_few_lines_are_small_enough_for_every_thread() -> None:
    code = kernel(summed, 1030, 100).code
    assert "block_size = part_of_round(n1, threads_here(), 64, 16);" in code


def test_other_sizes_have_the_same_text() -> None:
    """Columns that a cache does not hold are read once for both sums, whatever their length."""
    for columns, others in ((200, 400), (600, 900), (1100, 5000)):
        a, b = kernel(batch_norm, 3000, columns), kernel(batch_norm, 4000, others)
        assert a.code == b.code


def test_few_columns_have_a_kernel_for_their_number_and_any_lines() -> None:
    few = kernel(batch_norm, 1030, 12)
    assert few.code == kernel(batch_norm, 4000, 12).code
    assert "constexpr int rows = 12" in few.code


def test_few_lines_and_many_columns_are_strips() -> None:
    for lines, columns in ((100, 300), (1100, 20000)):
        given = inputs(batch_norm, lines, columns, torch.float32)
        (step,) = defined(batch_norm, *given).plan(given, target="cpu").kernels
        assert "lanes across rows" in step.mapping
