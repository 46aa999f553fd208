"""Sweeps of a team: one thread that takes all of its points makes what the oracle does."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CudaRowParameters
from fuser.schedule.code.row_slots import conflict_free, team_partial
from fuser.schedule.indices.index import ZERO
from fuser.schedule.rows.cuda.sweeps import TeamSweeps, pair_at_once
from fuser.schedule.rows.cuda.team import RowTeam
from fuser.schedule.rows.cuda.teams import TeamChoice
from fuser.schedule.rows.cuda.work import RowWork
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.loop_tree import Loop, Node, Region, every_node, nested
from fuser.schedule.tree.row_statements import Finish, FinishPowers
from tests.definitions import Define
from tests.row_functions import layernorm, softmax, softmax_of_columns
from tests.schedule.one_thread import OneThread
from tests.schedule.row_bodies import column_sums, sums, work_of

BLOCKS = CudaRowParameters(warp_elements=8, lane_elements=0, slot_words=0, kept_words=0)
"""Gives all but the shortest rows to blocks."""
WARPS = CudaRowParameters(lane_elements=0)


def of_channels(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """A group norm, and the squares of its channels added over all samples."""
    variance, mean = fd.ops.var_mean(x, [1, 2], correction=0, keepdim=True)
    made = (x - mean) * fd.ops.rsqrt(variance + 1.0)
    return [made, fd.ops.sum(made * made, [0, 2])]


def of_last(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Powers less the largest number of a sample, and their sums for each place along the last
    dimension."""
    powers = fd.ops.exp(x - fd.ops.max(x, [1, 2], keepdim=True))
    return [powers, fd.ops.sum(powers, [0, 1])]


def swept(
    define: Define, x: torch.Tensor, given: CudaRowParameters
) -> tuple[RowWork, RowTeam, list[Node]]:
    """The rows of a definition, their team, and what one of its threads does of each."""
    traced = work_of(define, x)
    body = use_facts(traced.body)
    stages = [part for sweep in body.stages for part in conflict_free(sweep)]
    work = dataclasses.replace(traced, body=body, stages=stages, parameters=given)
    team, _ = TeamChoice(work).run()
    partials = {fold.name: team_partial(fold) for fold in work.body.folds_over_rows}
    return work, team, TeamSweeps(work, team, partials).run(work.stages)


def finished(work: RowWork) -> list[Node]:
    """The epilogue, by one thread."""
    nodes: list[Node] = []
    for sweep in work.body.epilogue:
        results = [Finish(team_partial(fold), fold.at or ZERO) for fold in sweep.folds]
        nodes += nested(sweep.axes, Binding.TEAM, (*results, *sweep.code, *sweep.stores))
    return nodes


@pytest.mark.parametrize(
    ("define", "x", "given", "team"),
    [
        (softmax, torch.randn(3, 96), WARPS, Team.WARP),
        (softmax, torch.randn(3, 8), CudaRowParameters(), Team.WARP),
        (softmax, torch.randn(3, 96), BLOCKS, Team.BLOCK),
        (layernorm, torch.randn(3, 96), BLOCKS, Team.BLOCK),
        (softmax_of_columns, torch.randn(40, 64), CudaRowParameters(), Team.COLUMN),
        (column_sums, torch.randn(3, 96), BLOCKS, Team.BLOCK),
        (of_channels, torch.randn(3, 2, 640), BLOCKS, Team.BLOCK),
        (of_channels, torch.randn(3, 96, 4), BLOCKS, Team.BLOCK),
        (of_last, torch.randn(3, 5, 96), BLOCKS, Team.BLOCK),
        (sums, torch.rand(3, 96), WARPS, Team.WARP),
        (lambda fd, x: fd.ops.exp(x), torch.randn(96), WARPS, Team.GRID),
    ],
)
def test_each_point_is_taken_once_in_every_sweep(
    define: Define, x: torch.Tensor, given: CudaRowParameters, team: Team
) -> None:
    work, chosen, nodes = swept(define, x, given)
    assert chosen.team is team
    rows = nested(work.body.rows, Binding.TEAMS, tuple(nodes))
    partials = tuple(map(team_partial, work.body.folds_over_rows))
    thread = OneThread(work.segment, (x,))
    thread.run((*work.body.prologue, Region(partials, rows, tuple(finished(work)))))
    thread.check(exact=False)


def shared_out(nodes: list[Node]) -> list[int]:
    """The extents of the axes that threads share out, loop by loop."""
    loops = (node for node in every_node(nodes) if isinstance(node, Loop))
    return [loop.axis.extent for loop in loops if loop.binding is Binding.TEAM]


def test_few_slots_of_many_points_are_taken_one_after_the_other() -> None:
    _, _, nodes = swept(of_channels, torch.randn(3, 2, 640), BLOCKS)
    assert shared_out(nodes)[-1] == 640
    _, _, nodes = swept(of_channels, torch.randn(3, 96, 4), BLOCKS)
    assert shared_out(nodes)[-1] == 96


def test_a_block_finds_the_largest_number_and_sums_powers_before_it_waits() -> None:
    x = torch.randn(3, 96)
    work, team, nodes = swept(softmax, x, BLOCKS)
    assert pair_at_once(work.stages, team) is not None
    (region,) = [node for node in nodes if isinstance(node, Region)]
    assert [type(node) for node in region.epilogue] == [FinishPowers]
    work, team, nodes = swept(softmax, x, WARPS)
    assert pair_at_once(work.stages, team) is None
    waits = [node for node in every_node(nodes) if isinstance(node, Finish)]
    assert len(waits) == 2
