from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule.code.axes import arrange, coalesce, replace_axes
from fuser.schedule.code.body import Body
from fuser.schedule.indices.index import Axis, Index, divide, linear, of_axis
from fuser.schedule.tree.expressions import IndexValue, Ref
from fuser.schedule.tree.statements import Let, Load, Store

X = Value(0, TensorType(DataType.Float, (4, 6)))
Y = Value(1, TensorType(DataType.Float, (4, 6)))
ROWS, COLUMNS = Axis((0,), 4), Axis((1,), 6)


def copy(load: Index, store: Index, axes: tuple[Axis, ...] = (ROWS, COLUMNS)) -> Body:
    """Y at `store` = X at `load`."""
    return Body(axes, (Load("T0", X, load),), stores=(Store(Y, store, Ref("T0", X.dtype)),))


def at(*strides: int) -> Index:
    return linear((of_axis(ROWS), of_axis(COLUMNS)), strides)


def test_axes_that_every_access_walks_as_one_are_merged():
    # Y[6i + j] = X[6i + j]     ->     Y[k] = X[k]
    body = coalesce(copy(at(6, 1), at(6, 1)))
    (axis,) = body.axes
    assert axis.extent == 24
    assert body.indices() == [of_axis(axis), of_axis(axis)]


def test_one_access_with_gaps_keeps_the_axes_apart():
    assert coalesce(copy(at(8, 1), at(6, 1))).axes == (ROWS, COLUMNS)


def test_an_expanded_operand_keeps_the_axes_apart_unless_it_is_one_number():
    assert coalesce(copy(at(0, 1), at(6, 1))).axes == (ROWS, COLUMNS)
    assert len(coalesce(copy(at(0, 0), at(6, 1))).axes) == 1


def test_a_division_keeps_its_axes_unless_it_too_walks_them_as_one():
    _, remainder = divide(at(6, 1), 5)
    assert len(coalesce(copy(remainder, at(6, 1))).axes) == 1
    _, remainder = divide(at(7, 1), 5)
    assert coalesce(copy(remainder, at(6, 1))).axes == (ROWS, COLUMNS)


def test_axes_are_ordered_as_the_store_lies_in_memory():
    # Y[i + 4j] = X[6i + j]     ->     loops j, i
    assert arrange(copy(at(6, 1), at(1, 4))).axes == (COLUMNS, ROWS)


def test_arranging_makes_permuted_memory_one_axis_where_reads_and_writes_agree():
    assert len(arrange(copy(at(1, 4), at(1, 4))).axes) == 1


def test_indices_that_are_numbers_are_mapped_too():
    let = Let("T1", DataType.Int, IndexValue(of_axis(ROWS), DataType.Int))
    store = Store(Y, of_axis(ROWS), Ref("T1", DataType.Int))
    body = Body((ROWS,), (let,), stores=(store,))
    half = Index(0, ((COLUMNS, 2),))
    mapped = replace_axes(body, {ROWS: half})
    assert mapped.indices() == [half, half]
