"""Compiling by Dynamo as if for the first time, so that nothing of it is left.

`torch._dynamo.reset` would also make a user's models be compiled again.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType
from typing import Any, cast

import torch
from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo import pgo, utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._dynamo.output_graph import GraphCompileReason

from fuser.explanation.model import Break

_PLENTY = 2**30
_dynamo: Any = utils
_all_breaks: list[GraphCompileReason] = _dynamo.graph_break_reasons
_entries: Any = torch._C._dynamo.eval_frame._debug_get_cache_entry_list  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType]


@contextmanager
def untouched_dynamo() -> Generator[None]:
    """Forget, at the end, what this thread compiled meanwhile, and only that.

    Sizes that were seen before do not make any dimension dynamic. What was compiled before by code
    that was compiled now too stays as it is; there, of what was compiled now, an entry that fits
    nothing stays in Dynamo's cache.
    """
    ours: list[tuple[CodeType, CodeType]] = []
    new_to_dynamo: set[CodeType] = set()
    thread = threading.get_ident()

    def note(code: CodeType, new_code: CodeType) -> None:
        if threading.get_ident() == thread:
            ours.append((code, new_code))
            if not _entries(code):
                new_to_dynamo.add(code)

    seen: Any = pgo.get_code_state()
    sizes, counted = dict(seen), copy.deepcopy(utils.counters)
    seen.clear()
    hook = register_bytecode_hook(note)
    limits: Any = {"recompile_limit": _PLENTY, "accumulated_recompile_limit": _PLENTY}
    try:
        with torch._dynamo.config.patch(limits):  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
            yield
    finally:
        hook.remove()
        for code, compiled in ours:
            if code in new_to_dynamo:
                reset_code(code)
            else:
                _disable(code, compiled)
        seen.clear()
        seen.update(sizes)
        utils.counters.clear()
        utils.counters.update(counted)


def compiled_apart(model: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.compile` of a model, whose entries in Dynamo's cache do not count as recompilations of
    others, where torch can keep them apart."""
    return _compile(model, backend=backend, **_APART)


_compile = cast("Any", torch).compile
_can_be_apart = "isolate_recompiles" in inspect.signature(_compile).parameters
_APART = {"isolate_recompiles": True} if _can_be_apart else {}


def _disable(code: CodeType, compiled: CodeType) -> None:
    """Free the guards of what `code` was compiled to; it is found no more."""
    for entry in _entries(code):
        if entry.code is compiled and entry.guard_manager.extra_state is not None:
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
