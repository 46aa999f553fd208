"""The package's version."""

VERSION = "0.1.0"


def version() -> str:
    """The package's version."""
    return VERSION
