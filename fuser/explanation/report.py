"""The report that `explain` returns: data, a text and a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuser.explanation.model import Break, Graph, total_traffic
from fuser.explanation.page import page_of
from fuser.explanation.text import text_of
from fuser.explanation.traffic import Traffic


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
        """Write the page. Raises OSError where it cannot be written."""
        place = Path(path)
        place.write_text(self.html, encoding="utf-8")
        return place

    def __str__(self) -> str:
        return text_of(self.graphs, self.breaks, self.notes)
