"""Statements as expressions: what is written for them, and the same elements as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.body import Body, trace
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
    convert,
    join,
)
from fuser.segmenter import Segment
from tests.schedule.one_thread import run_body
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
X, Y = torch.arange(6.0).view(2, 3) - 2, torch.arange(9.0).view(3, 3)


def traced(define: Define, *inputs: torch.Tensor | float) -> tuple[Segment, Body]:
    """The body of a definition; it stores what the oracle says."""
    segment = segment_of(define, *inputs)
    body = trace(segment)
    run_body(segment, body, inputs).check()
    return segment, body


def written(expression: Expression) -> str:
    match expression:
        case Ref(name):
            return name
        case Literal(value) | SizeValue(value):
            return str(value)
        case IndexValue():
            return "index"
        case Convert():
            return f"{expression.dtype.name}({written(expression.of)})"
        case Call():
            return f"{expression.op}({', '.join(map(written, expression.args))})"


def lets(define: Define, *inputs: torch.Tensor | float) -> list[str]:
    """What is computed at a point."""
    _, body = traced(define, *inputs)
    return [f"{let.name} = {written(let.expression)}" for let in body.lets]


def test_operands_are_converted_to_what_the_row_computes_in() -> None:
    assert lets(lambda fd, x: fd.ops.add(x, 2), X.half()) == ["T2 = add(Float(T0), 2.0)"]


def test_copies_and_metadata_are_the_element_itself() -> None:
    assert lets(lambda fd, x: fd.ops.set(fd.ops.permute(x, [1, 0])), X) == []


@pytest.mark.parametrize(
    ("start", "step", "made"),
    [(0, 1, "T2_index"), (3, 1, "add(3, T2_index)"), (3, 2, "add(3, mul(T2_index, 2))")],
)
def test_a_range_is_its_index_times_the_step(start: int, step: int, made: str) -> None:
    def define(fd: FusionDefinition) -> Handle:
        return fd.ops.iota(5, start, step, DataType.Int) + 10

    index, counted, _ = (line.partition(" = ")[2] for line in lets(define))
    assert (index, counted) == ("index", made)


def test_a_range_of_floats_is_counted_in_double() -> None:
    _, body = traced(lambda fd: fd.ops.neg(fd.ops.iota(5, 0.1, 0.3, DataType.Float)))
    index, made, _ = body.lets
    assert index.dtype is DataType.Double
    assert written(made.expression).startswith("Float(add(0.1, mul(")


def test_a_pad_compares_only_where_an_element_may_be_outside() -> None:
    # [2, 3] between 1 before and 0 after: of the columns, only those before can be outside
    assert lets(lambda fd, x: fd.ops.pad(x, [1, 0], 0.5), X) == [
        "T2_place_1 = index",
        "T2_place_1_from_0 = ge(T2_place_1, 1)",
        "T2 = where(T2_place_1_from_0, T0, 0.5)",
    ]
    assert lets(lambda fd, x: fd.ops.pad(x, [0, 1], 0.5), X)[1:-1] == [
        "T2_place_1_below_0 = lt(T2_place_1, 3)"
    ]
    # Two places, four comparisons, and the choice.
    assert len(lets(lambda fd, x: fd.ops.pad(x, [1, 2, 3, 4]), X)) == 2 + 4 + 1
    assert lets(lambda fd, x: fd.ops.pad(x, [-1, 0]), X) == []


def test_a_concatenation_asks_for_each_operand_but_the_first_whether_it_is_reached() -> None:
    assert lets(lambda fd, x, y: fd.ops.cat([x, y, x], 0), X, Y) == [
        "T2_place = index",
        "T2_place_from_0 = ge(T2_place, 2)",
        "T2_place_from_1 = ge(T2_place, 5)",
        "T2 = where(T2_place_from_1, T0_1, where(T2_place_from_0, T1, T0))",
    ]


def test_scalars_are_computed_once() -> None:
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        return x * fd.ops.exp(scale)

    _, body = traced(define, X, 0.5)
    assert [written(let.expression) for let in body.prologue] == ["exp(S1)"]


def test_a_literal_is_converted_as_torch_does() -> None:
    number = convert(Literal(0.1, DataType.Double), DataType.Half)
    assert number == Literal(torch.tensor(0.1).half().item(), DataType.Half)
    assert convert(Literal(3.7, DataType.Double), DataType.Int) == Literal(3, DataType.Int)
    size = SizeValue(3, DataType.Int)
    assert convert(size, DataType.Float) == Convert(size, DataType.Float)


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ("logical_or", "where(y, True, x)"),
        ("maximum", "where(y, True, x)"),
        ("logical_and", "where(y, x, False)"),
        ("minimum", "where(y, x, False)"),
    ],
)
def test_truth_values_are_joined_by_a_choice(operation: str, text: str) -> None:
    x, y = Ref("x", DataType.Bool), Ref("y", DataType.Bool)
    assert written(join(operation, x, y)) == text
    held = Ref("x", DataType.Double)
    joined = join("add", held, Ref("y", DataType.Float))
    assert written(joined) == "add(x, Double(y))"
