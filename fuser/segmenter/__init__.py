"""Fusion -> segments: what becomes one kernel, what is only an alias, what torch runs, and why."""

from fuser.segmenter.draw import draw, render
from fuser.segmenter.plan import AliasStep, Boundary, ExternStep, Segment, SegmentedFusion, Step
from fuser.segmenter.segment import segment
from fuser.segmenter.traffic import byte_count

__all__ = [
    "AliasStep",
    "Boundary",
    "ExternStep",
    "Segment",
    "SegmentedFusion",
    "Step",
    "byte_count",
    "draw",
    "render",
    "segment",
]
