"""Functions along axes that fill no vector: lanes go along the axis around them."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, agrees, defined, only_kernel

MANY = 1030
"""Rows for blocks of lanes, the last of which is moved back."""


def encoded(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Positions, and their sines and cosines at some frequencies."""
    angles = fd.ops.mul(fd.ops.broadcast_in_dim(x, [MANY, 3, 9], [0, 1]), y)
    flat = fd.ops.reshape(angles, [MANY, 27])
    return fd.ops.cat([x, fd.ops.sin(flat), fd.ops.cos(flat)], 1)


CASES: dict[str, Define] = {
    "rows": lambda fd, x, y: fd.ops.exp(fd.ops.sub(x, y)),
    "two functions": lambda fd, x, y: fd.ops.tanh(fd.ops.sigmoid(x) * y),
    "bytes": lambda fd, x, y: fd.ops.gt(fd.ops.exp(x), y),
    "turned": lambda fd, x, y: fd.ops.permute(fd.ops.exp(x * y), [1, 0]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("of_rows", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_results_are_the_oracles(name: str, of_rows: bool, dtype: torch.dtype) -> None:
    for length in (2, 7, 9, 15):
        x = torch.randn(MANY, length).to(dtype)
        y = torch.randn((MANY, 1) if of_rows else (1, length)).to(dtype)
        agrees(defined(CASES[name], x, y), [x, y], "cpu")


def test_several_short_axes_and_parts_of_rows() -> None:
    given = [torch.randn(MANY, 3), torch.randn(1, 1, 9)]
    agrees(defined(encoded, *given), given, "cpu")


@pytest.mark.parametrize("sizes", [(2000, 2, 2, 11), (2, 2000, 11), (2, 3, 1024, 5, 3)])
def test_axes_around_the_one_with_lanes(sizes: tuple[int, ...]) -> None:
    x, y = torch.randn(sizes), torch.randn(sizes[-1])

    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.exp(x * fd.ops.broadcast_in_dim(y, list(sizes), [len(sizes) - 1]))

    agrees(defined(define, x, y), [x, y], "cpu")


def test_what_is_overwritten_is_not_done_twice() -> None:
    x, y = torch.randn(MANY, 9), torch.randn(1, 9)
    with FusionDefinition() as fd:
        t0 = fd.define_tensor(shape=[-1, 9], contiguity=True, dtype=DataType.Float)
        t1 = fd.define_tensor(shape=[1, 9], contiguity=True, dtype=DataType.Float)
        fd.add_output(fd.ops.exp(t0 * t1), alias_input=t0)
    expected = torch.exp(x * y)
    fd.execute([x, y])
    torch.testing.assert_close(x, expected)


def test_an_index_out_of_range_is_told() -> None:
    with FusionDefinition() as fd:
        t0 = fd.define_tensor(shape=[-1, 9], contiguity=True, dtype=DataType.Float)
        t1 = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.exp(fd.ops.index_select(t0, t1, 0)))
    places = torch.randint(0, 20, (MANY,))
    agrees(fd, [torch.randn(20, 9), places], "cpu")
    places[700] = 20
    with pytest.raises(IndexError, match="index_select"):
        fd.execute([torch.randn(20, 9), places])


@pytest.mark.parametrize(
    ("rows", "length", "in_lanes"), [(MANY, 9, True), (MANY, 16, False), (700, 9, False)]
)
def test_where_lanes_go_along_rows(rows: int, length: int, in_lanes: bool) -> None:
    x, y = torch.randn(rows, length), torch.randn(1, length)
    text = only_kernel(defined(CASES["rows"], x, y), [x, y]).text
    assert ("lane * " in text) is in_lanes
