"""Kernels that read one tensor at several places ask for memory of each, with sizes of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuParameters
from tests.definitions import agrees
from tests.mapped_by import PAST_CACHE, map_by

Define = Callable[[FusionDefinition, Handle], Handle]


def moved(fd: FusionDefinition, x: Handle, by: int, least: int = 2) -> Handle:
    """The elements of rows from `by` on, `least` fewer than there are."""
    shape = x.value.shape
    starts = [*(0 for _ in shape[1:]), by]
    return fd.ops.slice(x, starts, [*shape[:-1], shape[-1] - least + by])


def second_difference(fd: FusionDefinition, x: Handle) -> Handle:
    y = fd.ops.exp(x)
    return moved(fd, y, 2) - 2.0 * moved(fd, y, 1) + moved(fd, y, 0)


def of_padded_rows(fd: FusionDefinition, x: Handle) -> Handle:
    padded = fd.ops.pad(x, [2, 2, 0, 0], 0.0)
    return moved(fd, padded, 3, 6) - moved(fd, padded, 4, 6)


def sums(fd: FusionDefinition, x: Handle) -> Handle:
    y = fd.ops.exp(x)
    return fd.ops.sum(moved(fd, y, 1) - moved(fd, y, 2), [1])


def softmax(fd: FusionDefinition, x: Handle) -> Handle:
    doubled = x * 2.0
    y = moved(fd, doubled, 1) - moved(fd, doubled, 0)
    powers = fd.ops.exp(y - fd.ops.max(y, [1], keepdim=True))
    return powers / fd.ops.sum(powers, [1], keepdim=True)


def beside_tiles(fd: FusionDefinition, x: Handle) -> Handle:
    rows, columns = x.value.shape
    doubled = x * 2.0
    turned = fd.ops.permute(fd.ops.reshape(doubled, [columns, rows]), [1, 0])
    return moved(fd, doubled, 1) * moved(fd, doubled, 2) + moved(fd, turned, 2)


@pytest.mark.parametrize(
    ("define", "shape"),
    [
        (second_difference, (1 << 16,)),
        (second_difference, (70, 300)),
        (of_padded_rows, (40, 4098)),
        (sums, (8, 1 << 16)),
        (softmax, (300, 770)),
        (softmax, (9, 1 << 16)),
        (beside_tiles, (70, 130)),
    ],
)
def test_neighbours_of_one_tensor(
    define: Define, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    map_by(monkeypatch, CpuParameters(PAST_CACHE))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with FusionDefinition() as fd:
        fd.add_output(define(fd, fd.from_pytorch(x, True)))
    (kernel,) = fd.plan([x], target="cpu").kernels
    assert "prefetch_" in kernel.source
    agrees(fd, [x], "cpu")
