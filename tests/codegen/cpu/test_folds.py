"""C++ for folds over the rows: parts of threads, their blocks, and where they lie."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import FusionDefinition
from fuser.codegen import KernelSource
from fuser.codegen.kernel_source import Size
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import Define, defined
from tests.mapped_by import THREADED, map_by
from tests.row_functions import softmax
from tests.schedule.row_bodies import column_sums


def source(define: Define, *shape: int) -> KernelSource:
    x = torch.empty(shape, device="meta")
    (kernel,) = defined(define, x).plan([x], target="cpu").kernels
    return kernel.kernel_source


def largest(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.max(x, [1]), fd.ops.max(x, [0])]


def total(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """One number, beside a fold of each row."""
    return [fd.ops.max(x, [1]), fd.ops.sum(x)]


@pytest.mark.parametrize(("columns", "itemsize"), [(1, 8), (31, 4), (96, 4), (100, 4)])
def test_parts_of_threads_fill_pairs_of_cache_lines(columns: int, itemsize: int) -> None:
    """Of blocks, which are float32; a single number has none, and is kept in float64."""
    found = source(column_sums, 640, columns)
    slots = {a.name: a.number for a in found.arguments if isinstance(a, Size)}
    ((_, count),) = [item for item in slots.items() if item[0].endswith("_slots")]
    assert count >= columns
    assert count * itemsize % 128 == 0


def test_all_room_is_given_back() -> None:
    code = source(lambda fd, x: [*largest(fd, x), column_sums(fd, x)], 640, 96).kernel
    rooms = re.findall(r"(\w+) = on_own_lines<", code)
    assert len(rooms) == 3  # a maximum needs no blocks, a sum has some
    assert sorted(re.findall(r"__builtin_free\((\w+)\)", code)) == sorted(rooms)


def test_only_sums_are_folded_in_blocks() -> None:
    assert "_rows_of_block" in source(column_sums, 640, 96).kernel
    assert "_rows_of_block" not in source(largest, 640, 96).kernel


@pytest.mark.parametrize("define", [column_sums, largest, total, softmax])
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 64, 65])
def test_whatever_blocks_leave_is_joined(
    monkeypatch: pytest.MonkeyPatch, define: Define, rows: int
) -> None:
    map_by(monkeypatch, CpuRowParameters(THREADED))
    for x in (torch.randn(rows, 48), torch.full((rows, 48), -torch.inf)):
        defined(define, x).validate([x])


def test_equal_numbers_add_up_without_drift() -> None:
    """One float32 for all of them would be off by 1e-4."""
    x = torch.full((1 << 16, 16), 0.1)
    _, sums = defined(lambda fd, x: [fd.ops.max(x, [1]), fd.ops.sum(x, [0])], x).execute([x])
    torch.testing.assert_close(sums, x.double().sum(0).float(), rtol=1e-6, atol=0)


def test_a_nan_of_any_thread_is_in_the_maximum_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    map_by(monkeypatch, CpuRowParameters(THREADED))
    x = torch.randn(64, 48)
    x[41, 7] = torch.nan
    _, columns = defined(largest, x).execute([x])
    assert columns.isnan().nonzero().tolist() == [[7]]
    assert torch.equal(columns[:7], x.amax(0)[:7])
