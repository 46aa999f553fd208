"""Who is told of the plans that are made to be executed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from fuser.ir.nodes import Fusion
from fuser.runtime.plan import Plan

Watcher = Callable[[Fusion, Plan], None]
"""Takes a fusion as it was defined, and a plan of it."""

_watchers: list[Watcher] = []


@contextmanager
def watching_plans(watcher: Watcher) -> Generator[None]:
    """Meanwhile `watcher` is told of each plan, from any thread, before it is executed first."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def announce(fusion: Fusion, plan: Plan) -> None:
    """Tell those who watch."""
    for watcher in tuple(_watchers):
        watcher(fusion, plan)
