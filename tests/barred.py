"""Memory that ends, and begins, where memory that may be read does."""

from __future__ import annotations

import ctypes
import mmap

import torch


def page_between_barred() -> torch.Tensor:
    """The bytes of a page, before and after which no byte can be read."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    room = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    for barred in (start, start + 2 * page):
        assert libc.mprotect(ctypes.c_void_p(barred), ctypes.c_size_t(page), 0) == 0
    return torch.frombuffer(room, dtype=torch.uint8)[page : 2 * page]
