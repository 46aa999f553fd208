"""Bytes moved, at least, and with each operation alone, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuser import DataType
from fuser.explanation.traffic import Traffic, traffic_of
from tests.definitions import defined

N = 64
X = torch.randn(N, N)
ALL, ROW = X.nbytes, N * 4


def traffic(define: Callable[[Any, Any], Any], x: torch.Tensor = X) -> Traffic:
    return traffic_of(defined(define, x).plan([x]))


def test_a_chain_is_read_and_written_once() -> None:
    found = traffic(lambda fd, t: fd.ops.exp(t * 2.0) + 1.0)
    assert found == Traffic(moved=2 * ALL, alone=6 * ALL, least=2 * ALL)


def test_a_value_that_is_read_twice_counts_twice_alone() -> None:
    found = traffic(lambda fd, t: fd.ops.sub(t, fd.ops.max(t, dims=[-1], keepdim=True)))
    assert found.alone == (ALL + ROW) + (ALL + ROW + ALL)
    assert found.least == 2 * ALL


def test_what_several_kernels_exchange_is_above_the_least() -> None:
    def twice(fd: Any, t: Any) -> Any:
        rows = fd.ops.sub(t, fd.ops.max(t, dims=[-1], keepdim=True))
        return fd.ops.truediv(rows, fd.ops.sum(rows, dims=[0], keepdim=True))

    found = traffic(twice)
    assert found.least == 2 * ALL < found.moved < found.alone


def test_a_slice_is_read_as_far_as_it_goes() -> None:
    def sliced(fd: Any, t: Any) -> Any:
        return fd.ops.slice(t, start_indices=[0, 0], end_indices=[N, 8]) * 2.0

    assert traffic(sliced) == Traffic(moved=ALL // 4, alone=ALL // 4, least=ALL // 4)


def test_views_move_nothing() -> None:
    found = traffic(lambda fd, t: fd.ops.permute(t, dims=[1, 0]))
    assert found == Traffic(0, 0, 0)


def test_a_cast_belongs_to_the_operation_beside_it() -> None:
    half = X.half()

    def rounded(fd: Any, t: Any) -> Any:
        return fd.ops.cast(fd.ops.exp(fd.ops.cast(t, dtype=DataType.Float)), dtype=DataType.Half)

    assert traffic(rounded, half) == Traffic(ALL, ALL, ALL)
    assert traffic(lambda fd, t: fd.ops.cast(t, dtype=DataType.Float), half).alone == 3 * ALL // 2


def test_what_torch_runs_reads_its_operands_whole() -> None:
    found = traffic(lambda fd, t: fd.ops.matmul(t, t))
    assert (found.least, found.moved) == (2 * ALL, 2 * ALL)


def test_sums_add_up() -> None:
    found = traffic(lambda fd, t: t * 2.0)
    assert found + found == Traffic(2 * found.moved, 2 * found.alone, 2 * found.least)
