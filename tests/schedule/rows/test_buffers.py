"""Costly values of a row that are kept for its next sweep."""

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.buffers import keep_in_row
from tests.definitions import Define
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import body_of, drawn

ROOM = 1 << 17


def kept(define: Define, *shape: int, room: int = ROOM) -> list[str]:
    body = arrange_rows(body_of(define, torch.empty(shape, device="meta")))
    return drawn(keep_in_row(body, room))


def test_an_exponential_is_computed_once():
    # and what only led to it is not loaded again
    assert kept(softmax, 8, 600) == [
        "rows 8",
        "sweep 600: load T0; T1 = fold maximum",
        "sweep 600: load T0, sub, exp, keep T3; T4 = fold add",
        "sweep 600: kept T3, truediv; store T5",
    ]


def test_what_alone_follows_from_a_costly_value_is_kept_in_its_place():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        chances = fd.ops.exp(x) / (x + 3.0)
        return chances * x - fd.ops.sum(chances, [1], keepdim=True)

    assert kept(define, 8, 600)[1:] == [
        "sweep 600: load T0, exp, add, truediv, keep T4; T6 = fold add",
        "sweep 600: load T0, kept T4, mul, sub; store T7",
    ]


def test_what_only_leads_to_a_value_that_is_kept_is_not():
    """Of another type than it, which may need less room: it is not put in its place."""

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        powers = fd.ops.exp(fd.ops.cast(fd.ops.exp(x), DataType.Double))
        return powers / fd.ops.sum(powers, [1], keepdim=True)

    assert kept(define, 8, 600)[1:] == [
        "sweep 600: load T0, exp, cast, exp, keep T3; T4 = fold add",
        "sweep 600: kept T3, truediv; store T5",
    ]


def test_what_something_else_needs_is_still_loaded():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, x) * x

    assert kept(define, 8, 600)[-1] == "sweep 600: load T0, kept T3, truediv, mul; store T6"


def test_cheap_values_are_computed_again():
    assert kept(layernorm, 8, 600) == drawn(arrange_rows(body_of(layernorm, torch.empty(8, 600))))


def test_values_are_kept_while_there_is_room():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        first, second = fd.ops.exp(x), fd.ops.erf(x)
        both = fd.ops.sum(first * second, [1], keepdim=True)
        return first * both + second

    def count(room: int) -> int:
        return sum(line.count("keep") for line in kept(define, 8, 600, room=room))

    assert [count(room) for room in (2399, 2400, 4799, 4800, ROOM)] == [0, 1, 1, 2, 2]


def test_three_sweeps_share_one_value():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        y = fd.ops.exp(x)
        away = y - fd.ops.sum(y, [1], keepdim=True)
        return y * fd.ops.sum(away * away, [1], keepdim=True)

    lines = kept(define, 8, 600, room=2400)
    assert [line.count("keep ") for line in lines] == [0, 1, 0, 0]
    assert [line.count("kept T1") for line in lines] == [0, 0, 1, 1]


def test_sweeps_over_other_axes_keep_nothing():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.exp(x) * fd.ops.sum(fd.ops.exp(fd.ops.slice(x, [0, 0], [8, 300])))

    assert not any("keep" in line for line in kept(define, 8, 600))


def test_a_row_of_several_axes_keeps_a_value_at_each_of_its_points():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        powers = fd.ops.exp(fd.ops.permute(x, [0, 2, 1]) + fd.ops.iota(20, 0.5))
        return powers * (powers - fd.ops.sum(powers, [1, 2], keepdim=True))

    lines = kept(define, 8, 20, 30)
    assert [line.count("keep") for line in lines if "20 x 30" in line] == [1, 0]
    assert lines[-1].startswith("sweep 20 x 30: kept")
    room = 20 * 30 * DataType.Float.itemsize
    assert kept(define, 8, 20, 30, room=room) == lines != kept(define, 8, 20, 30, room=room - 1)
