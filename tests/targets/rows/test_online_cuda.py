"""Threads of a block, or a cluster, that sum powers less their own largest numbers."""

from __future__ import annotations

import pytest
import torch

from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from tests.benchmark_kernels import BENCHMARKS, Benchmark
from tests.definitions import Define, close, defined
from tests.row_functions import log_softmax, softmax
from tests.row_places import PLACES, placed
from tests.schedule.rows.cpu.test_online import log_of_sum
from tests.targets.rows.test_online import special_rows
from tests.targets.rows.test_places_cuda import check

EVERYWHERE = pytest.mark.parametrize("place", PLACES)
DEFINED: tuple[Define, ...] = (softmax, log_softmax, log_of_sum)


def row_of(benchmark: Benchmark, dtype: torch.dtype) -> str:
    """What its kernel does with a row."""
    inputs = benchmark.inputs(dtype)
    (kernel,) = benchmark.defined(inputs).plan(inputs, target="cuda:sm_90").kernels
    return kernel.source.split('extern "C"')[1].split("last_to_finish")[0]


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@EVERYWHERE
@pytest.mark.parametrize("define", DEFINED)
def test_infinities_and_nan_are_as_in_torch(
    define: Define, place: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    for length in (300, 517):
        x = special_rows(length)
        with placed(place):
            check(defined(define, x), [x], length)


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_floats_of_16_bits_that_nothing_casts_are_joined_once(dtype: torch.dtype, place: str):
    x = special_rows(517).to(dtype)
    with placed(place):
        fd = defined(softmax, x)
        (kernel,) = fd.plan([x], target="emulator").kernels
        assert (" = join_cluster_powers<" in kernel.source) == ("cluster" in place)
        check(fd, [x], 517)


def test_one_thread_has_the_only_finite_number():
    """All others have a largest number that no power may be less."""
    x = torch.full((4, 4096), -torch.inf)
    x[torch.arange(4), torch.tensor([0, 1000, 2049, 4095])] = torch.tensor([-3e38, 3e38, 0, 1.0])
    fd = defined(softmax, x)
    (got,) = fd.execute([x], target="emulator")
    close([got], interpret(fd.fusion, [x]), 4096)
    assert got.sum() == 4


LONGEST = [b for b in BENCHMARKS if b.shapes[0][1] > 1 << 16 and "softmax backward" not in b.name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("benchmark", LONGEST, ids=str)
def test_blocks_of_a_row_wait_for_each_other_once(benchmark: Benchmark, dtype: torch.dtype):
    row = row_of(benchmark, dtype)
    assert row.count("= join_cluster_powers<") == 1
    assert row.count("= join_") == 1 + ("_part = join_block<" in row)  # and once, for all rows


def test_a_block_joins_twice_if_it_keeps_the_powers():
    """They are less the largest number of the row, so that none is made again."""
    benchmark = Benchmark("softmax", softmax, ((4096, 4096),))
    assert row_of(benchmark, torch.float32).count("= join_block<") == 2
    assert row_of(benchmark, torch.bfloat16).count("= join_block_powers<") == 1
