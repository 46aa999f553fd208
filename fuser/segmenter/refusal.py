"""Why something is not done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why operations do not share a kernel, or a mapping does not fit one."""

    reason: str
