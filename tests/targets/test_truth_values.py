"""Truth values in memory may be any byte: all but 0 are true, as for torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import agrees, defined

Define = Callable[[FusionDefinition, Handle], list[Handle]]
FLOAT, INT = DataType.Float, DataType.Int
TYPES = (FLOAT, DataType.Double, DataType.Half, DataType.BFloat16, INT, DataType.Int32)


def as_float(fd: FusionDefinition, mask: Handle) -> Handle:
    return fd.ops.cast(mask, FLOAT)


def scanned(fd: FusionDefinition, mask: Handle) -> list[Handle]:
    running = fd.ops.cumsum(as_float(fd, mask), 1)
    return [running, running + mask, fd.ops.cast(mask, INT), fd.ops.any(mask, dims=[1])]


def folded(fd: FusionDefinition, mask: Handle) -> list[Handle]:
    return [fd.ops.sum(as_float(fd, mask), dims=[1]), fd.ops.all(mask, dims=[1]), ~mask]


def folded_over_rows(fd: FusionDefinition, mask: Handle) -> list[Handle]:
    return [fd.ops.sum(as_float(fd, mask), dims=[0]), fd.ops.any(mask, dims=[0])]


def turned(fd: FusionDefinition, mask: Handle) -> list[Handle]:
    moved = fd.ops.permute(as_float(fd, mask) + 1.0, [1, 0])
    return [fd.ops.stride_order(moved, [1, 0])]


def joined(fd: FusionDefinition, mask: Handle) -> list[Handle]:
    return [as_float(fd, fd.ops.cat([mask, fd.ops.pad(mask, [1, 2])], 1))]


CASES: dict[str, Define] = {
    "casts": lambda fd, mask: [fd.ops.cast(mask, dtype) for dtype in TYPES],
    "arithmetic": lambda fd, mask: [mask * 3.0, fd.ops.where(mask, 2.0, mask)],
    "scanned": scanned,
    "folded": folded,
    "folded over rows": folded_over_rows,
    "turned": turned,
    "joined": joined,
    "flipped": lambda fd, mask: [as_float(fd, fd.ops.flip(mask, [1]))],
}


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("shape", [(1, 40), (70, 130)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_any_byte_but_0_is_true(name: str, shape: tuple[int, int], target: str) -> None:
    chosen = torch.randint(0, 2, shape, dtype=torch.uint8)
    mask = (torch.randint(1, 256, shape, dtype=torch.uint8) * chosen).view(torch.bool)
    with FusionDefinition() as fd:
        for output in CASES[name](fd, fd.from_pytorch(mask)):
            fd.add_output(output)
    fd.validate([mask], target=target)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_a_truth_value_beside_a_number(dtype: DataType, target: str):
    number = torch.tensor([2, 0, -1, 0, 4]).to(dtype.torch)
    truth = torch.tensor([True, True, False, False, True])

    def build(fd: FusionDefinition, x: Handle, mask: Handle) -> list[Handle]:
        pairs = ((x, mask), (mask, x))
        operations = (fd.ops.logical_and, fd.ops.logical_or)
        return [join(a, b) for join in operations for a, b in pairs]

    agrees(defined(build, number, truth), [number, truth], target)
