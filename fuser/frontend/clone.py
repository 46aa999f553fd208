"""Copies of definitions."""

from __future__ import annotations

from fuser.errors import ArgumentTypeError
from fuser.frontend.definition import FusionDefinition
from fuser.frontend.fusion import Fusion


def clone(source: FusionDefinition | Fusion, destination: FusionDefinition | Fusion) -> None:
    """Define `destination`, which is new, as `source` is, which is finished.

    Raises ArgumentTypeError, RedefinitionError, and what executing the source would raise of its
    definition.
    """
    for argument, given in (("source", source), ("destination", destination)):
        if not isinstance(given, FusionDefinition | Fusion):  # pyright: ignore[reportUnnecessaryIsInstance]
            expected = "a FusionDefinition or a fuser.Fusion"
            raise ArgumentTypeError("clone", argument, type(given).__qualname__, expected)
    if isinstance(destination, Fusion):
        destination = FusionDefinition(destination)
    destination.copy(source)
