"""nvfuser_direct's way to a profile: whatever is executed in a block is timed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from fuser.errors import ArgumentError, NothingSavedError
from fuser.runtime.plans.profile import Profile
from fuser.runtime.plans.profile_totals import totals_table


class PythonProfiler:
    """Times every `execute` in its block, in any thread; also those of a compiled model's parts.

    with PythonProfiler() as prof:
        fd.execute(inputs)
    print(prof.profile)  # of the last one
    print(prof)  # of all, those of one step together, what took longest first
    """

    def __init__(self, auto_scheduled: bool = True) -> None:
        if not auto_scheduled:
            expected = "True: there are no schedules of users"
            raise ArgumentError("PythonProfiler", "auto_scheduled", auto_scheduled, expected)
        self._profiles: list[Profile] = []

    def __enter__(self) -> Self:
        self._profiles = []
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
        """Keep the profile of an execution."""
        self._profiles.append(profile)

    @property
    def profile(self) -> Profile:
        """That of the last execution in the block. Raises NothingSavedError if there was none."""
        if not self._profiles:
            raise NothingSavedError(
                operation="PythonProfiler",
                missing="no execution was timed",
                remedy="call execute(inputs) inside of its block",
            )
        return self._profiles[-1]

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Those of all executions in the block, as they ended."""
        return tuple(self._profiles)

    def __str__(self) -> str:
        return totals_table(self.profiles)


PROFILERS: list[PythonProfiler] = []
"""Those whose block is open."""
