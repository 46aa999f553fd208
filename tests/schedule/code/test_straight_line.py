"""Code of several points, one after the other."""

from __future__ import annotations

from fuser import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule.code.straight_line import StraightLine
from fuser.schedule.indices.index import Index, Variable, index_of
from fuser.schedule.tree.expressions import Call, Literal, Ref
from fuser.schedule.tree.statements import Let, Load, Store

X = Value(0, TensorType(DataType.Float, (8,)))
OUT = Value(1, TensorType(DataType.Float, (8,)))


def point(line: StraightLine, read: int, stored: int) -> None:
    """out[stored] = exp(x[read])."""
    power = Call("exp", (Ref("T0", DataType.Float),), DataType.Float)
    code = Load("T0", X, Index(read)), Let("T1", DataType.Float, power)
    line.add(code, [Store(OUT, Index(stored), Ref("T1", DataType.Float))])


def test_points_have_names_of_their_own() -> None:
    line = StraightLine()
    point(line, 0, 0)
    point(line, 1, 1)
    names = [node.name for node in line.code]
    assert len(names) == len(set(names)) == 4
    first, second = (store.source for store in line.stores)
    assert first != second


def test_what_several_points_make_is_made_once() -> None:
    line = StraightLine()
    point(line, 0, 0)
    point(line, 0, 1)
    assert len(line.code) == 2
    assert [store.at for store in line.stores] == [Index(0), Index(1)]
    assert line.stores[0].source == line.stores[1].source


def test_a_name_that_stands_for_a_number_needs_no_statement() -> None:
    line = StraightLine()
    line.let("T2", DataType.Float, Literal(0.5, DataType.Float))
    assert not line.code
    assert line.read(Ref("T2", DataType.Float)) == Literal(0.5, DataType.Float)


def test_a_place_that_a_name_tells_is_that_of_its_point() -> None:
    line, table = StraightLine(), Value(2, TensorType(DataType.Float, (8,)))
    at = index_of(Variable("T2_index", 8)) * 3
    for place in (2, 1):
        known = Let("T2_index", DataType.Int, Literal(place, DataType.Int))
        line.add([known, Load("T2", table, at)], ())
    assert [node.at for node in line.code if isinstance(node, Load)] == [Index(6), Index(3)]
