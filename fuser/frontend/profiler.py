"""nvfuser_direct's way to a profile: whatever is executed in a block is timed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from fuser.errors import ArgumentError, NothingSavedError
from fuser.runtime.profile import Profile


class PythonProfiler:
    """Times every `execute` in its block, in any thread.

    with PythonProfiler() as prof:
        fd.execute(inputs)
    print(prof.profile)
    """

    def __init__(self, auto_scheduled: bool = True) -> None:
        if not auto_scheduled:
            raise ArgumentError(
                operation="PythonProfiler",
                argument="auto_scheduled",
                got=auto_scheduled,
                expected="True: there are no schedules of users",
            )
        self._profile: Profile | None = None

    def __enter__(self) -> Self:
        self._profile = None
        PROFILERS.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        PROFILERS.remove(self)

    def take(self, profile: Profile) -> None:
        """Keep the profile of an execution, in place of one before it."""
        self._profile = profile

    @property
    def profile(self) -> Profile:
        """That of the last execution in the block. Raises NothingSavedError if there was none."""
        if self._profile is None:
            raise NothingSavedError(
                operation="PythonProfiler",
                missing="no execution was timed",
                remedy="call execute(inputs) inside of its block",
            )
        return self._profile


PROFILERS: list[PythonProfiler] = []
"""Those whose block is open."""
