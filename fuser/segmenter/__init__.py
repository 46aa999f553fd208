"""Fusion -> segments: what becomes one kernel, what is only an alias, what torch runs, and why."""

from fuser.segmenter.draw import draw, render
from fuser.segmenter.draw_layout import Layout, Link, arrange
from fuser.segmenter.picture import Edge, Look, Node, Picture, colour_of, picture_of
from fuser.segmenter.plan import (
    AliasStep,
    Boundary,
    ExternStep,
    Segment,
    SegmentedFusion,
    Step,
    Update,
)
from fuser.segmenter.profit import GPU, PROCESSOR, Machine
from fuser.segmenter.segment import segment
from fuser.segmenter.traffic import (
    byte_count,
    bytes_read,
    elements_of,
    elements_read,
    elements_read_by_torch,
    elements_written,
)
from fuser.segmenter.updates import place_updates

__all__ = [
    "GPU",
    "PROCESSOR",
    "AliasStep",
    "Boundary",
    "Edge",
    "ExternStep",
    "Layout",
    "Link",
    "Look",
    "Machine",
    "Node",
    "Picture",
    "Segment",
    "SegmentedFusion",
    "Step",
    "Update",
    "arrange",
    "byte_count",
    "bytes_read",
    "colour_of",
    "draw",
    "elements_of",
    "elements_read",
    "elements_read_by_torch",
    "elements_written",
    "picture_of",
    "place_updates",
    "render",
    "segment",
]
