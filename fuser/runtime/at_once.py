"""One function of several things at the same time, as far as threads can be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def each_at_once(make: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
    """What `make` returns for each, in order; every call sees the context variables of this one.

    A single one needs no thread. Where none begins, as after the main thread has ended, or for want
    of memory, they are made one after the other.
    """
    if len(given) < 2:
        return list(map(make, given))
    contexts = [copy_context() for _ in given]

    def within(number: int) -> Made:
        return contexts[number].run(make, given[number])

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            made = pool.map(within, range(len(given)))
        except RuntimeError:
            made = map(make, given)
        return list(made)
