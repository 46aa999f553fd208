"""Memory on the processor: buffers in huge pages, and what becomes of freed blocks.

All of it is glibc's and Linux'; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import sys

import torch

HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
LARGEST_KEPT = 32 << 20
"""From here on glibc gives blocks back, once its threshold has grown as far as it does."""


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


def give_back_freed() -> None:
    """Large freed blocks go back to the system, as they do by default; so do those kept so far.

    The default threshold grows with what is freed; where it ends is set at once.
    """
    _set(M_MMAP_MAX, 65536)
    _set(M_MMAP_THRESHOLD, LARGEST_KEPT)
    _set(M_TRIM_THRESHOLD, 2 * LARGEST_KEPT)
    _call("malloc_trim", ctypes.c_size_t(0))


def keep_freed() -> None:
    """Freed blocks of any size are used again, so that nobody pages in memory twice."""
    _set(M_MMAP_MAX, 0)
    _set(M_TRIM_THRESHOLD, -1)


def _set(parameter: int, value: int) -> None:
    _call("mallopt", ctypes.c_int(parameter), ctypes.c_int(value))


def _call(name: str, *arguments: object) -> None:
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
