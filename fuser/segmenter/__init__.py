"""Fusion -> segments: what becomes one kernel, what is only an alias, what torch runs, and why."""

from fuser.segmenter.draw import render
from fuser.segmenter.draw_svg import STYLE, Remark, drawing_of, is_legible
from fuser.segmenter.machine import GPU, PROCESSOR, Machine
from fuser.segmenter.picture import Look, Node, colour_of, picture_of
from fuser.segmenter.plan import (
    AliasStep,
    ExternStep,
    Segment,
    SegmentedFusion,
    Step,
    Update,
)
from fuser.segmenter.segment import segment
from fuser.segmenter.traffic import (
    byte_count,
    bytes_moved,
    bytes_written,
    elements_of,
    elements_read,
    elements_written,
)
from fuser.segmenter.updates import place_updates

__all__ = [
    "GPU",
    "PROCESSOR",
    "STYLE",
    "AliasStep",
    "ExternStep",
    "Look",
    "Machine",
    "Node",
    "Remark",
    "Segment",
    "SegmentedFusion",
    "Step",
    "Update",
    "byte_count",
    "bytes_moved",
    "bytes_written",
    "colour_of",
    "drawing_of",
    "elements_of",
    "elements_read",
    "elements_written",
    "is_legible",
    "picture_of",
    "place_updates",
    "render",
    "segment",
]
