"""Counters that only grow, for tests and for the curious."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from fuser.locks import forkable_lock

_LOCK = forkable_lock()
_COUNTS: dict[str, int] = dict.fromkeys(
    ("plans_built", "plans_loaded_from_disk", "kernels_compiled", "kernels_loaded_from_disk"), 0
)
_CALLS: dict[int, itertools.count[int]] = {}
"""By how many kernels a call launches, so many calls."""


def stats() -> dict[str, int]:
    """How many plans were built or loaded from disk, and how many kernels compiled, loaded from
    disk and launched so far."""
    with _LOCK:
        launched = sum(_calls(calls) * kernels for kernels, calls in _CALLS.items())
        return {**_COUNTS, "kernels_launched": launched}


def count(name: str) -> None:
    """Add one to a counter; safe from several threads."""
    with _LOCK:
        _COUNTS[name] += 1


def launch_counter(kernels: int) -> Callable[[], object]:
    """What counts the kernels of a call, safe from several threads without a lock: of small
    tensors, a call takes little longer than that."""
    with _LOCK:
        return _CALLS.setdefault(kernels, itertools.count()).__next__


def _calls(counter: itertools.count[int]) -> int:
    """How often a counter was advanced: its next number, which only its text tells."""
    return int(repr(counter).removeprefix("count(").removesuffix(")"))
