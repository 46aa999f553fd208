"""Short rows that lie between others: one lane of a processor does all of those of a matrix.

    for i0 < 3: for i1 < 1000: sum T0[9 i1 + 3 i0], ...
->  for i1 < 1000: sum T0[9 i1], ...; sum T0[9 i1 + 3], ...; sum T0[9 i1 + 6], ...
"""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import Define, agrees, defined, one_kernel, only_kernel
from tests.mapped_by import THREADED, mapped_by

COUNT = 1000


def _spread(fd: FusionDefinition, m: Handle, p: Handle) -> Handle:
    """[n, columns] for each row of [n, rows, columns]."""
    return fd.ops.broadcast_in_dim(p, m.shape(), [0, 2])


def _products(fd: FusionDefinition, m: Handle, p: Handle) -> Handle:
    return fd.ops.sum(m * _spread(fd, m, p), [2])


def _softmax(fd: FusionDefinition, m: Handle, p: Handle) -> list[Handle]:
    moved = m + _spread(fd, m, p)
    e = fd.ops.exp(moved - fd.ops.max(moved, [2], keepdim=True))
    total = fd.ops.sum(e, [2], keepdim=True)
    return [e / total, fd.ops.argmax(moved, 2), fd.ops.gt(total, 2.0)]


def _gradients(fd: FusionDefinition, m: Handle, p: Handle) -> list[Handle]:
    """Of the transposed product: sums over what comes before the last dimension."""
    spread = _spread(fd, m, p)
    return [fd.ops.sum(m * spread, [1]), m * spread]


def _scanned(fd: FusionDefinition, m: Handle, p: Handle) -> Handle:
    return fd.ops.cumsum(m * _spread(fd, m, p), 2)


def _positions(fd: FusionDefinition, m: Handle, p: Handle) -> Handle:
    """With numbers that follow from where an element is."""
    spread = _spread(fd, m, p)
    rows = fd.ops.iota(m.size(1), 0, 1, DataType.Int32)
    return fd.ops.sum(m * spread + fd.ops.broadcast_in_dim(rows, m.shape(), [1]), [2])


DEFINITIONS: dict[str, Define] = {
    "products": _products,
    "softmax": _softmax,
    "gradients": _gradients,
    "scanned": _scanned,
    "positions": _positions,
}


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (3, 5), (5, 3), (4, 4), (7, 2), (2, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_matrices(name: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    m, p = torch.randn(COUNT, *shape).to(dtype), torch.randn(COUNT, shape[1]).to(dtype)
    fd = defined(DEFINITIONS[name], m, p)
    agrees(fd, [m, p], "cpu")
    with mapped_by(CpuRowParameters(THREADED, whole_rows=2)):
        agrees(defined(DEFINITIONS[name], m, p), [m, p], "cpu")


@pytest.mark.parametrize(("rows", "columns", "loops"), [(3, 3, 1), (3, 5, 1), (4, 4, 1), (6, 3, 8)])
def test_as_many_as_one_row_may_have_are_done_by_one_lane(
    rows: int, columns: int, loops: int
) -> None:
    m, p = torch.randn(COUNT, rows, columns), torch.randn(COUNT, columns)
    fd = one_kernel("cpu", _products, m, p)
    assert only_kernel(fd, [m, p]).code.count("for (") == loops
