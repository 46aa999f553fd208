"""How a processor starts a kernel: on threads or not, and whether stores bypass its cache."""

from __future__ import annotations

from fuser.schedule.cpu_parameters import ProcessorParameters
from fuser.schedule.tree.loop_nest import Launch
from fuser.segmenter import Segment

_LEAST_PART = 8
"""Stores are at least one byte in so many of `stream_bytes`: smaller results are read soon."""


def launch_of(
    segment: Segment, work: int, parameters: ProcessorParameters, *, shared: bool = True
) -> Launch:
    """The launch of so many instructions: on threads where they are worth it, if these may have
    `shared` them out."""
    return Launch(
        threaded=shared and work >= parameters.serial_work,
        past_cache=_goes_past_cache(segment, parameters.stream_bytes),
    )


def _goes_past_cache(segment: Segment, stream_bytes: int) -> bool:
    """Whether so many bytes are read and stored together that no cache holds them.

    A store into the cache reads its line first, unless the line is there from the call before, and
    leaves the result where its reader finds it. `benchmarks/past_cache.py` measures both.
    """
    stored = segment.bytes_written
    moved = segment.bytes_read + stored
    return moved >= stream_bytes and stored * _LEAST_PART >= stream_bytes
