"""Folds over rows whose places are added to in some order: what is kept in float32 is widened
before it has many values, and no place is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import defined

Define = Callable[[FusionDefinition, Handle], list[Handle]]


def normalized(fd: FusionDefinition, x: Handle) -> Handle:
    """Rows along the last dimension."""
    return x / (1.0 + fd.ops.sum(fd.ops.abs(x), [-1], keepdim=True))


def sums_of(*kept: list[int]) -> Define:
    return lambda fd, x: [fd.ops.sum(normalized(fd, x), dims) for dims in kept]


CASES: dict[str, tuple[tuple[int, ...], Define]] = {
    "the first stays": ((40, 300, 48), sums_of([1])),
    "the second stays": ((700, 3, 48), sums_of([0])),
    "those between stay": ((6, 50, 20, 48), sums_of([0, 2])),
    "the third stays": ((6, 50, 20, 48), sums_of([0, 1])),
    "nothing but the row stays": ((9000, 48), sums_of([0])),
    "all but the row stay": ((30, 40, 100), sums_of([0, 1], [1], [0])),
    "the row does not stay": ((50, 60, 100), sums_of([0, 2], [1, 2])),
    "more than one thread's": ((3, 4001, 64), sums_of([1], [0, 1])),
    "longer runs than blocks": ((5, 3, 1000, 16), sums_of([2], [0, 2])),
    "one number": ((300, 40, 17), sums_of([0, 1, 2])),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_float64_s(name: str, dtype: torch.dtype) -> None:
    shape, define = CASES[name]
    x = (1 + torch.rand(shape, generator=torch.Generator().manual_seed(3))).to(dtype)
    with FusionDefinition() as fd:
        given = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        for out in define(fd, given):
            fd.add_output(out)
    with FusionDefinition() as wide:
        for out in define(wide, wide.from_pytorch(x.double())):
            wide.add_output(out)
    for _ in range(2):  # another run begins anew
        for made, exact in zip(fd.execute([x]), wide.execute([x.double()]), strict=True):
            torch.testing.assert_close(made.double(), exact, rtol=2e-6, atol=0)


def pairs(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Forces of points on each other, and what they come to for either."""
    length, size = x.shape()
    shape = [length, length, size]
    first = fd.ops.expand(fd.ops.broadcast(x, [False, True, False]), shape)
    second = fd.ops.expand(fd.ops.broadcast(x, [True, False, False]), shape)
    apart = second - first
    near = fd.ops.rsqrt(fd.ops.sum(apart * apart, [2], keepdim=True) + 0.01)
    force = apart * near * near * near
    return [fd.ops.sum(force, [1]), fd.ops.sum(force, [0]), fd.ops.sum(force * force, [0, 1, 2])]


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("length", [15, 16, 33, 200])
def test_lanes_do_pairs_and_add_to_places_of_their_own(length: int, size: int) -> None:
    x = torch.randn(length, size, generator=torch.Generator().manual_seed(length))
    results: list[list[torch.Tensor]] = []
    for given in (x, x.double()):
        fd = defined(pairs, given)
        results.append(fd.execute([given]))
    for made, exact in zip(*results, strict=True):
        scale = exact.abs().max().item()
        torch.testing.assert_close(made.double(), exact, rtol=1e-5, atol=1e-5 * scale)
    apart = x.double()[None] - x.double()[:, None]
    force = apart * (apart.square().sum(-1, keepdim=True) + 0.01).rsqrt() ** 3
    torch.testing.assert_close(results[1][0], force.sum(1))
    torch.testing.assert_close(results[1][1], force.sum(0))
