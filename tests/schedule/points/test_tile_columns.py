"""What is computed before it is turned: the cheapest cut, and that results are the oracle's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule import CpuParameters, CudaParameters
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import trace
from fuser.schedule.points.tile_columns import with_columns
from fuser.schedule.points.tiling import Turned, cuda_shape, find_turned, shared_bytes
from fuser.schedule.tree.expressions import Ref
from tests.definitions import Define, agrees, defined, only_kernel
from tests.mapped_by import PAST_CACHE, map_by
from tests.segmented import segment_for


def turn(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.permute(x, [1, 0])


def in_rows(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(x, [1, 0])


def added(fd: FusionDefinition, straight: Handle, *others: Handle) -> Handle:
    """The transposed sum of others, and what lies as the result does."""
    total = others[0]
    for other in others[1:]:
        total = total + other
    return in_rows(fd, turn(fd, total) + straight)


def masked(fd: FusionDefinition, straight: Handle, x: Handle, kept: Handle) -> Handle:
    chosen = fd.ops.where(turn(fd, kept), turn(fd, x) * 2.0, 0.0)
    return in_rows(fd, chosen + straight)


def one_read_twice(fd: FusionDefinition, straight: Handle, x: Handle, y: Handle) -> Handle:
    """The second is turned by itself, too."""
    second = turn(fd, y)
    return in_rows(fd, fd.ops.maximum((turn(fd, x) + second) * straight, second))


def both_ways(fd: FusionDefinition, straight: Handle, x: Handle, y: Handle) -> Sequence[Handle]:
    """The sum is stored as its operands lie, and turned."""
    total = x + y
    return total, in_rows(fd, turn(fd, total) + straight)


def of_functions(fd: FusionDefinition, straight: Handle, x: Handle, y: Handle) -> Handle:
    return in_rows(fd, turn(fd, fd.ops.exp(x + y) * x) + straight)


def parts(fd: FusionDefinition, straight: Handle, x: Handle, y: Handle) -> Handle:
    """A part of each, of an odd length: neighbours begin anywhere."""
    del y
    left, right = fd.ops.slice(x, [0, 1], [40, 32]), fd.ops.slice(x, [0, 34], [40, 65])
    return in_rows(fd, turn(fd, left - right) + fd.ops.slice(straight, [0, 0], [31, 40]))


DEFINITIONS = {
    "added": added,
    "one read twice": one_read_twice,
    "both ways": both_ways,
    "of functions": of_functions,
    "parts": parts,
}


def matrices(columns: int, rows: int, *dtypes: torch.dtype) -> list[torch.Tensor]:
    """[columns, rows] of the first type, [rows, columns] of the others."""
    _, *others = dtypes
    drawn = [torch.randn(columns, rows), *(torch.randn(rows, columns) for _ in others)]
    kept = (x > 0 if dtype is torch.bool else x for x, dtype in zip(drawn, dtypes, strict=True))
    return [x.to(dtype) for x, dtype in zip(kept, dtypes, strict=True)]


def turned(define: Define, *inputs: torch.Tensor) -> Turned:
    (segment,) = segment_for(defined(define, *inputs).fusion, inputs).segments
    found = find_turned(arrange(trace(segment)))
    assert found is not None
    return found


# -- what is computed in columns -----------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 7])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8, torch.float64])
def test_a_sum_is_turned_in_place_of_its_operands(dtype: torch.dtype, count: int):
    found = turned(added, *matrices(40, 30, *[dtype] * (count + 1)))
    fewer = with_columns(found)
    assert (len(found.filled), len(fewer.filled)) == (count, 1)
    assert fewer.computed == fewer.filled
    assert fewer.columns is not None
    assert fewer.columns.axes[-1] == found.along
    assert set(found.loads) == set(fewer.columns.loads)
    assert len(fewer.columns.lets) + len(fewer.rest.lets) == len(found.rest.lets)


@pytest.mark.parametrize(
    "dtypes", [[torch.bfloat16], [torch.float32], [torch.float32, torch.float32]], ids=str
)
def test_what_saves_little_is_turned_as_it_is(dtypes: list[torch.dtype]):
    found = turned(added, *matrices(40, 30, torch.float32, *dtypes))
    assert with_columns(found) == found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_two_operands_of_other_sizes_take_longer_to_turn(dtype: torch.dtype):
    fewer = with_columns(turned(added, *matrices(40, 30, torch.float32, dtype, dtype)))
    assert len(fewer.filled) == len(fewer.computed) == 1


def test_of_numbers_and_truth_values_the_choice_is_turned():
    found = turned(masked, *matrices(40, 30, torch.float32, torch.float32, torch.bool))
    (chosen,) = with_columns(found).computed
    assert chosen.dtype is DataType.Float


def test_what_lines_read_too_is_turned_only_where_that_saves_a_tile():
    found = turned(one_read_twice, *matrices(40, 30, *[torch.float32] * 3))
    assert with_columns(found) == found


def test_a_store_along_memory_is_of_columns():
    found = turned(both_ways, *matrices(40, 30, *[torch.float32] * 3))
    fewer = with_columns(found)
    assert (len(found.filled), found.drained) == (2, found.stores)
    assert (len(fewer.filled), fewer.drained) == (1, ())
    assert fewer.columns is not None
    assert fewer.columns.stores == found.stores


def test_one_operand_is_turned_once_for_both_ways():
    def define(fd: FusionDefinition, x: Handle) -> Sequence[Handle]:
        power = fd.ops.exp(x)
        return power, in_rows(fd, turn(fd, power))

    fewer = with_columns(turned(define, *matrices(40, 30, torch.float32)))
    assert (len(fewer.filled), fewer.drained) == (1, ())
    assert fewer.filled == fewer.computed
    assert not fewer.rest.code


def test_lines_that_read_no_tile():
    found = turned(both_ways, *matrices(40, 30, *[torch.float32] * 3))
    (straight,), (last,) = found.rest.loads, found.rest.stores
    stored = dataclasses.replace(last, source=Ref(straight.name, straight.dtype))
    rest = dataclasses.replace(found.rest, code=(straight, found.rest.lets[0]), stores=(stored,))
    fewer = with_columns(dataclasses.replace(found, rest=rest))
    assert (fewer.filled, fewer.drained) == ((), ())


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_of_tensors_side_by_side_that_lie_otherwise_nothing_is_turned(target: str):
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Sequence[Handle]:
        return fd.ops.stride_order(y * 3.0, [0, 1]), in_rows(fd, x * 2.0)

    for columns, rows in ((2, 70), (70, 2), (40, 30)):
        inputs = [torch.randn(rows, columns), torch.randn(columns, rows).T]
        fd = defined(define, *inputs)
        assert "_tile[" not in only_kernel(fd, inputs, target).text
        agrees(fd, inputs, target)


def test_a_store_of_what_lines_compute_is_left_to_them():
    def define(fd: FusionDefinition, straight: Handle, x: Handle) -> Sequence[Handle]:
        total = turn(fd, x) + straight
        return in_rows(fd, turn(fd, total)), in_rows(fd, total)

    found = turned(define, *matrices(40, 30, *[torch.float32] * 2))
    assert len(found.stores) == 1
    assert with_columns(found) == found


def test_fewer_tiles_are_larger():
    found = turned(added, *matrices(512, 512, *[torch.float32] * 5))
    fewer, parameters = with_columns(found), CudaParameters()
    shape = cuda_shape(fewer, parameters)
    assert (shape.lines, shape.columns) == (64, 64)
    assert shared_bytes(fewer, shape) < shared_bytes(found, cuda_shape(found, parameters))


# -- what kernels do -----------------------------------------------------------------------------

TARGETS = pytest.mark.parametrize("target", ["cpu", "emulator"])
SIZES = pytest.mark.parametrize("rows", [65, 66, 68, 200])
TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64)


@TARGETS
@SIZES
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_columns_of_every_type(dtype: torch.dtype, rows: int, target: str):
    inputs = matrices(rows, 70, *[dtype] * 4)
    fd = defined(added, *inputs)
    assert "int column" in only_kernel(fd, inputs, target).text
    agrees(fd, inputs, target)


@TARGETS
@SIZES
@pytest.mark.parametrize("define", DEFINITIONS.values(), ids=DEFINITIONS)
def test_results_are_the_oracles(define: Define, rows: int, target: str):
    inputs = matrices(rows, 40, *[torch.float32] * 3)
    agrees(defined(define, *inputs), inputs, target)


@TARGETS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_small_tiles(dtype: torch.dtype, target: str):
    for columns in (2, 3, 8):
        for rows in (2, 5, 16):
            inputs = matrices(columns, rows, *[dtype] * 3)
            agrees(defined(added, *inputs), inputs, target)


@TARGETS
@SIZES
def test_truth_values_beside_numbers(rows: int, target: str):
    inputs = matrices(rows, 33, torch.float32, torch.bfloat16, torch.bool)
    agrees(defined(masked, *inputs), inputs, target)


@SIZES
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_results_past_the_cache(dtype: torch.dtype, rows: int, monkeypatch: pytest.MonkeyPatch):
    map_by(monkeypatch, CpuParameters(PAST_CACHE))
    inputs = matrices(rows, 70, *[dtype] * 3)
    agrees(defined(added, *inputs), inputs, "cpu")


@SIZES
@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
def test_any_thread_order(order: ThreadOrder, rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = matrices(rows, 70, *[torch.float32] * 3)
    agrees(defined(added, *inputs), inputs, "emulator")
