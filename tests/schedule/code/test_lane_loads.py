"""Loads of all lanes at once."""

from __future__ import annotations

import pytest

from fuser import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import TensorType
from fuser.schedule.code.lane_loads import converts_vectors, lane_loads
from fuser.schedule.code.row_body import Sweep
from fuser.schedule.indices.index import Axis, of_axis
from fuser.schedule.tree.expressions import Convert, Ref
from fuser.schedule.tree.statements import Let, Load, Store

AXIS = Axis((0,), 256)


def load(dtype: DataType, step: int = 1) -> Load:
    return Load("T0", Value(0, TensorType(dtype, (256 * step,))), of_axis(AXIS) * step)


@pytest.mark.parametrize(
    ("found", "lanes", "at_once"),
    [
        (load(DataType.Bool), 16, True),
        (load(DataType.Bool, 2), 16, True),
        (load(DataType.Bool), 64, False),  # a whole vector of bytes
        (load(DataType.Bool, 3), 16, False),
        (load(DataType.Float), 16, False),
        (load(DataType.Float, 2), 16, True),
        (load(DataType.Double, 2), 16, False),
    ],
)
def test_flags_and_numbers_in_steps_are_read_for_all_lanes(
    found: Load, lanes: int, at_once: bool
) -> None:
    moved, rest = lane_loads(Sweep((AXIS,), (found,)), lanes)
    assert [node.lanes for node in moved] == [lanes] * at_once
    assert rest == [found] * (not at_once)


def test_narrow_numbers_are_read_so_if_they_are_only_converted() -> None:
    narrow = load(DataType.BFloat16)
    of = Ref("T0", DataType.BFloat16)
    wide = Let("T1", DataType.Float, Convert(of, DataType.Float))
    moved, rest = lane_loads(
        Sweep(
            (AXIS,),
            (
                narrow,
                wide,
            ),
        ),
        16,
    )
    assert ([node.name for node in moved], rest) == (["T0"], [wide])
    copied = Store(Value(1, TensorType(DataType.BFloat16, (256,))), of_axis(AXIS), of)
    assert lane_loads(Sweep((AXIS,), (narrow, wide), (), (copied,)), 16)[0] == []


@pytest.mark.parametrize(
    ("dtype", "at_once"),
    [(DataType.BFloat16, True), (DataType.Half, True), (DataType.Int16, False)],
)
def test_vectors_of_floats_of_16_bits_are_read_so_of_however_many_lanes(
    dtype: DataType, at_once: bool
) -> None:
    narrow = load(dtype)
    wide = Let("T1", DataType.Float, Convert(Ref("T0", dtype), DataType.Float))
    moved, _ = lane_loads(
        Sweep(
            (AXIS,),
            (
                narrow,
                wide,
            ),
        ),
        64,
    )
    assert [node.lanes for node in moved] == [64] * at_once


def converted(of: DataType, to: DataType) -> Let:
    return Let("T1", to, Convert(Ref("T0", of), to))


F, HALF, BF16 = DataType.Float, DataType.Half, DataType.BFloat16


@pytest.mark.parametrize(
    ("code", "gains"),
    [
        ([converted(HALF, F)], True),
        ([converted(F, HALF)], True),
        ([converted(BF16, F), converted(F, BF16)], True),
        ([converted(BF16, F)], False),
        ([converted(F, BF16)], False),
        ([converted(DataType.Int16, F), converted(F, DataType.Int16)], False),
    ],
)
def test_what_chunks_convert_in_fewer_instructions(code: list[Let], gains: bool) -> None:
    assert converts_vectors(code) == gains
