"""Copies of definitions."""

from __future__ import annotations

from fuser.frontend.definition import FusionDefinition
from fuser.frontend.fusion import Fusion


def clone(source: FusionDefinition | Fusion, destination: FusionDefinition | Fusion) -> None:
    """Define `destination`, which is new, as `source` is, which is finished.

    Raises RedefinitionError, and what executing the source would raise of its definition.
    """
    if isinstance(destination, Fusion):
        destination = FusionDefinition(destination)
    destination.copy(source)
