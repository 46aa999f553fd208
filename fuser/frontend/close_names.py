"""What a name that is not there was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def close_names(name: str, known: Iterable[str]) -> str:
    """The end of an error's sentence: up to three names like it, or nothing."""
    public = [other for other in known if not other.startswith("_")]
    close = [] if name.startswith("_") else difflib.get_close_matches(name, public, n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
