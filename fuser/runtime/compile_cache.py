"""Compile once: results by key, with several threads waiting for the one that compiles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Result = TypeVar("Result")


class CompileCache(Generic[Result]):
    """Maps a key to the result of compiling it. A failed compilation is tried again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, Future[Result]] = {}

    def get(self, key: str, make: Callable[[], Result]) -> Result:
        """What `make` returned for `key`, now or earlier."""
        with self._lock:
            future = self._futures.get(key)
            mine = future is None
            if future is None:
                future = self._futures[key] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:  # an interrupt too: other threads wait for the result
                with self._lock:
                    del self._futures[key]
                future.set_exception(error)
        return future.result()
