"""Choosing a mapping: the first that fits, and why those before it do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fuser.segmenter.refusal import Refusal

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class NotChosen:
    """A mapping that comes before the one that was chosen, and why it does not fit."""

    mapping: str
    reason: str

    def __str__(self) -> str:
        return f"not {self.mapping}: {self.reason}"


def first_that_fits(
    tried: Mapping[str, Callable[[], Found | Refusal]],
) -> tuple[Found, tuple[NotChosen, ...]]:
    """What the first of some mappings makes, by their names in words; the last one never refuses.
    With it, those before."""
    refused: list[NotChosen] = []
    for words, attempt in tried.items():
        found = attempt()
        if not isinstance(found, Refusal):
            return found, tuple(refused)
        refused.append(NotChosen(words, found.reason))
    raise AssertionError(f"none fits: {'; '.join(map(str, refused))}")
