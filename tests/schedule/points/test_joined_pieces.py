"""Pieces that read the same are one loop, with the same results; others stay loops of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.pieces import pieces
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.points.joined_pieces import joined
from tests.definitions import only_kernel
from tests.schedule.one_thread import run_bodies
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
X, Y = torch.randn(8, 64), torch.randn(8, 64)


def loops(define: Define, *inputs: torch.Tensor, most: int = 64) -> list[Body]:
    """What becomes of the pieces of a definition; they store what the oracle says."""
    segment = segment_of(define, *inputs)
    parts = joined(pieces(arrange(trace(segment)), 24), CpuParameters(joined=most))
    run_bodies(segment, parts, inputs).check()
    return parts


def shape(part: Body) -> tuple[int, int, int]:
    """Loads, values and stores."""
    return len(part.loads), len(part.lets), len(part.stores)


def exponentials(fd: FusionDefinition, x: Handle) -> Handle:
    power = fd.ops.exp(x)
    return fd.ops.cat([power, fd.ops.neg(power), power * x], 0)


def steps(fd: FusionDefinition, x: Handle) -> Handle:
    """Each from the last, and a row of what is given."""
    rows = [fd.ops.slice(x, [row, 0], [row + 1, 64]) for row in range(4)]
    found = [rows[0]]
    for row in rows[1:]:
        found.append(fd.ops.sin(found[-1]) + row)
    return fd.ops.cat(found, 0)


def apart(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.cat([fd.ops.exp(x), fd.ops.neg(y)], 0)


def longer(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cat([fd.ops.exp(x), fd.ops.slice(x, [0, 0], [4, 64])], 0)


def beside_another(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.cat([fd.ops.exp(x), y, fd.ops.neg(x)], 0)


def one_number(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """All that is the same is a number for all."""
    first = fd.ops.slice(x, [0, 0], [1, 1])
    return fd.ops.cat([y * first, fd.ops.neg(x) * first], 0)


def test_what_is_made_of_the_same_is_made_once() -> None:
    # for i < 512: out[i]; for j < 512: out[512 + j]; ...   ->   for i < 512: three stores
    (part,) = loops(exponentials, X)
    assert [axis.extent for axis in part.axes] == [512]
    assert shape(part) == (1, 3, 3)


def test_each_step_is_made_once() -> None:
    (part,) = loops(steps, X)
    assert shape(part) == (4, 6, 4)


@pytest.mark.parametrize(
    ("define", "inputs"), [(apart, (X, Y)), (longer, (X,)), (one_number, (X, Y))]
)
def test_others_are_loops_of_their_own(define: Define, inputs: tuple[torch.Tensor, ...]) -> None:
    assert [len(part.stores) for part in loops(define, *inputs)] == [1, 1]


def test_what_lies_between_is_a_loop_of_its_own() -> None:
    assert [len(part.stores) for part in loops(beside_another, X, Y)] == [2, 1]


def test_no_more_are_joined_than_asked_for() -> None:
    assert [len(part.stores) for part in loops(exponentials, X, most=2)] == [2, 1]


@pytest.mark.parametrize("define", [exponentials, steps, longer])
def test_kernels_of_them_have_the_oracles_numbers(define: Define) -> None:
    x = torch.randn(8, 64)
    with FusionDefinition() as fd:
        fd.add_output(define(fd, fd.from_pytorch(x)))
    only_kernel(fd, [x])
    fd.validate([x])
