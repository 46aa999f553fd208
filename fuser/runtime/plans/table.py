"""Tables of text, for plans and profiles."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

Row = tuple[str, ...]


def table(head: Row, rows: Sequence[Row], most: Mapping[int, int]) -> list[str]:
    """Lines of a table. Cells of the columns in `most` go on in further lines when longer."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for column, width in most.items():
        widths[column] = min(widths[column], width)
    lines = [*_wrapped(head, widths), "  ".join("-" * width for width in widths)]
    for row in rows:
        lines += _wrapped(row, widths)
    return lines


def _wrapped(cells: Row, widths: list[int]) -> list[str]:
    """A table row, long cells continued on further lines."""
    columns = [
        textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)
    ]
    lines: list[str] = []
    for depth in range(max(map(len, columns))):
        parts = [column[depth] if depth < len(column) else "" for column in columns]
        padded = [part.ljust(width) for part, width in zip(parts, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return lines
