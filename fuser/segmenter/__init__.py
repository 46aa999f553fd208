"""Fusion -> segments: what becomes one kernel, what is only an alias, what torch runs, and why."""

from fuser.segmenter.draw import draw
from fuser.segmenter.plan import AliasStep, ExternStep, Segment, SegmentedFusion, Step
from fuser.segmenter.segment import segment

__all__ = ["AliasStep", "ExternStep", "Segment", "SegmentedFusion", "Step", "draw", "segment"]
