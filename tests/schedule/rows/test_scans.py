"""Phases of a sweep that scans."""

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule.code.row_body import Sweep
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.rows.scans import (
    carry_of,
    independent,
    point_by_point,
    scanned_lanes,
    totals_of,
)
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import Call, Ref
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import Running, ScanLanes
from fuser.schedule.tree.statements import Lanes, Let, Load, Store

FLOAT = DataType.Float
AXIS = Axis((0,), 100)
T0, T1, T3 = (Value(number, TensorType(FLOAT, (100,))) for number in (0, 1, 3))
AT = Index(0, ((AXIS, 1),))


def ref(name: str) -> Ref:
    return Ref(name, FLOAT)


def running(name: str, of: str, operation: str = "add", dtype: DataType = FLOAT) -> Running:
    return Running(name, operation, ref(of), dtype, f"{name}_carry")


LOAD = Load("T0", T0, AT)
EXCLUSIVE = Sweep(
    (AXIS,),
    (LOAD, running("T1", "T0"), Let("T3", FLOAT, Call("sub", (ref("T1"), ref("T0")), FLOAT))),
    (),
    (Store(T3, AT, ref("T3")),),
)


EACH_LANE = Loop(AXIS, Binding.SIMD, (), 8)


def test_what_a_later_phase_needs_is_an_array():
    nodes = scanned_lanes(EXCLUSIVE, (), EXCLUSIVE.stores, 8, EACH_LANE, filled=False)
    arrays = [node.name for node in nodes if isinstance(node, Lanes)]
    assert arrays == ["T0", "T1", "T3_lanes"]
    first, scan, second, store = nodes[3:]
    assert isinstance(first, Loop)
    assert [getattr(node, "name", "") for node in first.body] == ["T0", "T1"]
    assert scan == ScanLanes("T1", FLOAT, 8, carry_of(running("T1", "T0")))
    assert isinstance(second, Loop)
    assert [getattr(node, "name", "") for node in second.body] == ["T3", "T3_lanes"]
    assert store == Store(T3, AT, ref("T3_lanes"), 8)


def test_a_scan_that_is_stored_as_it_is_has_one_phase():
    sweep = Sweep((AXIS,), (LOAD, running("T1", "T0")), (), (Store(T1, AT, ref("T1")),))
    nodes = scanned_lanes(sweep, (), sweep.stores, 8, EACH_LANE, filled=True)
    assert [type(node) for node in nodes] == [Lanes, Loop, ScanLanes, Store]
    assert isinstance(nodes[0], Lanes)
    assert nodes[0].fill is not None


def test_sums_and_products_of_float32_are_carried_in_float64():
    for operation in ("add", "mul"):
        assert carry_of(running("T1", "T0", operation)).dtype is DataType.Double
        whole = carry_of(running("T1", "T0", operation, DataType.Int))
        assert whole.dtype is DataType.Int
    assert carry_of(running("T1", "T0", "maximum")).dtype is FLOAT


def test_a_scan_of_a_scan_is_not_independent():
    assert independent(EXCLUSIVE)
    code = (LOAD, running("T1", "T0"), running("T2", "T0"))
    assert independent(Sweep((AXIS,), code))
    code = (LOAD, running("T1", "T0"), running("T2", "T1"))
    assert not independent(Sweep((AXIS,), code))


def test_a_total_needs_no_more_than_leads_to_it():
    summed = totals_of(EXCLUSIVE)
    assert summed.code == (LOAD,)
    assert [(fold.name, fold.operation, fold.dtype) for fold in summed.folds] == [
        ("T1_carry_total", "add", DataType.Double)
    ]
    assert summed.stores == ()


def test_point_by_point_each_lane_has_a_carry():
    _, joined, read, _ = point_by_point(EXCLUSIVE.code)
    assert isinstance(joined, Let)
    assert (joined.name, joined.in_lanes) == ("T1_carry", True)
    assert isinstance(read, Let)
    assert (read.name, read.dtype) == ("T1", FLOAT)
