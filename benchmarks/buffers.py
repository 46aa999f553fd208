"""Buffers in huge pages, where the system has them."""

from __future__ import annotations

import ctypes
import sys

import torch

HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14


def huge_empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialized tensor of the same sizes and dtype."""
    return _advised(torch.empty_like(tensor))


def huge_empty(elements: int) -> torch.Tensor:
    """An uninitialized float32 vector."""
    return _advised(torch.empty(elements))


def _advised(made: torch.Tensor) -> torch.Tensor:
    start = -(-made.data_ptr() // HUGE_PAGE) * HUGE_PAGE
    length = (made.data_ptr() + made.nbytes - start) // HUGE_PAGE * HUGE_PAGE
    if length > 0 and sys.platform == "linux":
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), ctypes.c_int(MADV_HUGEPAGE))
    return made
