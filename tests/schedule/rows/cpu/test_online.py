"""Which sweeps of long rows are done together: a maximum, and sums of exponentials less it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, schedule_rows_cpu
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node, Region, every_node
from fuser.schedule.tree.row_statements import Combine, Raise, RowArray
from fuser.schedule.tree.statements import Prefetch
from tests.definitions import Define, Made
from tests.row_functions import log_softmax, powers, softmax
from tests.schedule.row_bodies import loss, segment_of

LONG = CpuRowParameters().online_bytes // 4
"""Elements of the shortest row of float32 that is swept so."""


def loops_of(define: Define, *inputs: torch.Tensor, **changed: int) -> tuple[Node, ...]:
    """The loops inside of that over the rows."""
    nest = schedule_rows_cpu(segment_of(define, *inputs), CpuRowParameters(**changed))
    (region,) = nest.body
    assert isinstance(region, Region)
    (rows,) = (node for node in region.body if isinstance(node, Loop))
    return rows.body


def is_online(define: Define, *inputs: torch.Tensor, **changed: int) -> bool:
    regions = (n for n in loops_of(define, *inputs, **changed) if isinstance(n, Region))
    blocks = (n for region in regions for n in region.body if isinstance(n, Loop))
    return any(isinstance(node, Raise) for loop in blocks for node in loop.body)


def empty(columns: int = LONG, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(20, columns, device="meta", dtype=dtype)


def log_of_sum(fd: FusionDefinition, x: Handle) -> list[Handle]:
    largest, _, total = powers(fd, x)
    return [largest + fd.ops.log(total), largest]


def widened(fd: FusionDefinition, x: Handle) -> Handle:
    return log_softmax(fd, fd.ops.cast(x, DataType.Float))


@pytest.mark.parametrize("define", [log_softmax, log_of_sum])
def test_sums_of_powers_are(define: Define):
    assert is_online(define, empty())


def test_losses_are():
    assert is_online(loss, empty(), torch.zeros(20, dtype=torch.int64))


def test_16_bit_rows_are_from_as_many_bytes():
    assert is_online(widened, empty(2 * LONG, torch.bfloat16))
    assert not is_online(widened, empty(2 * LONG - 2, torch.bfloat16))


def test_rows_that_stay_in_the_cache_are_not():
    assert not is_online(log_softmax, empty(LONG - 1))


def test_powers_that_are_kept_are_not_summed_so():
    assert not is_online(softmax, empty())
    assert is_online(softmax, empty(), kept_bytes=0)


def of_erf(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, fd.ops.erf(x))


def in_bfloat16(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, fd.ops.cast(x, DataType.Float))


@pytest.mark.parametrize(
    ("define", "dtype", "point"),
    [(softmax, torch.float32, 8), (in_bfloat16, torch.bfloat16, 6)],
)
def test_powers_that_leave_no_room_in_the_cache_are_made_again(
    define: Define, dtype: torch.dtype, point: int
):
    longest = CpuRowParameters().cached_bytes // point
    room = CpuRowParameters().cached_bytes
    assert is_online(define, empty(longest + 1, dtype), kept_bytes=room)
    assert not is_online(define, empty(longest, dtype), kept_bytes=room)


def test_they_are_kept_with_what_both_sweeps_need_besides():
    room = CpuRowParameters().cached_bytes
    kept = loops_of(of_erf, empty(room // 4), kept_bytes=2 * room)
    assert [node.name for node in kept if isinstance(node, RowArray)] == ["T1", "T4"]


def test_extremes_of_rows_that_are_not_are_ranks():
    given = {"kept_bytes": CpuRowParameters().cached_bytes}
    nodes = every_node(loops_of(in_bfloat16, empty(2 * LONG, torch.bfloat16), **given))
    assert [node.name for node in nodes if isinstance(node, Combine)] == ["T2_rank", "T5"]


def powers_stored(fd: FusionDefinition, x: Handle) -> Made:
    _, made, total = powers(fd, x)
    return [made, total]


def squares(fd: FusionDefinition, x: Handle) -> Made:
    away = x - fd.ops.max(x, [1], keepdim=True)
    return fd.ops.sum(away * away, [1])


def of_a_minimum(fd: FusionDefinition, x: Handle) -> Made:
    return fd.ops.sum(fd.ops.exp(fd.ops.min(x, [1], keepdim=True) - x), [1])


def of_something_else(fd: FusionDefinition, x: Handle) -> Made:
    return fd.ops.sum(fd.ops.exp(x * 0.5 - fd.ops.max(x, [1], keepdim=True)), [1])


def also_compared(fd: FusionDefinition, x: Handle) -> Made:
    largest, _, total = powers(fd, x)
    return [fd.ops.squeeze(total, [1]), fd.ops.sum(fd.ops.eq(x, largest), [1])]


def of_squares_too(fd: FusionDefinition, x: Handle) -> Made:
    _, made, total = powers(fd, x)
    return [fd.ops.squeeze(total, [1]), fd.ops.sum(made * made, [1])]


def found_with_another(fd: FusionDefinition, x: Handle) -> Made:
    _, _, total = powers(fd, x)
    return [fd.ops.squeeze(total, [1]), fd.ops.min(x, [1])]


@pytest.mark.parametrize(
    "define",
    [
        *(powers_stored, squares, of_a_minimum, of_something_else),
        *(also_compared, of_squares_too, found_with_another),
    ],
)
def test_what_needs_the_maximum_otherwise_is_not(define: Define):
    assert not is_online(define, empty(), kept_bytes=0)


def test_doubles_are_not():
    assert not is_online(log_softmax, empty(dtype=torch.float64))


def test_a_block_asks_for_the_next_one():
    def asked(nodes: Sequence[Node]) -> list[int]:
        found = [n.at.constant for n in nodes if isinstance(n, Prefetch)]
        inside = (n.body for n in nodes if isinstance(n, Loop | Region))
        return found + [at for body in inside for at in asked(body)]

    assert asked(loops_of(log_softmax, empty(), online_block=4096)) == [4096]


def test_blocks_hold_blocks_that_sums_are_exact_in():
    region = next(n for n in loops_of(log_softmax, empty()) if isinstance(n, Region))
    (blocks,) = region.body
    assert isinstance(blocks, Loop)
    inside = [n for n in blocks.body if isinstance(n, Loop)]
    given = CpuRowParameters()
    assert blocks.step == given.online_block
    assert [(n.binding, n.step) for n in inside] == [
        (Binding.ROUNDS, given.lanes),
        (Binding.BLOCKS, given.block),
    ]
