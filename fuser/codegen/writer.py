"""Indented lines of C."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class Writer:
    """Collects lines; `block` indents what is written inside it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str, end: str = "}") -> Generator[None]:
        """`head {`, the lines written meanwhile, `}`."""
        self.line(f"{head} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.line(end)

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
