"""Rows shorter than a vector has elements of the narrowest type, truth values above all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.barred import page_between_barred
from tests.definitions import Define, defined, only_kernel
from tests.vector_notes import assert_vectorized, needs_notes

OUTER, ROWS = 5, 12
LENGTHS = (16, 17, 28, 31, 49, 63, 64, 100, 255, 256)


def every_second(fd: FusionDefinition, m: Handle, start: int) -> Handle:
    length = m.shape()[-1]
    return fd.ops.slice(m, [0, 0, start], [OUTER, ROWS, length], [1, 1, 2])


def halves_chosen(fd: FusionDefinition, x: Handle, m: Handle, start: int) -> Handle:
    """Of pairs of truth values one chooses, from half as many numbers as there are."""
    half = fd.ops.slice(x, [0, 0, 0], [OUTER, ROWS, x.shape()[-1] - start], [1, 1, 2])
    return fd.ops.where(every_second(fd, m, start), every_second(fd, x, start), half * 2.0)


def normalized(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    chosen = fd.ops.where(m, x, 0.0)
    return chosen - fd.ops.mean(chosen, [0, 2], keepdim=True)


def divided(fd: FusionDefinition, x: Handle) -> Handle:
    return x / (1.0 + fd.ops.sum(fd.ops.abs(x), [2], keepdim=True))


CASES: dict[str, Define] = {
    "chosen": lambda fd, x, y, m: fd.ops.where(m, x, y),
    "chosen bfloat16": lambda fd, x, y, m: fd.ops.cast(fd.ops.where(m, x, y), DataType.BFloat16),
    "twice the same": lambda fd, x, y, m: fd.ops.where(m, x, y) * m,
    "compared": lambda fd, x, y, m: fd.ops.gt(x, y),
    "both": lambda fd, x, y, m: fd.ops.logical_and(m, fd.ops.gt(x, y)),
    "the even": lambda fd, x, y, m: halves_chosen(fd, x, m, 0),
    "the odd": lambda fd, x, y, m: halves_chosen(fd, x, m, 1),
    "sums": lambda fd, x, y, m: fd.ops.sum(fd.ops.where(m, x, y), [0, 2]),
    "sums of rows": lambda fd, x, y, m: fd.ops.sum(fd.ops.where(m, x, y), [2]),
    "sums of masks": lambda fd, x, y, m: fd.ops.sum(m, [0, 2]),
    "sums over rows": lambda fd, x, y, m: fd.ops.sum(fd.ops.where(m, x, y), [0, 1]),
    "largest": lambda fd, x, y, m: fd.ops.max(fd.ops.where(m, x, y), [0, 2]),
    "read twice": lambda fd, x, y, m: divided(fd, fd.ops.where(m, x, y)),
    "normalized": lambda fd, x, y, m: normalized(fd, x, m),
}
"""What is done with numbers, others and truth values, all of [OUTER, ROWS, length]."""


def inputs(length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """With gaps between the rows, so that no two are one."""
    torch.manual_seed(length)  # pyright: ignore[reportUnknownMemberType]
    x, y = (torch.randn(OUTER, ROWS, length + gap).to(dtype)[..., :length] for gap in (3, 8))
    return [x, y, (torch.rand(OUTER, ROWS, length + 5) > 0.5)[..., :length]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_oracle_gives(name: str, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        given = inputs(length, dtype)
        fd = defined(CASES[name], *given)
        exact = [t.double() if t.is_floating_point() else t for t in given]
        (expected,) = interpret(fd.fusion, given)
        (wide,) = interpret(defined(CASES[name], *exact).fusion, exact)
        (made,) = fd.execute(given)
        assert made.dtype is expected.dtype
        bound = 2e-2 if made.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(made.to(wide.dtype), wide, rtol=bound, atol=bound)


@needs_notes
@pytest.mark.parametrize("length", [17, 49, 196])
@pytest.mark.parametrize("name", ["chosen", "chosen bfloat16", "the even", "the odd", "sums"])
def test_loops_are_vectorized(name: str, length: int, tmp_path: Path) -> None:
    given = inputs(2 * length, torch.float32)
    assert_vectorized(only_kernel(defined(CASES[name], *given), given), tmp_path)


NARROW = [
    *(DataType.Half, DataType.BFloat16, DataType.Float8_e4m3fn, DataType.Float8_e5m2),
    *(DataType.Float8_e8m0fnu, DataType.Int8, DataType.UInt8, DataType.Int16),
]


def narrow_sums(dtype: DataType, length: int) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """Numbers of a narrow type less the sum of their row, of rows with gaps between them."""
    given = torch.randint(0, 3, (40, length + 3), generator=torch.Generator().manual_seed(length))
    x = given.to(dtype.torch)[:, :length]
    with FusionDefinition() as fd:
        wide = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        fd.add_output(wide - fd.ops.sum(wide, [1], keepdim=True))
    return fd, [x]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)
def test_narrow_numbers_are_what_the_oracle_gives(dtype: DataType) -> None:
    for length in LENGTHS:
        fd, given = narrow_sums(dtype, length)
        (made,) = fd.execute(given)
        assert torch.equal(made, interpret(fd.fusion, given)[0])


@needs_notes
@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)
def test_narrow_numbers_are_read_as_wide_ones(dtype: DataType, tmp_path: Path) -> None:
    fd, given = narrow_sums(dtype, 49)
    (kernel,) = fd.plan(given).kernels
    source = kernel.kernel_source
    assert source is not None
    of_16 = dtype in (DataType.BFloat16, DataType.Half)
    kind = dtype.spelling if of_16 else f"narrow_{'floats' if dtype.is_floating else 'integers'}"
    assert f"read_{kind}(T0" in source.code
    assert_vectorized(source, tmp_path)


def test_narrow_numbers_that_are_copied_stay_as_they_are() -> None:
    x = torch.randn(40, 52).bfloat16()[:, :49]
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, DataType.Float)
        fd.add_output(fd.ops.cast(wide / fd.ops.sum(wide, [1], keepdim=True), DataType.BFloat16))
        fd.add_output(fd.ops.set(given))
    fd.validate([x])


def test_lengths_of_wide_types_have_one_text() -> None:
    def text(length: int) -> str:
        x, y, _ = inputs(length, torch.float32)
        with FusionDefinition() as fd:
            fd.add_output(fd.from_pytorch(x) + fd.from_pytorch(y))
        return only_kernel(fd, [x, y]).code

    assert len(set(map(text, LENGTHS))) == 1


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("length", [16, 17, 28, 40, 49])
def test_nothing_is_read_beyond_truth_values(length: int, step: int) -> None:
    """They end, and begin, where memory that may be read does."""
    rows, held = 3, page_between_barred().view(torch.bool)
    held.random_(0, 2)
    apart = length * step  # the last truth value of a row may have no neighbour
    bytes_used = (rows - 1) * (apart + 1) + (length - 1) * step + 1
    for first in (0, len(held) - bytes_used):
        m = held[first:].as_strided((rows, length), (apart + 1, step))
        x = torch.randn(rows, length + 1)[:, :length]
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.where(fd.from_pytorch(m), fd.from_pytorch(x), 0.0))
        (made,) = fd.execute([m, x])
        assert torch.equal(made, torch.where(m, x, 0.0))
