"""What torch.compile is not to look into: definitions, and what runs them.

In a function that it compiles, a call of these ends one graph and begins the next, as a call of
nvFuser's does. Otherwise Dynamo would trace the compiler, each function of it as a graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

try:
    from torch._C._dynamo import eval_frame as _frames
except ImportError:  # it is torch's own: without it, functions are traced
    _frames: Any = None

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_PYTHON_S = ("__hash__", "__init_subclass__", "__reduce__")
"""Methods that are not called by who writes a definition."""


def untraced(function: Function) -> Function:
    """Marks a function: it is not traced, nor is what it calls. A call costs no more for it."""
    code: Any = getattr(function, "__code__", None)
    frames: Any = _frames
    if code is not None and hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
        vars(function)["_torchdynamo_disable"] = True  # as torch.compiler.disable marks its own
    return function


def untraced_methods(cls: Class) -> Class:
    """Marks the methods of a class, operators and its constructor too."""
    for name, method in vars(cls).items():
        if inspect.isfunction(method) and name not in _PYTHON_S:
            untraced(method)
    return cls
