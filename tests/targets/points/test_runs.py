"""Runs of memory on a GPU: pairs, triples and windows, of which a thread does several at once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.definitions import Define, agrees, defined, only_kernel
from tests.machine_code import memory_accesses
from tests.row_functions import softmax
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)


def part(fd: FusionDefinition, x: Handle, first: int, step: int) -> Handle:
    """Every so manieth column of a matrix."""
    rows, columns = x.shape()
    return fd.ops.slice(x, [0, first], [rows, columns], [1, step])


def stacked(fd: FusionDefinition, *parts: Handle) -> Handle:
    """Matrices whose columns take turns."""
    return fd.ops.cat([fd.ops.broadcast(x, [False, False, True]) for x in parts], 2)


def turned_pairs(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    even, odd = part(fd, x, 0, 2), part(fd, x, 1, 2)
    return fd.ops.cast(stacked(fd, even * cos - odd * sin, even * sin + odd * cos), x.dtype())


def repeated(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(stacked(fd, x, x) * 0.5, x.dtype())


def three_stacked(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.cast(stacked(fd, x * 2.0, y * 1.0, x * y), x.dtype())


def colours(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
    """Pixels of three channels, each with a scale."""
    return fd.ops.cast(x * fd.ops.broadcast(scale, [True, False]), x.dtype())


def gated(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(part(fd, x, 0, 2) * fd.ops.sigmoid(part(fd, x, 1, 2)), x.dtype())


def every_second(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(part(fd, x, 1, 2) * 2.0, x.dtype())


def windows(fd: FusionDefinition, x: Handle, high: int, wide: int) -> Handle:
    rows, columns = x.shape()
    return fd.ops.reshape(x, [fd.ops.div(rows, high), high, fd.ops.div(columns, wide), wide])


def means_of(high: int, wide: int) -> Define:
    def means(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cast(fd.ops.mean(windows(fd, x, high, wide), [1, 3]), x.dtype())

    means.__name__ = f"means_of_{high}_by_{wide}"
    return means


def largest(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.max(windows(fd, x, 2, 2), [1, 3])


def softmax_of_pairs(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(softmax(fd, windows(fd, x, 1, 2)), x.dtype())


def sum_of_few_rows(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(fd.ops.sum(x, [0]), x.dtype())


@dataclass(frozen=True, slots=True)
class Case:
    """`wide`: whether all accesses of 16-bit types are of 16 bytes, at this shape."""

    define: Define
    shapes: tuple[tuple[int, ...], ...]
    wide: bool = True

    def __str__(self) -> str:
        return f"{self.define.__name__} {list(self.shapes[0])}"

    def inputs(self, dtype: torch.dtype, *, offset: int = 0) -> list[torch.Tensor]:
        """Tensors the first of which begins so many elements after memory is aligned."""
        generator = torch.Generator().manual_seed(7)
        made = [torch.randn(shape, generator=generator).to(dtype) for shape in self.shapes]
        held = torch.empty(made[0].numel() + offset, dtype=dtype)[offset:].view(made[0].shape)
        return [held.copy_(made[0]), *made[1:]]


CASES = (
    Case(turned_pairs, ((24, 128), (24, 64), (24, 64))),
    Case(turned_pairs, ((24, 20), (24, 10), (24, 10)), wide=False),
    Case(repeated, ((33, 64),)),
    Case(three_stacked, ((33, 64), (33, 64))),
    Case(colours, ((4096, 3), (3,)), wide=False),  # each lane has the scales of all three
    Case(gated, ((33, 128),)),
    Case(means_of(2, 2), ((6, 128),)),
    Case(means_of(2, 2), ((6, 28),), wide=False),
    Case(means_of(1, 4), ((6, 128),), wide=False),
    Case(largest, ((6, 128),)),
    Case(softmax_of_pairs, ((6, 128),)),
    Case(sum_of_few_rows, ((2, 128),)),
)
NO_RUNS = (
    Case(every_second, ((33, 128),)),
    Case(means_of(2, 2), ((6, 14),)),
    Case(means_of(1, 16), ((6, 256),)),
)
ALL = pytest.mark.parametrize("case", [*CASES, *NO_RUNS], ids=str)


@DTYPES
@ALL
@ORDERS
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_runs_are_right_at_any_offset(
    dtype: torch.dtype,
    case: Case,
    order: ThreadOrder,
    offset: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = case.inputs(dtype, offset=offset)
    agrees(defined(case.define, *inputs), inputs, "emulator")


@pytest.mark.parametrize("case", CASES, ids=str)
@ARCHS
def test_runs_are_moved_16_bytes_at_a_time(case: Case, arch: str):
    inputs = case.inputs(torch.bfloat16)
    cubin = compile_cuda(only_kernel(defined(case.define, *inputs), inputs, f"cuda:{arch}"), arch)
    assert cubin.resources.spill_bytes == cubin.resources.frame_bytes == 0
    assert (cubin.resources.registers or 0) <= 48
    widths = {bits for _, bits in memory_accesses(cubin)}
    assert widths == {128} or not case.wide


@pytest.mark.parametrize("case", NO_RUNS, ids=str)
def test_what_leaves_gaps_or_ends_within_a_vector_is_no_run(case: Case):
    inputs = case.inputs(torch.bfloat16)
    assert "_run" not in only_kernel(defined(case.define, *inputs), inputs, "cuda:sm_90").kernel


@pytest.mark.sanitizer
@ORDERS
def test_sanitizers_find_nothing_in_runs(order: ThreadOrder, sanitizer: Sanitizer):
    for case in (CASES[0], CASES[3], CASES[6]):
        inputs = case.inputs(torch.float32)
        fd = defined(case.define, *inputs)
        results = run_plan_sanitized(fd, inputs, sanitizer, order)
        torch.testing.assert_close(results, interpret(fd.fusion, inputs))
