"""Coordinates against torch: an operation on a tensor of element numbers says who reads what."""

import itertools
import math

import pytest
import torch

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import evaluate
from fuser.ir.nodes import (
    Broadcast,
    Expand,
    Flip,
    Operation,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
)
from fuser.ir.types import TensorType
from fuser.schedule.indices.coordinates import pull, push
from fuser.schedule.indices.index import Axis, Index, of_axis
from fuser.schedule.indices.rewrites import substitute


def statement_of(shape: tuple[int, ...], make: object) -> tuple[Statement, Value]:
    builder = FusionBuilder()
    operand = builder.input(TensorType(DataType.Int, shape))
    builder.add(make(operand))
    return builder.fusion.statements[0], operand


def at_point(coordinates: tuple[Index, ...], axes: list[Axis], point: tuple[int, ...]) -> tuple:
    """The coordinates where the axes have these values."""
    numbers = {axis: Index(value) for axis, value in zip(axes, point, strict=True)}
    replaced = [substitute(index, numbers) for index in coordinates]
    assert all(not index.terms for index in replaced)
    return tuple(index.constant for index in replaced)


def axes_of(shape: tuple[int, ...]) -> list[Axis]:
    return [Axis((dim,), size) for dim, size in enumerate(shape)]


OPERATIONS = [
    ((4, 6), lambda v: View(v, (8, 3))),
    ((4, 6), lambda v: View(v, (2, 2, 6))),
    ((4, 6), lambda v: View(v, (24,))),
    ((1, 24, 1), lambda v: View(v, (1, 6, 1, 4))),
    ((2, 3, 4), lambda v: Permute(v, (2, 0, 1))),
    ((3, 4), lambda v: Broadcast(v, (True, False, True, False))),
    ((3, 1, 4), lambda v: Expand(v, (3, 5, 4))),
    ((3, 1, 4), lambda v: Squeeze(v, (1,))),
    ((6, 9), lambda v: Slice(v, (1, 2), (6, 9), (2, 3))),
    ((6, 9), lambda v: Slice(v, (0, 0), (6, 9), (1, 1))),
    ((6, 9), lambda v: Flip(v, (1,))),
    ((2, 3, 4), lambda v: Flip(v, (2, 0))),
    ((6, 9), lambda v: StrideOrder(v, (0, 1))),
    ((6, 9), lambda v: Pointwise("neg", (v,))),
]


@pytest.mark.parametrize(("shape", "make"), OPERATIONS)
def test_pull_says_which_element_is_read(shape: tuple[int, ...], make: object):
    statement, operand = statement_of(shape, make)
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    op: Operation = statement.op
    moved = op if not isinstance(op, Pointwise) else Pointwise("set", op.args)
    (expected,) = evaluate(moved, {operand: numbers}, torch.device("cpu"))
    axes = axes_of(statement.out.shape)

    ((value, coordinates),) = pull(statement, tuple(map(of_axis, axes)))

    assert value == operand
    for point in itertools.product(*map(range, statement.out.shape)):
        assert numbers[at_point(coordinates, axes, point)] == expected[point]


@pytest.mark.parametrize(("shape", "make"), OPERATIONS)
def test_push_undoes_pull_where_elements_correspond(shape: tuple[int, ...], make: object):
    statement, operand = statement_of(shape, make)
    axes = axes_of(shape)
    coordinates = push(statement, operand, tuple(map(of_axis, axes)))
    if math.prod(statement.out.shape) != math.prod(shape):
        assert coordinates is None
        return
    assert coordinates is not None
    ((_, back),) = pull(statement, coordinates)
    for point in itertools.product(*map(range, shape)):
        assert at_point(back, axes, point) == point


def test_operands_are_read_at_zero_where_they_broadcast():
    builder = FusionBuilder()
    row = builder.input(TensorType(DataType.Float, (1, 5)))
    matrix = builder.input(TensorType(DataType.Float, (3, 4, 5)))
    number = builder.input(TensorType(DataType.Float, ()))
    builder.add(Pointwise("lerp", (row, matrix, number)))
    (statement,) = builder.fusion.statements
    at = tuple(map(of_axis, axes_of((3, 4, 5))))

    reads = dict(pull(statement, at))

    assert reads[matrix] == at
    assert reads[row] == (Index(), at[2])
    assert reads[number] == ()
    assert push(statement, row, (Index(), at[2])) is None


def test_coordinates_of_an_empty_tensor_can_be_asked_for():
    statement, _ = statement_of((0, 4), lambda v: View(v, (2, 0, 5)))
    ((_, coordinates),) = pull(statement, tuple(map(of_axis, axes_of((2, 0, 5)))))
    assert len(coordinates) == 2
