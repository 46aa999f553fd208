"""Reading what nvdisasm prints of a kernel."""

from __future__ import annotations

import re

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)\s*(.*?)\s*;")
"""An instruction, without its predicate: its operation, and its operands."""

_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def width(operation: str) -> int:
    """Bytes of a thread that an access moves."""
    return next((_WIDTHS[part] for part in operation.split(".") if part in _WIDTHS), 4)
