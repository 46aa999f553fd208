"""Indices that kernels for processors check: in vectors, once, and reported wherever they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen.kernel_source import KernelSource
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.barred import page_between_barred
from tests.definitions import Define, defined, only_kernel
from tests.row_functions import softmax
from tests.vector_notes import assert_vectorized, needs_notes

ROWS, COLUMNS, TABLE = 24, 1000, 40


def chosen(fd: FusionDefinition, table: Handle, index: Handle) -> Handle:
    """One column of a table, at an index for each element of a row."""
    column = fd.ops.slice(table, [0, 1], [TABLE, 2])
    return fd.ops.reshape(fd.ops.index_select(column, index, 0), [1, COLUMNS])


def biased_softmax(fd: FusionDefinition, x: Handle, table: Handle, index: Handle) -> Handle:
    return softmax(fd, x + chosen(fd, table, index))


def biased(fd: FusionDefinition, x: Handle, table: Handle, index: Handle) -> Handle:
    bias = fd.ops.index_select(table, index, 0)
    return x * fd.ops.broadcast(
        fd.ops.squeeze(fd.ops.slice(bias, [0, 1], [COLUMNS, 2]), [1]), [1, 0]
    )


def summed_over_rows(fd: FusionDefinition, x: Handle, table: Handle, index: Handle) -> Handle:
    return fd.ops.sum(biased(fd, x, table, index), [0])


def bags(fd: FusionDefinition, x: Handle, table: Handle, index: Handle) -> Handle:
    """Sums of 50 lines of a table each: the index is the same for all elements of a line."""
    lines = fd.ops.index_select(table, index, 0)
    return fd.ops.sum(fd.ops.reshape(lines, [COLUMNS // 50, 50, -1]), [1])


def columns_of_lines(fd: FusionDefinition, x: Handle, table: Handle, index: Handle) -> Handle:
    """What is folded for each column of a table, read for each line of the result."""
    return (
        fd.ops.index_select(
            fd.ops.expand(fd.ops.max(table, [0], keepdim=True) * 2.0, [TABLE, -1]), index, 0
        )
        * 1.5
    )


def inputs(bad: dict[int, int] | None = None) -> list[torch.Tensor]:
    torch.manual_seed(0)
    index = torch.randint(0, TABLE, (COLUMNS,))
    for place, wrong in (bad or {}).items():
        index[place] = wrong
    return [torch.randn(ROWS, COLUMNS), torch.randn(TABLE, 96), index]


def kernel(define: Define) -> KernelSource:
    return only_kernel(defined(define, *inputs()), inputs())


CASES = [biased_softmax, biased, summed_over_rows, bags, columns_of_lines]


@pytest.mark.parametrize("define", CASES)
def test_gathers_agree_with_the_oracle(define: Define) -> None:
    fd = defined(define, *inputs())
    expected = interpret(fd.fusion, inputs())
    torch.testing.assert_close(fd.execute(inputs(), target="cpu"), expected)


@needs_notes  # of bags, lanes are copied besides: by memcpy, of which there is no note
@pytest.mark.parametrize("define", [biased_softmax, biased, summed_over_rows])
def test_loops_that_gather_are_vectors(define: Define, tmp_path: Path) -> None:
    assert_vectorized(kernel(define), tmp_path)


@pytest.mark.parametrize("define", CASES)
@pytest.mark.parametrize("place", [0, 7, 500, COLUMNS - 1])
@pytest.mark.parametrize("wrong", [-1, TABLE, 2**63 - 1, -(2**63)])
def test_a_wrong_index_is_reported_from_any_lane(define: Define, place: int, wrong: int) -> None:
    with pytest.raises(IndexOutOfRangeError, match=rf"index {wrong} .* 0 to {TABLE - 1}"):
        defined(define, *inputs()).execute(inputs({place: wrong}), target="cpu")


def test_one_of_several_wrong_indices_is_reported() -> None:
    with pytest.raises(IndexOutOfRangeError, match=r"index (-3|70) "):
        defined(biased, *inputs()).execute(inputs({3: -3, 4: 70}), target="cpu")


def test_later_sweeps_report_nothing_again() -> None:
    text = kernel(biased_softmax).code.partition('extern "C" void')[2]
    assert text.count("report_largest(") == 1
    assert text.count("index_from_start(") == 1


def test_an_index_of_whole_lines_is_checked_once_a_line() -> None:
    text = kernel(bags).code.partition('extern "C" void')[2]
    check = text.index("checked_index(")
    assert "#pragma omp simd" in text[check:]
    assert text.index("T2_in[") < check < text.index("T1_in[")


@needs_notes
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_of_columns_is_vectors(dtype: torch.dtype, tmp_path: Path) -> None:
    """What is known of a column before a sweep over it is compared again after it."""
    torch.manual_seed(0)
    x, target = torch.randn(2, 21, 70, 64).to(dtype), torch.randint(0, 21, (2, 70, 64))
    target[0, :9] = -100
    with FusionDefinition() as fd:
        ops = fd.ops
        x_in, index = fd.from_pytorch(x), fd.from_pytorch(target)
        wide = ops.cast(x_in, DataType.Float)
        shifted = wide - ops.max(wide, [1], keepdim=True)
        logs = shifted - ops.log(ops.sum(ops.exp(shifted), [1], keepdim=True))
        kept = ops.ne(index, -100)
        at = ops.broadcast(ops.where(kept, index, 0), [False, True, False, False])
        picked = ops.squeeze(ops.gather(logs, at, 1), [1])
        fd.add_output(ops.sum(ops.where(kept, ops.neg(picked), 0.0)) / ops.sum(kept))
    fd.validate([x, target])
    assert_vectorized(only_kernel(fd, [x, target]), tmp_path)


def narrow_points(fd: FusionDefinition, table: Handle, index: Handle) -> Handle:
    return fd.ops.exp(fd.ops.cast(fd.ops.index_select(table, index, 0), DataType.Float))


def narrow_rows(fd: FusionDefinition, table: Handle, index: Handle) -> Handle:
    """What is gathered, folded along rows."""
    rows = fd.ops.reshape(narrow_points(fd, table, index), [-1, 90])
    return rows / fd.ops.sum(rows, [1], keepdim=True)


def narrow_columns(fd: FusionDefinition, table: Handle, index: Handle) -> Handle:
    """What is gathered once a row of a strip, beside what is folded for it."""
    rows = fd.ops.reshape(index, [20, 90])
    logs = fd.ops.log(fd.ops.cast(fd.ops.sum(rows, [0]), DataType.Float))
    first = fd.ops.reshape(fd.ops.slice(rows, [0, 0], [1, 90]), [90])
    return logs * narrow_points(fd, table, first)


NARROW = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
NARROW_CASES = pytest.mark.parametrize("define", [narrow_points, narrow_rows, narrow_columns])


def validated(define: Callable[..., Handle], table: torch.Tensor) -> KernelSource:
    """The kernel of a fusion that agrees with the oracle, the table's ends among what it reads."""
    ends = torch.tensor([0, 1, 2, 3, 1996, 1997, 1998, 1999]).repeat(90)
    index = torch.cat([ends, torch.randint(0, 2000, (1080,))])
    with FusionDefinition() as fd:
        wide = define(fd, *map(fd.from_pytorch, (table, index)))
        fd.add_output(fd.ops.cast(wide, DataType.Float))
    fd.validate([table, index])
    return only_kernel(fd, [table, index])


