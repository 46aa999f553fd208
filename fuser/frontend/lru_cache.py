"""Equal definitions share what was planned and compiled for them, as nvFuser's `LruFusionCache`."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import ParamSpec, Protocol, cast

from fuser.errors import ArgumentError, ArgumentTypeError
from fuser.frontend.definition import FusionDefinition
from fuser.ir.nodes import Fusion, python_int
from fuser.locks import forkable_lock

P = ParamSpec("P")


class Cached(Protocol[P]):
    """A function that makes definitions, and its cache's figures."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> FusionDefinition: ...
    def stats(self) -> dict[str, int]: ...
    def num_fusions(self) -> int: ...


class LRUCache:
    """Finished definitions by their structure; the least recently used goes where it is full.

    Definitions are equal if their printed text is. Safe from several threads.
    """

    def __init__(self, max_fusions: int = 16384) -> None:
        _check_most("LRUCache", max_fusions)
        self._most = max_fusions
        self._lock = forkable_lock()
        self._kept: OrderedDict[Fusion, FusionDefinition] = OrderedDict()
        self._found = self._missed = 0

    def cache_compile(self, definition: FusionDefinition | Fusion) -> FusionDefinition:
        """The definition equal to this one that came first, with its plans and kernels; itself if
        there was none. A Fusion is one that `fd.fusion` is.

        Raises ArgumentTypeError for what is no definition, and the reason why one cannot be
        executed.
        """
        fd = _defined(definition)
        fd.check_finished("LRUCache")
        with self._lock:
            kept = self._kept.get(fd.fusion)
            if kept is None:
                self._missed += 1
                kept = self._kept[fd.fusion] = fd
                if len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            else:
                self._found += 1
                self._kept.move_to_end(fd.fusion)
            return kept

    def stats(self) -> dict[str, int]:
        """How many definitions it holds and may hold, and how often one was found and was not."""
        with self._lock:
            return {
                "num_fusions": len(self._kept),
                "max_fusions": self._most,
                "hits": self._found,
                "misses": self._missed,
            }

    def num_fusions(self) -> int:
        """How many definitions it holds."""
        return len(self._kept)


def LruFusionCache(  # noqa: N802 (nvFuser's name)
    max_fusions: int = 16384,
) -> Callable[[Callable[P, FusionDefinition]], Cached[P]]:
    """Decorates a function that returns a finished FusionDefinition: equal ones become one.

    The decorated function has `stats()` and `num_fusions()`. It is `@LruFusionCache()`, with
    parentheses. Raises ArgumentTypeError for what is no number, and ArgumentError below 1.
    """
    _check_most("LruFusionCache", max_fusions)

    def decorate(define: Callable[P, FusionDefinition]) -> Cached[P]:
        cache = LRUCache(max_fusions)

        @functools.wraps(define)
        def cached(*args: P.args, **kwargs: P.kwargs) -> FusionDefinition:
            return cache.cache_compile(define(*args, **kwargs))

        vars(cached).update(stats=cache.stats, num_fusions=cache.num_fusions)
        return cast("Cached[P]", cached)

    return decorate


def _defined(definition: object) -> FusionDefinition:
    """Raises ArgumentTypeError."""
    if isinstance(definition, FusionDefinition):
        return definition
    if not isinstance(definition, Fusion):
        got, expected = type(definition).__qualname__, "a FusionDefinition"
        raise ArgumentTypeError("LRUCache", "what is cached", got, expected)
    fd = FusionDefinition()
    fd.fill(definition)
    return fd


def _check_most(operation: str, most: object) -> None:
    if python_int(most) is None:
        is_decorated = " (a function is decorated by @LruFusionCache(), with parentheses)"
        expected = f"a whole number{is_decorated if callable(most) else ''}"
        raise ArgumentTypeError(operation, "max_fusions", type(most).__qualname__, expected)
    if cast("int", most) < 1:
        raise ArgumentError(operation, "max_fusions", most, "1 or more")
