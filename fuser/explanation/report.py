"""The report that `explain` returns: data, a text and a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuser.errors import ArgumentTypeError, PageError
from fuser.explanation.model import Break, Graph, total_traffic
from fuser.explanation.page import page_of
from fuser.explanation.text import text_of
from fuser.explanation.traffic import Traffic


def page_path(given: str | Path) -> Path:
    """Where a page is to be written. Raises ArgumentTypeError for what names no file, and PageError
    where there is no folder for it, before anything is run for it."""
    if not isinstance(given, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError("explain", "html", type(given).__name__, "a str or Path of a file")
    place = Path(given)
    if not place.parent.is_dir():
        raise PageError(path=place, reason=f"there is no folder {place.parent}; make it first")
    if place.is_dir():
        raise PageError(path=place, reason="it is a folder; name a file")
    return place


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a model or a definition: print it, or write it as a page.

    `graphs` are in the order in which they were compiled, `breaks` where Dynamo ended one; `notes`
    say what was left out, and why.
    """

    title: str
    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def traffic(self) -> Traffic:
        """The bytes that all graphs move."""
        return total_traffic(graph.traffic for graph in self.graphs)

    @property
    def html(self) -> str:
        """A page that needs nothing but itself: graphs drawn, and the code of each kernel."""
        return page_of(self.title, self.graphs, self.breaks, self.notes)

    def write(self, path: str | Path) -> Path:
        """Write the page. Raises PageError, which is an OSError."""
        place, text = page_path(path), self.html
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as error:
            raise PageError(path=place, reason=error.strerror) from error
        return place

    def __str__(self) -> str:
        return text_of(self.graphs, self.breaks, self.notes)
