"""Locks that nobody holds in a forked child, where the thread that held one is not there to release
it.

What such a lock guards must be of use as another thread has left it, or be made anew in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()


def forkable_lock() -> threading.Lock:
    """A lock that is free in a child."""
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


def forkable_rlock() -> threading.RLock:
    """A lock that is free in a child, and that a thread may take again while it holds it."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def in_child(act: Callable[[], object]) -> None:
    """Call `act` in every child right after it was forked, where a system forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def _free_all() -> None:
    for lock in _LOCKS:
        lock._at_fork_reinit()  # as CPython's own modules do


in_child(_free_all)
