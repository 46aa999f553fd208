"""Scans of a row on a processor: chunk by chunk, point by point, from either end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.rows.cpu.scans import scan_loop, scanned_in_turn, shared_out
from fuser.schedule.rows.scans import carry_of
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node, Share
from fuser.schedule.tree.row_statements import ScanLanes
from fuser.schedule.tree.statements import Load, Prefetch, Store
from fuser.segmenter import Segment
from tests.schedule.one_thread import OneThread
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
X = torch.rand(3, 10) + 0.5
CHUNK = 4
"""The last chunk of a row is shorter."""


def sums(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(fd.ops.exp(x), 1)


def before(fd: FusionDefinition, x: Handle) -> Handle:
    """A sum of what comes before each element."""
    return fd.ops.cumsum(x, 1) - x


def from_the_end(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(x, 1, reverse=True)


def products_of_sums(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumprod(fd.ops.cumsum(x, 1) * 0.1, 1)


CASES = [sums, before, from_the_end, products_of_sums]


def traced(define: Define) -> tuple[Segment, RowBody]:
    segment = segment_of(define, X)
    return segment, trace_rows(segment)


def swept(define: Define) -> Sweep:
    _, body = traced(define)
    (sweep,) = body.stages
    return sweep


def check(define: Define, mapped: Callable[[Sweep], list[Node]]) -> None:
    """What a mapping of the sweep stores is what the oracle says."""
    segment, body = traced(define)
    thread = OneThread(segment, (X,))
    thread.run(body.prologue)
    thread.at_points(body.rows, [node for sweep in body.stages for node in mapped(sweep)])
    thread.check(exact=False)


@pytest.mark.parametrize("define", CASES)
def test_chunks_make_what_a_scan_is(define: Define) -> None:
    check(define, lambda s: [*map(carry_of, s.scans), scan_loop(s, (), CHUNK)])


@pytest.mark.parametrize("define", CASES)
def test_points_one_after_the_other_make_what_a_scan_is(define: Define) -> None:
    check(define, lambda sweep: [scanned_in_turn(sweep, ())])


def test_a_scan_from_the_end_has_its_lanes_in_the_order_of_memory() -> None:
    assert not scan_loop(swept(sums), (), CHUNK).turned
    loop = scan_loop(swept(from_the_end), (), CHUNK)
    assert (loop.binding, loop.step, loop.turned) == (Binding.SCAN, CHUNK, True)
    (store,) = [node for node in loop.body if isinstance(node, Store)]
    assert store.lanes == CHUNK


def test_a_chunk_is_computed_scanned_and_stored_at_once() -> None:
    loop = scan_loop(swept(sums), (), CHUNK)
    kinds = [type(node) for node in loop.body]
    assert kinds[-3:] == [Loop, ScanLanes, Store]


def test_what_is_asked_for_is_asked_for_by_chunks() -> None:
    sweep = swept(sums)
    (load,) = [node for node in sweep.code if isinstance(node, Load)]
    ahead = Prefetch(load.name, load.tensor, load.at, 1)
    asking = Sweep(sweep.axes, sweep.code, sweep.folds, sweep.stores, (ahead,))
    first = scan_loop(asking, (), CHUNK).body[0]
    assert isinstance(first, Prefetch)
    assert first.lanes == CHUNK


def test_a_row_that_is_shared_out_has_totals_before_its_scan() -> None:
    sweep = swept(before)
    loop = scan_loop(sweep, (), CHUNK)
    shared = shared_out(sweep, (), loop, most_bytes=32, unit=2)
    carries = tuple(map(carry_of, sweep.scans))
    assert shared == Share(sweep.axes[-1], carries, (), (loop,), step=8, unit=2)
