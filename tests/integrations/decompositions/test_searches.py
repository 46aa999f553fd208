"""Numbers looked for among sorted ones: the places that eager finds, in partitions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuser.integrations import dynamo

SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 2.0, -3.0, 0.5])


def assert_found(function: Any, *given: torch.Tensor, percent: float = 100.0) -> None:
    """Compares with eager, in type and strides too."""
    dynamo.clear_reports()
    wanted, found = function(*given), torch.compile(function, backend="fuser")(*given)
    assert torch.equal(found, wanted)
    assert (found.dtype, found.stride()) == (wanted.dtype, wanted.stride())
    assert {report.percent for report in dynamo.reports()} == {percent}


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 300])
def test_numbers_are_put_between_boundaries(count: int, right: bool) -> None:
    """On a boundary, on the first of several that are equal, below and above all of them."""
    ends = torch.randint(-5, 5, (count,)).sort().values / 2
    x = torch.cat([torch.randint(-12, 12, (40,)) / 4, SPECIAL]).view(6, 8)
    assert_found(lambda x, ends: torch.bucketize(x, ends, right=right) + 1, x, ends)
    assert_found(lambda x, ends: torch.bucketize(x.t(), ends, right=right), x, ends)
    infinite = torch.cat([ends, torch.tensor([torch.inf, torch.nan])])
    assert_found(lambda x, ends: torch.bucketize(x, ends, right=right), x, infinite)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float64], ids=str)
def test_places_of_other_types(dtype: torch.dtype) -> None:
    ends, x = torch.tensor([1, 3, 3, 7, 90]).to(dtype), torch.arange(100).to(dtype)
    assert_found(lambda x, ends: torch.bucketize(x, ends, out_int32=True), x, ends)
    assert_found(lambda x, ends: torch.searchsorted(ends, x, side="right"), x, ends)
    assert_found(torch.bucketize, x[4], ends)
    assert_found(torch.bucketize, x[:0], ends)


def test_rows_have_sequences_of_their_own() -> None:
    ends, x = torch.randn(2, 3, 6).sort(-1).values, torch.randn(2, 3, 4)
    assert_found(lambda x, ends: torch.searchsorted(ends, x * 2), x, ends)
    assert_found(
        lambda x, ends: torch.searchsorted(ends, x.transpose(0, 1).transpose(0, 1)), x, ends
    )


def test_what_is_in_another_order_or_rounded_before_is_torchs() -> None:
    x, order = torch.randn(5), torch.tensor([1, 0, 2])
    ends = torch.linspace(-1, 1, 3)
    assert_found(lambda x, ends: torch.searchsorted(ends, x, sorter=order), x, ends, percent=0.0)
    assert_found(torch.bucketize, x, ends[:0], percent=0.0)
    assert_found(torch.bucketize, x.bfloat16(), ends.bfloat16(), percent=0.0)


def test_places_of_any_number_of_elements() -> None:
    ends = torch.linspace(-1, 1, 11)
    compiled = torch.compile(torch.bucketize, backend="fuser", dynamic=True)
    torch._dynamo.mark_static(ends)
    for count in (5, 9, 30):
        x = torch.randn(count)
        assert torch.equal(compiled(x, ends), torch.bucketize(x, ends))
    (report,) = dynamo.reports()
    assert report.percent == 100.0
