"""Those who are told while something happens: of plans that are made to be executed, say."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, ParamSpec

from fuser.ir.nodes import Fusion
from fuser.locks import forkable_lock
from fuser.runtime.plans.plan import Plan

Told = ParamSpec("Told")


class Watchers(Generic[Told]):
    """Functions that are called with the same arguments. Safe from several threads."""

    def __init__(self) -> None:
        self._watchers: list[Callable[Told, None]] = []
        self._lock = forkable_lock()

    @contextmanager
    def watching(self, watcher: Callable[Told, None]) -> Generator[None]:
        """Meanwhile `watcher` is told, from any thread."""
        with self._lock:
            self._watchers.append(watcher)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(watcher)

    def tell(self, *args: Told.args, **kwargs: Told.kwargs) -> None:
        """Call those who watch now."""
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher(*args, **kwargs)


PLANS: Watchers[[Fusion, Plan]] = Watchers()
"""Told of a fusion as it was defined, and of each plan of it before that is executed first."""
