"""Fusion -> segments: what becomes one kernel, what is only an alias, what torch runs, and why."""

from fuser.segmenter.draw import draw, render
from fuser.segmenter.plan import (
    AliasStep,
    Boundary,
    ExternStep,
    Segment,
    SegmentedFusion,
    Step,
    Update,
)
from fuser.segmenter.segment import segment
from fuser.segmenter.traffic import byte_count
from fuser.segmenter.updates import place_updates

__all__ = [
    "AliasStep",
    "Boundary",
    "ExternStep",
    "Segment",
    "SegmentedFusion",
    "Step",
    "Update",
    "byte_count",
    "draw",
    "place_updates",
    "render",
    "segment",
]
