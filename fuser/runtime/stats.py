"""Counters that only grow, for tests and for the curious."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()
_COUNTS = {
    "plans_built": 0,
    "kernels_compiled": 0,
    "kernels_loaded_from_disk": 0,
    "kernels_launched": 0,
}


def stats() -> dict[str, int]:
    """How many plans were built and kernels compiled, loaded from disk and launched so far."""
    with _LOCK:
        return dict(_COUNTS)


def count(name: str, more: int = 1) -> None:
    """Add to a counter; safe from several threads."""
    with _LOCK:
        _COUNTS[name] += more
