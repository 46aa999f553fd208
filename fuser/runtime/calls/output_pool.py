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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

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


_holders: Callable[[int], int] = torch._C._storage_Use_Count  # pyright: ignore[reportPrivateUsage]
"""How many tensors and Python objects share a storage, by its handle."""

Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
"""Sizes, strides, type."""

_LOOKS = 16
"""How often all storages are looked at while as many bytes are handed out as the pool may keep:
with many in use, that takes longer than a kernel."""

_HUGE_PAGE_BYTES = 2 << 20
_MADV_HUGEPAGE = 14


@dataclass(slots=True, eq=False)
class _Kept:
    """A storage, and what it had when it was made: who uses one may resize or move it."""

    storage: torch.UntypedStorage
    handle: int
    address: int
    nbytes: int
    template: torch.Tensor
    """A tensor of the last form, that nobody is given: its `data`, which is a tensor of its own,
    takes a third of the time of one that is made and set to the storage."""
    form: Form
    holders: int = 0
    """Tensors and objects that share it while only the pool holds it."""
    references: int = 0
    """Those to its Python object then: torch's own differ by its version."""
    used: int = 0
    """What the pool had handed out when it was handed out last."""

    def count_ours(self) -> None:
        """Count who holds it now, while only the pool does."""
        self.holders, self.references = _holders(self.handle), sys.getrefcount(self.storage)

    def is_free(self) -> bool:
        """Whether only the pool holds it: no tensor, nobody else its Python object, which is the
        one that `tensor.untyped_storage()` returns, and no other process, for which its memory
        would have moved."""
        return (
            _holders(self.handle) == self.holders
            and sys.getrefcount(self.storage) == self.references
            and not self.has_changed()
        )

    def has_changed(self) -> bool:
        """Whether who used it has resized or moved it."""
        storage = self.storage
        return storage.data_ptr() != self.address or storage.nbytes() != self.nbytes

    def tensor(self, form: Form) -> torch.Tensor:
        """A new tensor in it."""
        if form != self.form:
            self.template, self.form = _template(self.storage, form), form
        return self.template.data


def _new(nbytes: int, form: Form) -> _Kept:
    """New memory. Raises RuntimeError where there is no room for it."""
    storage = torch.UntypedStorage(nbytes)
    handle = storage._cdata  # pyright: ignore[reportPrivateUsage]
    made = _Kept(storage, handle, storage.data_ptr(), nbytes, _template(storage, form), form)
    del storage
    made.count_ours()
    return made


def _template(storage: torch.UntypedStorage, form: Form) -> torch.Tensor:
    sizes, strides, dtype = form
    with torch.inference_mode(mode=False):  # others may need gradients of what is made like it
        made = torch.empty(0, dtype=dtype, device="cpu")
        return made.set_(storage, 0, sizes, strides)  # pyright: ignore[reportArgumentType]


class OutputPool:
    """Storages by size. Safe from several threads."""

    def __init__(self, capacity: int | None = None) -> None:
        self._asked = capacity
        self._capacity = 0
        """That, or what the process may have; looked up when a storage is made."""
        self._lock = forkable_lock()
        self._of_size: dict[int, deque[_Kept]] = {}
        """In a circle, which begins with the one handed out last."""
        self._held = 0
        self._handed_out = 0
        """Bytes, ever."""
        self._look_at = 0
        """When so many are handed out, all storages are looked at."""

    def empty_strided(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, nbytes: int
    ) -> torch.Tensor:
        """An uninitialized CPU tensor in a storage of `nbytes` that nobody else holds."""
        form = (sizes, strides, dtype)
        with self._lock:
            circle = self._of_size.get(nbytes)
            if circle and circle[0].is_free():
                kept = circle[0]
            else:
                kept = (self._free_one(circle) if circle else None) or self._made(nbytes, form)
            tensor = kept.tensor(form)
            self._handed_out = kept.used = self._handed_out + nbytes
            if self._handed_out > self._look_at:
                self._evict(self._capacity)
        return tensor

    def held_bytes(self) -> int:
        """Bytes of all storages the pool knows, in use or not: what tests look at."""
        with self._lock:
            return self._held

    def clear(self) -> None:
        """Forget every storage; those in use live on with their users."""
        with self._lock:
            self._of_size.clear()
            self._held = 0

    def _free_one(self, circle: deque[_Kept]) -> _Kept | None:
        """The free storage that is nearest to the one handed out last: programs free them in the
        order in which they took them, or in that order back."""
        for number in range(len(circle)):
            at = (number + 1) // 2 if number % 2 else -(number // 2)
            kept = circle[at]
            if kept.is_free():
                circle.rotate(-at)
                return kept
        return None

    def _made(self, nbytes: int, form: Form) -> _Kept:
        self._capacity = capacity_bytes() if self._asked is None else self._asked
        kept = self._allocated(nbytes, form)
        _ask_for_huge_pages(kept.address, nbytes)
        if nbytes <= self._capacity:
            self._of_size.setdefault(nbytes, deque()).appendleft(kept)
            self._held += nbytes
        return kept

    def _allocated(self, nbytes: int, form: Form) -> _Kept:
        """New memory; where there is no room for it, in place of what nobody uses."""
        with contextlib.suppress(RuntimeError):
            return _new(nbytes, form)
        self._evict(0)
        return _new(nbytes, form)

    def _evict(self, most: int) -> None:
        """Forget unused storages, the oldest first, down to `most` bytes; and what has changed."""
        self._look_at = self._handed_out + self._capacity // _LOOKS
        if self._held <= most:
            return
        for kept in self._all():
            if kept.has_changed():
                self._forget(kept)
        unused = sorted(filter(_Kept.is_free, self._all()), key=lambda kept: kept.used)
        held = sum(kept.nbytes for kept in unused)
        for kept in unused:
            if held <= most:
                return
            held -= kept.nbytes
            self._forget(kept)

    def _all(self) -> list[_Kept]:
        return [kept for circle in self._of_size.values() for kept in circle]

    def _forget(self, kept: _Kept) -> None:
        self._held -= kept.nbytes
        circle = self._of_size[kept.nbytes]
        circle.remove(kept)
        if not circle:
            del self._of_size[kept.nbytes]


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
