"""What nvFuser's profiles have, and these do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from fuser.errors import UnknownMemberError

_LAUNCH = "the kernels of fd.plan(inputs) have their mapping, and compile() tells what they take"
_COPY = "fraction_of_copy of each step compares with a copy of as many bytes"
_STREAM = "kernels are queued on torch's current stream"

LEFT_OUT = {
    "block_str": _LAUNCH,
    "cluster_str": _LAUNCH,
    "correlation_id": _STREAM,
    "cuda_evt_time_ms": "total_time_ms is that of the steps and the host",
    "grid_str": _LAUNCH,
    "percentage_peak_bandwidth": _COPY,
    "percentage_peak_bandwith": _COPY,
    "registers": _LAUNCH,
    "shared_mem_str": _LAUNCH,
    "stream": _STREAM,
}
"""By its name in nvFuser, what to use instead."""


class ProfileMembers:
    """The base of profiles, which says of other members what to use instead."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker of types need not believe that it has any member

        def __getattr__(self, name: str) -> NoReturn:
            """Raises UnknownMemberError, which is an AttributeError."""
            hint = f"; {LEFT_OUT[name]}" if name in LEFT_OUT else ""
            raise UnknownMemberError(owner=type(self).__name__, name=name, hint=hint)
