"""Compiling by Dynamo as if for the first time, so that nothing of it is left.

`torch._dynamo.reset` would also make a user's models be compiled again.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch._dynamo import pgo, utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._dynamo.output_graph import GraphCompileReason

from fuser.explanation.model import Break

_PLENTY = 2**30
_dynamo: Any = utils
_all_breaks: list[GraphCompileReason] = _dynamo.graph_break_reasons
_entries: Any = torch._C._dynamo.eval_frame._debug_get_cache_entry_list  # pyright: ignore


@contextmanager
def untouched_dynamo() -> Generator[None]:
    """Forget, at the end, what was compiled by this thread meanwhile, and only that.

    Sizes that were seen before do not make any dimension dynamic.
    """
    compiled: list[tuple[CodeType, CodeType]] = []
    thread = threading.get_ident()

    def note(code: CodeType, new_code: CodeType) -> None:
        if threading.get_ident() == thread:
            compiled.append((code, new_code))

    seen: Any = pgo.get_code_state()
    sizes, counted = dict(seen), copy.deepcopy(utils.counters)
    seen.clear()
    hook = register_bytecode_hook(note)
    limits: Any = {"recompile_limit": _PLENTY, "accumulated_recompile_limit": _PLENTY}
    try:
        with torch._dynamo.config.patch(limits):  # pyright: ignore
            yield
    finally:
        hook.remove()
        for code, new in compiled:
            _forget(code, new)
        seen.clear()
        seen.update(sizes)
        utils.counters.clear()
        utils.counters.update(counted)


def _forget(code: CodeType, new: CodeType) -> None:
    """Take what `code` was compiled to out of its cache; it is freed with its guards."""
    for entry in _entries(code):
        if entry.code is new and entry.guard_manager.extra_state is not None:
            gone = DeletedGuardManagerWrapper("it was compiled for fuser.explain")
            entry.guard_manager.extra_state.invalidate(entry, gone)


class BreakLog:
    """Where Dynamo broke graphs since it was made. A reset of Dynamo loses what was not `read`."""

    def __init__(self) -> None:
        self._skipped = len(_all_breaks)
        self._found: dict[Break, None] = {}

    def read(self) -> tuple[Break, ...]:
        """All breaks so far, each once."""
        self._skipped = min(self._skipped, len(_all_breaks))
        self._found |= dict.fromkeys(map(_break, _all_breaks[self._skipped :]))
        return tuple(self._found)

    def drop(self) -> None:
        """Take what was found out of Dynamo's own list."""
        del _all_breaks[self._skipped :]


def _break(reason: GraphCompileReason) -> Break:
    stack = reason.user_stack
    place = f"{stack[-1].filename}:{stack[-1].lineno} in {stack[-1].name}" if stack else "unknown"
    kept = [line.strip() for line in reason.reason.splitlines()]
    told = [line for line in kept if line and not line.startswith(_NOT_TOLD)]
    return Break(place, " ".join(told))


_NOT_TOLD = ("Developer debug context", "For more details", "Hint: It may be possible to write")
