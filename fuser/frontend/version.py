"""The package's version."""

from __future__ import annotations

from torch.torch_version import TorchVersion

VERSION = "0.1.0"


class Version(TorchVersion):
    """A string that compares with strings as versions do: 0.10.0 is above 0.9.0."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def version() -> Version:
    """The package's version."""
    return Version(VERSION)
