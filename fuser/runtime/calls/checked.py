"""Kernels that report an index out of range."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from fuser.codegen import IndexCheck
from fuser.ir.indexing import index_error
from fuser.runtime.cuda.driver import refuse_capture

_NUMBERS = 2


class IndexReport:
    """Where a kernel writes for one call which of its checks failed, counted from 1, and the
    index: two numbers, at `address`, both 0 if none did."""

    def __init__(self, checks: Sequence[IndexCheck], device: torch.device) -> None:
        self._checks = checks
        if device.type == "cpu":
            self._numbers = (ctypes.c_longlong * _NUMBERS)()
            self.address = ctypes.addressof(self._numbers)
        else:
            self._numbers = torch.zeros(_NUMBERS, dtype=torch.int64, device=device)
            self.address = self._numbers.data_ptr()

    def raise_if_any(self) -> None:
        """Wait for the kernel. Raises IndexOutOfRangeError if an index was out of range."""
        number = self._numbers[0]  # all that is read in nearly every call
        if number:
            check, index = self._checks[int(number) - 1], int(self._numbers[1])
            raise index_error(check.operation, index, check.size, wraps=check.wraps)


class IndexReports:
    """The reports of a kernel's calls, of which those that told of nothing are used again."""

    def __init__(self, checks: Sequence[IndexCheck], device: torch.device) -> None:
        self._checks, self._device = checks, device
        self._free: list[IndexReport] = []

    def take(self) -> IndexReport:
        """One that no other call has."""
        if self._device.type == "cuda":
            refuse_capture("FUSER_CHECK=index waits for the kernel; leave it off")
        try:
            return self._free.pop()
        except IndexError:
            return IndexReport(self._checks, self._device)

    def close(self, report: IndexReport) -> None:
        """Wait for the kernel. Raises IndexOutOfRangeError if an index was out of range."""
        report.raise_if_any()
        self._free.append(report)