@NARROW
@NARROW_CASES
@pytest.mark.parametrize("skipped", range(4))
def test_narrow_numbers_are_gathered_wherever_they_begin_and_end(
    define: Callable[..., Handle], dtype: torch.dtype, skipped: int
) -> None:
    """By the words they lie in; no byte is read where none may be."""
    numbers = page_between_barred().view(dtype)
    numbers.copy_(torch.randn(len(numbers)))
    validated(define, numbers[skipped:][:2000])
    kernel = validated(define, numbers[len(numbers) - skipped - 2000 :][:2000])
    assert "gathered(" in kernel.code.partition('extern "C" void ')[2]


@needs_notes
@NARROW
@NARROW_CASES
def test_loops_that_gather_narrow_numbers_are_vectors(
    define: Callable[..., Handle], dtype: torch.dtype, tmp_path: Path
) -> None:
    assert_vectorized(validated(define, torch.randn(2000).to(dtype)), tmp_path)


@needs_notes
def test_places_that_are_chosen_are_read_in_vectors(tmp_path: Path) -> None:
    """Of a place that is 0 where it was below, g++ would make a branch: a read at a known one."""
    image = torch.randn(6, 40, 90)
    with FusionDefinition() as fd:
        ops = fd.ops
        x = fd.from_pytorch(image)
        middles = (ops.cast(ops.iota(50), DataType.Float) + 0.5) * 1.75 - 0.5
        at = ops.cast(ops.maximum(middles, 0.0), DataType.Int)
        one, next_one = ops.index_select(x, at, 2), ops.index_select(x, at + 1, 2)
        fd.add_output(one + (next_one - one) * (middles - at))
    fd.validate([image])
    assert_vectorized(only_kernel(fd, [image]), tmp_path)


def image_inputs(wrong: int | None = None) -> list[torch.Tensor]:
    """An image with channels last, which lines of it are read, and how much each counts."""
    torch.manual_seed(0)
    x = torch.randn(2, 64, 9, 23).to(memory_format=torch.channels_last)
    lines = torch.randint(0, 9, (12,))
    if wrong is not None:
        lines[5] = wrong
    return [x, lines, torch.randn(12, 1)]


def sums_of_lines(fd: FusionDefinition, x: Handle, lines: Handle, weights: Handle) -> Handle:
    return fd.ops.sum(fd.ops.index_select(x * 2.0, lines, 2) * weights, [3])


def test_what_all_lanes_of_a_strip_read_is_found_once() -> None:
    inputs = image_inputs()
    fd = defined(sums_of_lines, *inputs)
    torch.testing.assert_close(fd.execute(inputs, target="cpu"), interpret(fd.fusion, inputs))
    text = only_kernel(fd, inputs).code.partition('extern "C" void')[2]
    strip = text.partition("constexpr int rows")[2]
    assert strip.index("checked_index(") < strip.index("#pragma omp simd")
    assert "_index[lane]" not in strip


def test_a_wrong_index_of_a_strip_is_reported() -> None:
    inputs = image_inputs(wrong=9)
    with pytest.raises(IndexOutOfRangeError, match=r"index 9 .* 0 to 8"):
        defined(sums_of_lines, *inputs).execute(inputs, target="cpu")
