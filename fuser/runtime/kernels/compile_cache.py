"""Make once: results by key, with several threads waiting for the one that makes what they need.

A child process has only the thread that forked it. What other threads were making in the parent is
not being made there: who needs it, makes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from fuser.locks import forkable_lock, in_child

Result = TypeVar("Result")


class CompileCache(Generic[Result]):
    """Maps a key to what was made for it. What failed is tried again; of more than `capacity`
    results, the oldest go."""

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._lock = forkable_lock()
        self._made: dict[Hashable, Result] = {}
        self._being_made: dict[Hashable, Future[Result]] = {}
        self.find = self._made.get
        """`find(key)` is what was made for a key, or None."""
        _CACHES.add(self)

    def get(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """What `make` returned for `key`, now or earlier."""
        mine: Future[Result] = Future()
        with self._lock:
            if key in self._made:
                return self._made[key]
            future = self._being_made.setdefault(key, mine)
        if future is not mine:
            return future.result()
        try:
            result = make()
        except BaseException as error:  # an interrupt too: other threads wait for the result
            with self._lock:
                self._being_made.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            if self._capacity is not None and len(self._made) >= self._capacity:
                del self._made[next(iter(self._made))]
            self._made[key] = result
            self._being_made.pop(key, None)
        mine.set_result(result)
        return result

    def without_others(self) -> None:
        """In a forked process: nothing is being made."""
        self._being_made.clear()


_CACHES: weakref.WeakSet[CompileCache[Any]] = weakref.WeakSet()


def _without_others() -> None:
    for cache in _CACHES:
        cache.without_others()


in_child(_without_others)
