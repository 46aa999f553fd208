"""Selections that the bounds of the axes decide."""

from __future__ import annotations

import dataclasses

import torch

from fuser import FusionDefinition
from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import arrange, replace_axes
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.resolve import comparisons, resolve
from fuser.schedule.indices.index import Axis, Index, of_axis
from fuser.schedule.tree.expressions import Call, Literal, Ref, refs
from tests.segmented import segment_for


def padded() -> Body:
    """[4] padded by 2 on both sides, doubled."""
    x = torch.randn(4)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.pad(fd.ops.exp(fd.from_pytorch(x)), [2, 2], 0.5) * 2.0)
    (segment,) = segment_for(fd.fusion, [x]).segments
    return arrange(trace(segment))


def within(body: Body, start: int, end: int) -> Body:
    (axis,) = body.axes
    part = Axis((9,), end - start)
    moved = replace_axes(body, {axis: of_axis(part) + Index(start)})
    return resolve(dataclasses.replace(moved, axes=(part,)))


def test_what_the_axes_do_not_decide_stays():
    body = padded()
    assert resolve(body) == body


def test_inside_of_an_operand_no_fill_is_left():
    inside = within(padded(), 2, 6)
    ops = [let.expression.op for let in inside.lets if isinstance(let.expression, Call)]
    assert ops == ["exp", "mul"]
    (load,) = inside.loads
    assert load.at == of_axis(Axis((9,), 4))


def test_outside_nothing_is_read_or_computed_of_it():
    outside = within(padded(), 6, 8)
    assert outside.loads == ()
    (let,) = outside.lets
    assert let.expression == Call(
        "mul", (Literal(0.5, DataType.Float), Literal(2.0, DataType.Float)), DataType.Float
    )


def test_comparisons_say_what_they_compare():
    found = comparisons(padded().lets)
    assert [(c.threshold, c.below) for c in found.values()] == [(2, False), (6, True)]


def test_names_are_found_in_every_operand():
    one, other = Ref("T0", DataType.Float), Ref("T1", DataType.Float)
    call = Call("add", (Call("neg", (one,), DataType.Float), other), DataType.Float)
    assert list(refs(call)) == ["T0", "T1"]
