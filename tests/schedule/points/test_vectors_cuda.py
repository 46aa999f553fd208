"""Loads and selections of all lanes of a CUDA thread."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule import CudaParameters, CudaRowParameters, LoopNest, schedule_cuda
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.statements import Let, Load
from tests.segmented import segment_for


def joined(left: int, right: int, dtype: torch.dtype = torch.float32) -> LoopNest:
    """Two tensors side by side, in rows of these lengths."""
    given = [torch.empty(16, size, dtype=dtype, device="meta") for size in (left, right)]
    with FusionDefinition() as fd:
        both = fd.ops.cat(list(map(fd.from_pytorch, given)), 1)
        fd.add_output(fd.ops.cast(fd.ops.neg(both), DataType.Float))
    (segment,) = segment_for(fd.fusion, given).segments
    alignments = dict.fromkeys((lies.base for lies in segment.memory.values()), 64)
    return schedule_cuda(segment, alignments, CudaParameters(), CudaRowParameters())


def thread_nodes(nest: LoopNest) -> tuple[Node, ...]:
    nodes = nest.body
    while isinstance(nodes[0], Loop) and nodes[0].binding is not Binding.LANES:
        nodes = nodes[0].body
    return nodes


def in_lanes(nest: LoopNest) -> tuple[Node, ...]:
    (lanes,) = (node for node in thread_nodes(nest) if isinstance(node, Loop))
    return lanes.body


def loads(nodes: tuple[Node, ...]) -> list[tuple[int, int]]:
    return [(node.lanes, node.piece) for node in nodes if isinstance(node, Load)]


def test_a_joint_between_vectors_keeps_them_whole():
    nest = joined(64, 32)
    assert loads(thread_nodes(nest)) == [(4, 0), (4, 0)]
    named = [node.name for node in thread_nodes(nest) if isinstance(node, Let)]
    assert named == ["T2_place", "T2_place_from_0"]


@pytest.mark.parametrize(("left", "right"), [(6, 2), (61, 3)])
def test_a_joint_within_a_vector_is_read_lane_by_lane(left: int, right: int):
    nest = joined(left, right)
    assert loads(thread_nodes(nest)) == []
    assert loads(in_lanes(nest)) == [(1, 0), (1, 0)]
    assert not [node for node in thread_nodes(nest) if isinstance(node, Let)]


def test_vectors_of_rows_that_are_not_aligned_are_read_in_pieces():
    rows = torch.empty_strided((16, 64), (66, 1), device="meta")
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.pad(fd.from_pytorch(rows), [4, 4]))
    (segment,) = segment_for(fd.fusion, [rows]).segments
    alignments = dict.fromkeys((lies.base for lies in segment.memory.values()), 64)
    nest = schedule_cuda(segment, alignments, CudaParameters(), CudaRowParameters())
    assert loads(thread_nodes(nest)) == [(4, 2)]
