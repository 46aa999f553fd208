"""Python functions that are written for one plan, or one graph: a line for each call, in which
nothing is looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class FunctionWriter:
    """Collects the lines of a function, and what is there before, which has a name in it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, object] = {}

    def _name(self, kind: str, held: object) -> str:
        """A name for something that is there before."""
        name = f"{kind}_{len(self._names)}"
        self._names[name] = held
        return name

    def _function_of(self, parameters: str, source: str) -> Callable[..., Any]:
        """The function; tracebacks say it is from `source`."""
        body = "\n    ".join(self._lines)
        exec(compile(f"def run({parameters}):\n    {body}\n", source, "exec"), self._names)
        return self._names["run"]  # pyright: ignore[reportReturnType]


def bracketed(texts: Iterable[str]) -> str:
    """The text of a list."""
    return f"[{', '.join(texts)}]"
