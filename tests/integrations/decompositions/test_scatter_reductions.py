"""Scatters that join what goes to each place, and their gradients."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.fused import assert_fused

REDUCE = ["sum", "mean", "amax", "amin", "prod"]
X, SRC = torch.linspace(-1, 1, 32).view(8, 4), torch.linspace(-3, 2, 36).view(9, 4)


@pytest.mark.parametrize("reduce", REDUCE)
@pytest.mark.parametrize("with_self", [True, False])
def test_scatters_that_reduce(reduce: str, with_self: bool) -> None:
    index = (torch.arange(36).view(9, 4) * 5) % 6

    def reduced(x: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, index, src * 2, reduce, include_self=with_self) + 1

    assert_fused(reduced, X, SRC)
    assert_fused(reduced, (X * 9).long(), (SRC * 9).long())
    if reduce in ("amax", "amin"):  # torch rounds each sum and product to the type
        assert_fused(reduced, X.bfloat16(), SRC.bfloat16())


@pytest.mark.parametrize("reduce", REDUCE[1:])
@pytest.mark.parametrize("with_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_slices_that_are_joined(reduce: str, with_self: bool, dim: int) -> None:
    index = (torch.arange(9) * 5) % 3

    def reduced(x: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        return x.index_reduce(dim, index, src * 2, reduce, include_self=with_self) + 1

    x, src = (given.transpose(0, dim).contiguous() for given in (X, SRC))
    assert_fused(reduced, x, src)
    assert_fused(reduced, (x * 9).long(), (src * 9).long())
