"""Whether what a kernel stores bypasses the processor's cache."""

from __future__ import annotations

from fuser.segmenter import Segment

_LEAST_PART = 8
"""Stores are at least one byte in so many of `stream_bytes`: smaller results are read soon."""


def goes_past_cache(segment: Segment, stream_bytes: int) -> bool:
    """Whether so many bytes are read and stored together that no cache holds them.

    A store into the cache reads its line first, unless the line is there from the call before, and
    leaves the result where its reader finds it. `benchmarks/past_cache.py` measures both.
    """
    stored = segment.bytes_written
    moved = segment.bytes_read + stored
    return moved >= stream_bytes and stored * _LEAST_PART >= stream_bytes
