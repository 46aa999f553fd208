"""Numbers of points, of elements and of instructions."""

import pytest

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import TABLE
from fuser.schedule.counts import arithmetic, ceil_div, power_of_two
from fuser.schedule.expressions import Call, Ref
from fuser.schedule.statements import Let


@pytest.mark.parametrize(
    ("count", "size", "times"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (8, 4, 2)]
)
def test_what_is_left_over_counts_as_one_more(count: int, size: int, times: int) -> None:
    assert ceil_div(count, size) == times


@pytest.mark.parametrize(("count", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_powers_of_two_are_not_below(count: int, power: int) -> None:
    assert power_of_two(count) == power


def test_names_of_what_is_there_cost_nothing() -> None:
    x = Ref("T0", DataType.Float)
    exp = Let("T1", DataType.Float, Call("exp", (x,), DataType.Float))
    assert arithmetic([exp, Let("T2", DataType.Float, x), exp]) == 2 * TABLE["exp"].cost
