"""Indices that loops have in common are found, and checked, before them."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule.indices.index import ZERO, Axis, Index, Variable, index_of, of_axis
from fuser.schedule.rows.cpu.invariants import indices_before_loops
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Convert, Expression, IndexValue, Literal, Ref
from fuser.schedule.tree.loop_tree import Loop, Node
from fuser.schedule.tree.row_statements import Finish, Partial
from fuser.schedule.tree.statements import CheckedIndex, Let, Load, Store
from tests.definitions import only_kernel

ROWS, COLUMNS = 12, 300

OUTER, INNER = Axis((0,), ROWS), Axis((1,), COLUMNS)
INDEX, TABLE, OUT = (
    Value(number, TensorType(dtype, (ROWS, COLUMNS)))
    for number, dtype in enumerate((DataType.Int, DataType.Float, DataType.Float))
)


FOUND: Expression = Ref("T0", DataType.Int)


def read_at(*given: Node, index: Expression = FOUND) -> tuple[Node, ...]:
    """Loops that read a table at a checked index, which is made of what is given."""
    check = CheckedIndex("T1_index", index, ROWS, "index_select", wraps=False, outside=0)
    at = index_of(Variable("T1_index", ROWS)) * COLUMNS + of_axis(INNER)
    store = Store(OUT, of_axis(OUTER) * COLUMNS + of_axis(INNER), Ref("T1", DataType.Float))
    inner = Loop(INNER, Binding.JOINED, (*given, check, Load("T1", TABLE, at), store))
    (loop,) = indices_before_loops([Loop(OUTER, Binding.JOINED, (inner,))])
    assert isinstance(loop, Loop)
    return loop.body


def test_what_an_index_is_made_of_goes_before_the_loop_too() -> None:
    body = read_at(Load("T0", INDEX, of_axis(OUTER)))
    assert [type(node) for node in body] == [Load, CheckedIndex, Loop]


@pytest.mark.parametrize("at", [of_axis(INNER), of_axis(OUTER) + of_axis(INNER) * 2])
def test_an_index_of_each_element_stays(at: Index) -> None:
    assert [type(node) for node in read_at(Load("T0", INDEX, at))] == [Loop]


def test_an_index_that_is_computed_of_a_place_stays() -> None:
    """Also where that is not all of what is computed, or of what is checked."""
    place = Convert(IndexValue(of_axis(INNER), DataType.Int32), DataType.Int)
    assert [type(node) for node in read_at(Let("T0", DataType.Int, place))] == [Loop]
    assert [type(node) for node in read_at(index=place)] == [Loop]


def test_an_index_of_what_is_finished_in_the_loop_stays() -> None:
    fill = Literal(0, DataType.Int)
    partial = Partial("T0", DataType.Int, DataType.Int, "add", ROWS, fill)
    assert [type(node) for node in read_at(Finish(partial, of_axis(OUTER)))] == [Loop]
    double = Let("T5", DataType.Int, Ref("T0", DataType.Int))
    body = read_at(Finish(partial, ZERO), double, index=Ref("T5", DataType.Int))
    assert [type(node) for node in body] == [Loop]


def mixed(index: torch.Tensor) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """Lines of a table, read where there is a sum over all of them: no row is kept."""
    x, labels = torch.randn(ROWS, COLUMNS), torch.randint(0, 9, (ROWS,))
    with FusionDefinition() as fd:
        ops = fd.ops
        given, at, label = map(fd.from_pytorch, (x, index, labels))
        fd.add_output(given * 0.3 + ops.index_select(given, at, 0) * 0.7)
        fd.add_output(ops.sum(ops.index_select(label, at, 0), [0]))
    return fd, [x, index, labels]


def test_lines_are_read_as_runs() -> None:
    fd, inputs = mixed(torch.randperm(ROWS))
    torch.testing.assert_close(fd.execute(inputs), interpret(fd.fusion, inputs))
    text = only_kernel(fd, inputs).kernel
    line = re.search(r"T\d+_in\[i1 \+ (T\d+_index) \*", text)
    assert line is not None, text
    found = text.rindex(f"{line[1]} = checked_index(", 0, line.start())
    assert "#pragma omp simd\n" in text[found : line.start()], "before the loop of the line"


@pytest.mark.parametrize("place", [0, 5, ROWS - 1])
@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_a_wrong_index_is_reported(place: int, wrong: int) -> None:
    index = torch.arange(ROWS)
    index[place] = wrong
    fd, inputs = mixed(index)
    with pytest.raises(IndexOutOfRangeError, match=f"index {wrong} "):
        fd.execute(inputs)


def test_lines_of_no_columns_check_nothing() -> None:
    with FusionDefinition() as fd:
        x, at = fd.from_pytorch(torch.zeros(4, 0)), fd.from_pytorch(torch.tensor([9, 9]))
        fd.add_output(fd.ops.index_select(x, at, 0) * 2.0)
    (found,) = fd.execute([torch.zeros(4, 0), torch.tensor([9, 9])])
    assert found.shape == (2, 0)


def test_parts_of_a_line_share_its_index() -> None:
    """A concatenation along a line is swept in parts, which read at one index."""
    x, y = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    index, labels = torch.randperm(ROWS), torch.randint(0, 9, (ROWS,))
    with FusionDefinition() as fd:
        ops = fd.ops
        one, other, at, label = map(fd.from_pytorch, (x, y, index, labels))
        fd.add_output(ops.index_select(ops.cat([one, other], 1), at, 0) * 2.0)
        fd.add_output(ops.sum(ops.index_select(label, at, 0), [0]))
    inputs = [x, y, index, labels]
    torch.testing.assert_close(fd.execute(inputs), interpret(fd.fusion, inputs))
