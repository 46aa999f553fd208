"""Places that are told by truth values, or computed of what is loaded, and known to be in range."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import defined

Place = Callable[[FusionDefinition, Handle], Handle]

PLACES: dict[str, Place] = {
    "comparison": lambda fd, x: fd.ops.cast(x > 0.0, DataType.Int),
    "Int32": lambda fd, x: fd.ops.cast(x > 0.0, DataType.Int32),
    "float": lambda fd, x: fd.ops.cast(fd.ops.cast(x > 0.0, DataType.Float), DataType.Int),
    "choice": lambda fd, x: fd.ops.where(x > 0.0, 1, 0),
    "other choice": lambda fd, x: fd.ops.where(x > 0.0, 0, 1),
    "both": lambda fd, x: fd.ops.cast(x > 0.0, DataType.Int) * fd.ops.cast(x < 1.0, DataType.Int),
    "and": lambda fd, x: fd.ops.cast(fd.ops.logical_and(x > 0.0, x < 1.0), DataType.Int),
    "sum": lambda fd, x: fd.ops.cast(x > 0.0, DataType.Int) + fd.ops.cast(x < 1.0, DataType.Int),
    "rest": lambda fd, x: 1 - fd.ops.cast(x > 0.0, DataType.Int),
    "multiple": lambda fd, x: fd.ops.cast(x > 0.0, DataType.Int) * 3,
    "sign": lambda fd, x: fd.ops.cast(fd.ops.relu(fd.ops.sign(x)), DataType.Int),
}
TARGETS = "cpu", "emulator"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_table_is_read_by_truth_values(target: str, name: str, dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle, table: Handle) -> list[Handle]:
        place = PLACES[name](fd, x)
        read = fd.ops.index_select(table, place, 0)
        return [read, fd.ops.neg(fd.ops.index_select(table, fd.ops.neg(place) + 3, 0))]

    table = torch.arange(8).to(dtype)  # what lies beside a place is another number
    inputs = [torch.randn(300), table]
    defined(define, *inputs).validate(inputs, target=target)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_and_scans_of_what_is_read_so(target: str, dtype: torch.dtype):
    def define(fd: FusionDefinition, mask: Handle, table: Handle) -> list[Handle]:
        chosen = fd.ops.cast(fd.ops.gt(fd.ops.cast(mask, DataType.Int), 0), DataType.Int)
        read = fd.ops.index_select(fd.ops.permute(table, [1, 0]), chosen, 0)
        return [fd.ops.cumsum(read, 0), fd.ops.sum(read, [1])]

    inputs = [torch.randint(0, 2, (96,)).to(dtype), torch.randn(24, 4)]
    fd = defined(define, *inputs)
    fd.validate(inputs, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_scan_from_the_end_of_a_table_read_by_a_mask(target: str):
    def define(fd: FusionDefinition, mask: Handle, table: Handle, most: Handle) -> Handle:
        chosen = fd.ops.reshape(fd.ops.cast(mask, DataType.Int), [96])
        least = fd.ops.minimum(fd.ops.permute(table, [1, 0]), most)
        return fd.ops.cumsum(fd.ops.index_select(least, chosen, 0), 0, reverse=True)

    mask = torch.rand(24, 4, 1) > 0.5
    inputs = [mask, torch.randn(24, 4), torch.tensor([[9.0]])]
    defined(define, *inputs).validate(inputs, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_at_a_computed_place_are_kept_for_their_sweeps(target: str):
    def define(fd: FusionDefinition, x: Handle, index: Handle) -> Handle:
        read = fd.ops.index_select(x, fd.ops.remainder(index, 3), 0)
        return fd.ops.maximum(read, fd.ops.mean(read, [1], True))

    index = torch.tensor([0, 4, 2, -1, 7])
    for shape in ((3, 4, 4, 8), (3, 200), (3, 70, 33)):
        inputs = [torch.randn(shape), index]
        defined(define, *inputs).validate(inputs, target=target)
