"""Large CPU outputs from a pool.

The C library returns freed blocks above 32 MiB to the system at once, and smaller ones at its
discretion, so a large output is paged in anew: 45 to 55 ms for 100 MB. The pool keeps such
storages and hands one out again when nothing but the pool holds it: no tensor, no view, no user.
New ones ask for huge pages.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections import OrderedDict

import torch

POOLED_BYTES = 4 << 20
"""Outputs from this size on come from the pool."""

CAPACITY_BYTES = 1 << 30
"""What the pool may hold on to while nobody uses it; older storages go first."""

_UNSHARED = 2
"""What getrefcount says of an object that only a dictionary holds: that, and its argument."""

_HUGE_PAGE_BYTES = 2 << 20
_MADV_HUGEPAGE = 14


class OutputPool:
    """Storages by size, least recently used first. Safe from several threads."""

    def __init__(self, capacity: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._storages: OrderedDict[int, torch.UntypedStorage] = OrderedDict()

    def empty_strided(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, nbytes: int
    ) -> torch.Tensor:
        """An uninitialized CPU tensor in a storage of `nbytes` that nobody else holds."""
        with self._lock:
            storage = self._take(nbytes) or self._make(nbytes)
            self._evict()
            tensor = torch.empty(0, dtype=dtype, device="cpu")
            return tensor.set_(storage, 0, sizes, strides)  # pyright: ignore[reportArgumentType]

    def held_bytes(self) -> int:
        """Bytes of all storages the pool knows, in use or not."""
        with self._lock:
            return sum(storage.nbytes() for storage in self._storages.values())

    def clear(self) -> None:
        """Forget every storage; those in use live on with their users."""
        with self._lock:
            self._storages.clear()

    def _take(self, nbytes: int) -> torch.UntypedStorage | None:
        for key in self._storages:
            if self._storages[key].nbytes() == nbytes and self._is_free(key):
                self._storages.move_to_end(key)
                return self._storages[key]
        return None

    def _is_free(self, key: int) -> bool:
        """Whether only the pool holds a storage: no tensor, nobody else its Python object, which is
        the one that `tensor.untyped_storage()` returns, and no other process, for which its memory
        would have moved."""
        if self._storages[key].data_ptr() != key:
            return False
        address = self._storages[key]._cdata  # pyright: ignore[reportPrivateUsage]
        tensors_and_object = torch._C._storage_Use_Count(address)  # pyright: ignore
        return tensors_and_object == 1 and sys.getrefcount(self._storages[key]) == _UNSHARED

    def _make(self, nbytes: int) -> torch.UntypedStorage:
        storage = torch.UntypedStorage(nbytes)
        _ask_for_huge_pages(storage.data_ptr(), nbytes)
        if nbytes <= self._capacity:
            self._storages[storage.data_ptr()] = storage
        return storage

    def _evict(self) -> None:
        """Forget unused storages, the oldest first, down to the capacity; and those that moved."""
        for key in [key for key in self._storages if self._storages[key].data_ptr() != key]:
            del self._storages[key]
        unused = {key: self._storages[key].nbytes() for key in self._storages if self._is_free(key)}
        held = sum(unused.values())
        for key, nbytes in unused.items():
            if held <= self._capacity:
                return
            held -= nbytes
            del self._storages[key]


def _ask_for_huge_pages(address: int, nbytes: int) -> None:
    """Advise the kernel; without effect where it has no such advice."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    start = -(-address // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    length = (address + nbytes - start) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    if length > 0:
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(start), ctypes.c_size_t(length), ctypes.c_int(_MADV_HUGEPAGE)
        )


POOL = OutputPool()
