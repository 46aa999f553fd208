"""Runs of memory: what several loads or stores of a point move, for neighbouring points at once."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CudaParameters, CudaRowParameters, schedule_cuda
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.points.interleave import together
from fuser.schedule.points.runs import Runs, run_lanes, runs_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.statements import LoadRun, StoreRun
from fuser.segmenter import Segment
from tests.definitions import Define
from tests.schedule.one_thread import OneThread, run_body
from tests.schedule.row_bodies import segment_of

GIVEN = CudaParameters()


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def pairs(fd: FusionDefinition, x: Handle) -> Handle:
    """The sum and the difference of neighbours, in their places."""
    rows, columns = x.shape()
    even, odd = (fd.ops.slice(x, [0, n], [rows, columns], [1, 2]) for n in (0, 1))
    both = [fd.ops.broadcast(y, [False, False, True]) for y in (even + odd, even - odd)]
    return fd.ops.cat(both, 2)


def every_third(fd: FusionDefinition, x: Handle) -> Handle:
    rows, columns = x.shape()
    return fd.ops.neg(fd.ops.slice(x, [0, 1], [rows, columns], [1, 3]))


def scaled(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
    return x * fd.ops.broadcast(scale, [True, False])


def buffers_of(segment: Segment, alignment: int = 16) -> Buffers:
    bases = (lies.base for lies in segment.memory.values())
    return Buffers(segment.memory, dict.fromkeys(bases, alignment))


def joined(define: Define, *inputs: torch.Tensor) -> tuple[Segment, Body, Runs]:
    """A body of a definition whose short axes are one point; it stores what the oracle says."""
    segment = segment_of(define, *inputs)
    body = together(arrange(trace(segment)), GIVEN.together)
    run_body(segment, body, inputs).check()
    return segment, body, runs_of(buffers_of(segment), body, GIVEN.together)


def lanes(segment: Segment, body: Body, runs: Runs, alignment: int = 16) -> int:
    return run_lanes(buffers_of(segment, alignment), body, runs, GIVEN)


def steps(runs: Runs) -> tuple[list[int], list[int]]:
    return [run.each for run in runs.loads], [run.each for run in runs.stores]


def test_what_pairs_load_and_store_are_runs() -> None:
    _, body, runs = joined(pairs, numbers(4, 64))
    assert [axis.extent for axis in body.axes] == [128]
    assert steps(runs) == ([2], [2])
    assert [load.at.constant for load in runs.loads[0].accesses] == [0, 1]


def test_steps_with_gaps_are_no_runs() -> None:
    _, _, runs = joined(every_third, numbers(4, 64))
    assert steps(runs) == ([], [])


def test_longer_steps_are_no_runs() -> None:
    *_, runs = joined(scaled, numbers(64, 5), numbers(5))
    assert steps(runs) == ([], [])


@pytest.mark.parametrize(
    ("dtype", "expected"), [(torch.float32, 4), (torch.bfloat16, 8), (torch.float64, 2)], ids=str
)
def test_lanes_have_whole_accesses_of_the_narrowest_type(dtype: torch.dtype, expected: int) -> None:
    def narrow(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cast(pairs(fd, x), x.dtype())

    assert lanes(*joined(narrow, numbers(4, 64, dtype=dtype))) == expected


def test_by_threes_lanes_are_whole_accesses_too() -> None:
    assert lanes(*joined(scaled, numbers(64, 3), numbers(3))) == 4


def test_memory_that_is_not_aligned_has_narrower_lanes() -> None:
    assert lanes(*joined(pairs, numbers(4, 64)), alignment=8) == 1
    assert lanes(*joined(pairs, numbers(3, 20))) == 2


def test_points_end_with_whole_lanes() -> None:
    assert lanes(*joined(pairs, numbers(3, 18))) == 1


def thread_nodes(define: Define, *inputs: torch.Tensor) -> tuple[Node, ...]:
    """What a thread does of a definition; one after the other, they store what the oracle says."""
    segment = segment_of(define, *inputs)
    alignments = dict.fromkeys((lies.base for lies in segment.memory.values()), 16)
    nest = schedule_cuda(segment, alignments, GIVEN, CudaRowParameters())
    nodes, axes = nest.body, list[Loop]()
    while isinstance(nodes[0], Loop) and nodes[0].binding is not Binding.LANES:
        axes.append(nodes[0])
        nodes = nodes[0].body
    thread = OneThread(segment, inputs)
    thread.run(nest.prologue)
    inside = nodes
    for loop in reversed(axes):
        inside = (Loop(loop.axis, Binding.SERIAL, inside, loop.step),)
    thread.run(inside)
    thread.check()
    return nodes


def test_a_thread_loads_and_stores_runs() -> None:
    nodes = thread_nodes(pairs, numbers(4, 64))
    (load,) = (node for node in nodes if isinstance(node, LoadRun))
    (store,) = (node for node in nodes if isinstance(node, StoreRun))
    assert (load.lanes, load.piece, len(load.names)) == (4, 4, 2)
    assert (store.lanes, store.piece, len(store.sources)) == (4, 4, 2)


def test_a_long_row_may_load_runs_and_store_vectors() -> None:
    def sums(fd: FusionDefinition, x: Handle) -> Handle:
        rows, columns = x.shape()
        even, odd = (fd.ops.slice(x, [0, n], [rows, columns], [1, 2]) for n in (0, 1))
        return even + odd

    nodes = list(every_node(thread_nodes(sums, numbers(4, 64))))
    assert [type(node) for node in nodes if isinstance(node, LoadRun | StoreRun)] == [LoadRun]
