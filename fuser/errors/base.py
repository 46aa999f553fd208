"""The base of all errors."""

from __future__ import annotations

from functools import partial
from typing import ClassVar


class FuserError(RuntimeError):
    """Base of every error raised on purpose. A RuntimeError, because nvFuser scripts catch that."""

    template: ClassVar[str] = "{message}"

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(self.template.format(**fields))

    def called(self, operation: str) -> None:
        """Name the operation that the user called, where it is made of the one that failed."""
        if self.fields.get("operation", operation) != operation:
            self.fields["operation"] = operation
            self.args = (self.template.format(**self.fields),)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.fields), ()
