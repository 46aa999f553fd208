"""The grid of a kernel of rows: blocks for its teams, and several for a row."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.rows.cuda.launch import launched, parts_of_row, scanned_parts
from fuser.schedule.rows.cuda.room import Demand, Room
from fuser.schedule.tree.row_statements import Place
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import column_sums, sums, work_of

ROWS = torch.empty(8192, 1024, device="meta")
FEW = torch.empty(4, 1 << 18, device="meta")
LONG = torch.empty(4, 1 << 20, device="meta")
BLOCK = (256, 1, 1)


def largest(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.max(x, [1])


def test_each_row_has_a_block_of_its_own() -> None:
    launch = launched(work_of(softmax, ROWS), 8192, 1, BLOCK)
    assert (launch.grid, launch.block) == ((8192, 1, 1), BLOCK)
    assert launch.elastic is None


def test_blocks_that_keep_folds_over_the_rows_are_as_many_as_run_at_once() -> None:
    work = work_of(column_sums, ROWS)
    launch = launched(work, 8192, 1, BLOCK)
    given = work.parameters
    assert launch.grid == (given.resident // 256, 1, 1)
    assert launch.elastic == 0


def test_they_are_fewer_where_their_parts_would_fill_the_workspace() -> None:
    work = work_of(column_sums, ROWS)
    # Of 1024 sums, which are kept as float32 or wider.
    of_a_block = sum(partial.slots * partial.kept.itemsize for partial in work.partials)
    given = dataclasses.replace(work.parameters, workspace_bytes=5 * of_a_block)
    launch = launched(dataclasses.replace(work, parameters=given), 8192, 1, BLOCK)
    assert launch.grid == (5, 1, 1)


def test_few_rows_that_are_swept_once_are_split() -> None:
    work = work_of(largest, FEW)
    parts = parts_of_row(work, 4, 1, 256)
    assert parts > 1
    assert parts * 4 <= 2 * work.parameters.resident // 256
    assert launched(work, 4, parts, BLOCK).elastic == 1


@pytest.mark.parametrize("define", [softmax, sums])
def test_rows_that_are_swept_again_or_scanned_are_not(define: Define) -> None:
    assert parts_of_row(work_of(define, FEW), 4, 1, 256) == 1


def test_many_rows_and_short_parts_are_not_worth_splitting() -> None:
    assert parts_of_row(work_of(largest, ROWS), 8192, 1, 256) == 1
    short = torch.empty(4, 512, device="meta")
    assert parts_of_row(work_of(largest, short), 4, 1, 256) == 1


def test_few_rows_are_scanned_in_parts() -> None:
    work = work_of(sums, LONG)
    assert scanned_parts(work, 256) == work.parameters.resident // (4 * 256)
    assert scanned_parts(work_of(sums, ROWS), 256) == 1


def test_a_scan_with_a_fold_beside_it_is_not() -> None:
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.cumsum(x, 1), fd.ops.max(x, [1])]

    few = torch.empty(8, 1 << 13, device="meta")
    assert scanned_parts(work_of(sums, few), 256) > 1
    assert scanned_parts(work_of(define, few), 256) == 1


def test_what_is_kept_in_shared_memory_is_room_for_every_thread() -> None:
    room, demand = Room(256, 1, Place.SHARED, 3), Demand(700, 4, (4, 2))
    launch = launched(work_of(softmax, ROWS), 8192, 1, BLOCK, room, demand)
    assert launch.shared_bytes == 3 * 256 * 4 * (4 + 2)


def test_blocks_of_a_cluster_are_no_split_row() -> None:
    room = Room(256, 4, Place.REGISTERS, 2)
    launch = launched(work_of(softmax, FEW), 4, 4, BLOCK, room)
    assert (launch.cluster, launch.grid, launch.elastic) == (4, (4, 4, 1), None)
