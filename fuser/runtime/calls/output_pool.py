"""Large CPU outputs from a pool.

The C library returns freed blocks above 32 MiB to the system at once, and smaller ones at its
discretion, so a large output is paged in anew: 45 to 55 ms for 100 MB. The pool keeps such
storages and hands one out again when nothing but the pool holds it: no tensor, no view, no user.
New ones ask for huge pages. FUSER_POOL_MIB says how much it may keep.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections import OrderedDict, deque

import torch

from fuser import debug
from fuser.locks import forkable_lock, in_child
from fuser.runtime.calls.memory_limit import memory_limit

POOLED_BYTES = 1 << 20
"""Outputs from this size on come from the pool."""


LEAST_BYTES = 64 << 20


def capacity_bytes() -> int:
    """What the pool may hold on to while nobody uses it: what FUSER_POOL_MIB says, by default an
    eighth of the memory that the process may have, at least 64 MiB. A training step that frees more
    than this pages its memory in again."""
    asked = debug.pool_bytes()
    return max(memory_limit() // 8, LEAST_BYTES) if asked is None else asked


_UNSHARED = 2
"""What getrefcount says of an object that only a dictionary holds: that, and its argument."""

_LOOKS = 16
"""How often all storages are looked at while as many bytes are handed out as the pool may keep:
with many in use, that takes longer than a kernel."""

_HUGE_PAGE_BYTES = 2 << 20
_MADV_HUGEPAGE = 14


class OutputPool:
    """Storages by size, least recently used first. Safe from several threads."""

    def __init__(self, capacity: int | None = None) -> None:
        self._asked = capacity
        self._capacity = 0
        """That, or what the process may have; looked up when a storage is made."""
        self._lock = forkable_lock()
        self._storages: OrderedDict[int, torch.UntypedStorage] = OrderedDict()
        self._bytes: dict[int, int] = {}
        """What they had when they were made: who uses one may resize it."""
        self._of_size: dict[int, deque[int]] = {}
        """Their addresses, by that: in a circle, which begins with the one handed out last."""
        self._held = 0
        self._unseen = 0
        """Bytes handed out since all storages were looked at."""

    def empty_strided(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, nbytes: int
    ) -> torch.Tensor:
        """An uninitialized CPU tensor in a storage of `nbytes` that nobody else holds."""
        with self._lock:
            storage = self._take(nbytes) or self._make(nbytes)
            self._unseen += nbytes
            if self._unseen > self._capacity // _LOOKS:
                self._evict(self._capacity)
            tensor = torch.empty(0, dtype=dtype, device="cpu")
            return tensor.set_(storage, 0, sizes, strides)  # pyright: ignore[reportArgumentType]

    def held_bytes(self) -> int:
        """Bytes of all storages the pool knows, in use or not: what tests look at."""
        with self._lock:
            return self._held

    def clear(self) -> None:
        """Forget every storage; those in use live on with their users."""
        with self._lock:
            self._storages.clear()
            self._bytes.clear()
            self._of_size.clear()
            self._held = 0

    def _take(self, nbytes: int) -> torch.UntypedStorage | None:
        """A free one of so many bytes, the nearest to the one handed out last: programs free them
        in the order in which they took them, or in that order back."""
        circle = self._of_size.get(nbytes)
        if circle is None:
            return None
        for number in range(len(circle)):
            at = (number + 1) // 2 if number % 2 else -(number // 2)
            key = circle[at]
            if self._is_free(key) and self._storages[key].nbytes() == nbytes:
                circle.rotate(-at)
                self._storages.move_to_end(key)
                return self._storages[key]
        return None

    def _is_free(self, key: int) -> bool:
        """Whether only the pool holds a storage: no tensor, nobody else its Python object, which is
        the one that `tensor.untyped_storage()` returns, and no other process, for which its memory
        would have moved."""
        address = self._storages[key]._cdata  # pyright: ignore[reportPrivateUsage]
        tensors_and_object = torch._C._storage_Use_Count(address)  # pyright: ignore[reportPrivateUsage]
        if tensors_and_object != 1 or sys.getrefcount(self._storages[key]) != _UNSHARED:
            return False
        return self._storages[key].data_ptr() == key

    def _make(self, nbytes: int) -> torch.UntypedStorage:
        self._capacity = capacity_bytes() if self._asked is None else self._asked
        storage = self._allocated(nbytes)
        _ask_for_huge_pages(storage.data_ptr(), nbytes)
        if nbytes <= self._capacity:
            key = storage.data_ptr()
            if key in self._storages:  # that one has moved
                self._forget(key)
            self._storages[key], self._bytes[key] = storage, nbytes
            self._of_size.setdefault(nbytes, deque()).appendleft(key)
            self._held += nbytes
        return storage

    def _allocated(self, nbytes: int) -> torch.UntypedStorage:
        """New memory; where there is no room for it, in place of what nobody uses."""
        with contextlib.suppress(RuntimeError):
            return torch.UntypedStorage(nbytes)
        self._evict(0)
        return torch.UntypedStorage(nbytes)

    def _evict(self, most: int) -> None:
        """Forget unused storages, the oldest first, down to `most` bytes; and those that moved."""
        self._unseen = 0
        if self._held <= most:
            return
        for key in [key for key in self._storages if self._storages[key].data_ptr() != key]:
            self._forget(key)
        unused = {key: self._bytes[key] for key in self._storages if self._is_free(key)}
        held = sum(unused.values())
        for key, nbytes in unused.items():
            if held <= most:
                return
            held -= nbytes
            self._forget(key)

    def _forget(self, key: int) -> None:
        nbytes = self._bytes.pop(key)
        del self._storages[key]
        self._held -= nbytes
        circle = self._of_size[nbytes]
        circle.remove(key)
        if not circle:
            del self._of_size[nbytes]


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
in_child(POOL.clear)  # another thread may have been in the middle of a change
