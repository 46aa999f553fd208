"""Which variances are summed with their means, and what is done for that."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.rows.cpu.variances import sum_variances_at_once
from tests.definitions import Define
from tests.schedule.row_bodies import body_of, drawn


def normalized(fd: FusionDefinition, x: Handle) -> Handle:
    wide = fd.ops.cast(x, DataType.Float)
    variance, mean = fd.ops.var_mean(wide, [1], correction=0, keepdim=True)
    return fd.ops.cast((wide - mean) * fd.ops.rsqrt(variance + 1e-5), DataType.BFloat16)


def of_a_sum(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return normalized(fd, fd.ops.cast(x, DataType.Float) + fd.ops.cast(y, DataType.Float))


def of_total(fd: FusionDefinition, x: Handle, divisor: float) -> list[Handle]:
    wide = fd.ops.cast(x, DataType.Float)
    total = fd.ops.sum(wide, [1], keepdim=True)
    off = wide - total / divisor
    results = fd.ops.sum(off * off, [1]), total
    return [fd.ops.cast(result, DataType.BFloat16) for result in results]


def with_total(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return of_total(fd, x, 60.0)


def by_another_size(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return of_total(fd, x, 61.0)


def with_statistics(fd: FusionDefinition, x: Handle) -> list[Handle]:
    variance = fd.ops.var(fd.ops.cast(x, DataType.Float), [1])
    return [normalized(fd, x), variance]


def about_half_the_mean(fd: FusionDefinition, x: Handle) -> Handle:
    """Squares of distances from something else than the mean."""
    wide = fd.ops.cast(x, DataType.Float)
    off = wide - fd.ops.mean(wide, [1], keepdim=True) * 0.5
    return fd.ops.cast(fd.ops.sum(off * off, [1]), DataType.BFloat16)


def of_absolute(fd: FusionDefinition, x: Handle) -> Handle:
    """Squares of distances of something else from the mean."""
    wide = fd.ops.cast(x, DataType.Float)
    off = fd.ops.abs(wide) - fd.ops.mean(wide, [1], keepdim=True)
    return fd.ops.cast(fd.ops.sum(off * off, [1]), DataType.BFloat16)


def at_once(define: Define, *inputs: torch.Tensor) -> list[str]:
    return drawn(sum_variances_at_once(body_of(define, *inputs)))


def narrow(columns: int = 60, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(8, columns, dtype=dtype)


def test_one_sweep_sums_both_about_the_first_element():
    before = drawn(body_of(normalized, narrow()))
    assert [line.split(":")[0] for line in before] == [
        "rows 8",
        *("sweep 60", "once", "sweep 60", "once", "sweep 60"),
    ]
    _, first, sums, results, *rest = at_once(normalized, narrow())
    assert first == "once: load T0, cast, where"
    assert sums == "sweep 60: load T0, cast, sub; T10_off = fold add; T15_off = fold add"
    assert results == "once: truediv, add, abs"
    assert [line.split(":")[0] for line in rest] == ["once", "sweep 60"]


def test_so_it_is_for_what_is_computed_from_narrow_elements():
    assert sum(line.startswith("sweep") for line in at_once(of_a_sum, narrow(), narrow())) == 2


def test_a_total_that_is_read_is_made_of_the_mean():
    assert "once: truediv, add, abs, mul" in at_once(with_total, narrow())


@pytest.mark.parametrize(
    ("define", "inputs"),
    [
        (normalized, [torch.empty(8, 60)]),
        (of_a_sum, [narrow(), torch.empty(8, 60)]),
        (with_statistics, [narrow()]),
        (about_half_the_mean, [narrow()]),
        (by_another_size, [narrow()]),
        (of_absolute, [narrow()]),
        (normalized, [narrow(1 << 15)]),
        (normalized, [narrow(1 << 12, torch.float16)]),
    ],
    ids=[
        *(
            "float32",
            "beside float32",
            "to float32",
            "not the mean",
            "nor this",
            "of another",
            "long",
            "half",
        ),
    ],
)
def test_others_are_summed_one_after_the_other(define: Define, inputs: list[torch.Tensor]):
    assert at_once(define, *inputs) == drawn(body_of(define, *inputs))


@pytest.mark.parametrize(("columns", "dtype"), [(1 << 14, torch.bfloat16), (1 << 11, torch.half)])
def test_rows_may_be_so_long(columns: int, dtype: torch.dtype):
    lines = at_once(normalized, narrow(columns, dtype))
    assert sum(line.startswith("sweep") for line in lines) == 2
