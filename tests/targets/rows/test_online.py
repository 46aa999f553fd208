"""Exponentials that are summed while the maximum is still being found, in blocks of a row."""

from __future__ import annotations

import math

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters
from tests.definitions import defined
from tests.mapped_by import map_by
from tests.row_functions import log_softmax, softmax
from tests.schedule.rows.cpu.test_online import LONG, log_of_sum
from tests.targets.rows.test_cpu import run

BLOCK = 96
LENGTHS = (64, 95, 96, 97, 128, 191, 192, 193, 300, 1000)


@pytest.fixture(name="_short_blocks", params=[BLOCK, 70, 2048])
def _short_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a few hundred elements are done as long ones are."""
    given = CpuRowParameters(
        block=64, long_run=32, kept_bytes=0, online_bytes=0, online_block=request.param
    )
    map_by(monkeypatch, given)


def special_rows(length: int) -> torch.Tensor:
    """Rows that grow, fall, have infinities and NaN at either end, and nothing finite."""
    steps = torch.arange(float(length))
    rows = [steps, -steps, steps * 1e-3, torch.zeros(length)]
    lowest, infinity = torch.finfo(torch.float32).min, math.inf
    rows += [torch.full((length,), value) for value in (88.0, lowest, -infinity, infinity)]
    for value in (-infinity, infinity, math.nan, -lowest, lowest):
        for around in (torch.randn(length), torch.full((length,), -infinity)):
            for part in (slice(0, 1), slice(-1, None), slice(0, length // 2)):
                row = around.clone()
                row[part] = value
                rows.append(row)
    row = torch.full((length,), -infinity)
    row[-1] = 1.0
    return torch.stack([*rows, row])


@pytest.mark.usefixtures("_short_blocks")
@pytest.mark.parametrize("length", LENGTHS)
def test_short_blocks_make_the_same_numbers(length: int):
    x = 10 * torch.randn(20, length)
    for define in (log_of_sum, log_softmax):
        run(define, x, length=length)
    run(lambda fd, x: softmax(fd, x, 1), x, length=length)


@pytest.mark.parametrize("cached_bytes", [0, 1 << 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_powers_are_kept_or_made_again(
    cached_bytes: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    def of_erf(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, fd.ops.erf(x), 1)

    map_by(monkeypatch, CpuRowParameters(cached_bytes=cached_bytes, online_bytes=0))
    rows = special_rows(500).to(dtype)
    run(of_erf, rows, length=500)
    run(lambda fd, x: softmax(fd, x, 1), rows, length=500)


@pytest.mark.usefixtures("_short_blocks")
@pytest.mark.parametrize("length", [64, 97, 300])
def test_infinities_and_nan_are_as_in_torch(length: int):
    run(log_of_sum, special_rows(length), length=length)


def test_long_rows_of_them():
    run(log_of_sum, special_rows(LONG + 7), length=LONG)


def test_small_rises_add_up_no_error():
    """A largest element that grows from block to block scales the sum of all before each time."""
    x = torch.linspace(0, 1e-3, 32 * LONG).expand(10, -1).contiguous()

    def total(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.sum(fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True)), [1])

    fd = defined(total, x)
    (got,) = fd.execute([x])
    exact = torch.exp(x[0].double() - x[0].max().double()).sum()
    assert abs(got / exact - 1).max() < 1e-6
