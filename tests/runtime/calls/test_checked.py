"""Reports of indices: taken by one call at a time, and used again where they tell of nothing."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import IndexCheck
from fuser.errors import IndexOutOfRangeError
from fuser.runtime.calls.checked import IndexReports

CHECKS = (IndexCheck("gather", 3, False), IndexCheck("index_select", 5, True))
CPU = torch.device("cpu")


def write(address: int, check: int, index: int) -> None:
    """As a kernel does."""
    (ctypes.c_longlong * 2).from_address(address)[:] = [check, index]


def test_a_report_of_nothing_is_taken_again() -> None:
    reports = IndexReports(CHECKS, CPU)
    first, second = reports.take(), reports.take()
    assert first.address != second.address
    reports.close(first)
    assert reports.take() is first


def test_a_report_of_an_index_is_not() -> None:
    reports = IndexReports(CHECKS, CPU)
    first = reports.take()
    write(first.address, 2, -6)
    with pytest.raises(IndexOutOfRangeError, match=r"index_select.*-6"):
        reports.close(first)
    assert reports.take() is not first


def test_calls_side_by_side_tell_of_their_own_indices() -> None:
    with FusionDefinition() as fd:
        table = fd.define_tensor([-1, -1])
        at = fd.define_tensor([-1], dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(table, at, 0))
    values = torch.randn(7, 300)

    def right(number: int) -> bool:
        at = torch.randint(0, 7, (400,))
        if number % 2 == 0:
            return torch.equal(fd.execute([values, at])[0], values[at])
        at[number] = 7 + number
        with pytest.raises(IndexOutOfRangeError, match=f"index {7 + number} "):
            fd.execute([values, at])
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(200)))
