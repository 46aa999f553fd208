"""What drives fuser from elsewhere. Importing this makes `torch.compile(backend="fuser")` work.

An installed package needs no import: torch finds the backend by its entry point.
"""

from fuser.integrations import dynamo

__all__ = ["dynamo"]
