"""Numbers of points, of elements and of instructions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuser.ir.dtypes import DataType
from fuser.ir.pointwise import TABLE
from fuser.schedule.tree.counts import arithmetic, ceil_div, inverse_of, power_of_two
from fuser.schedule.tree.expressions import Call, Ref
from fuser.schedule.tree.statements import Let

LARGEST = (1 << 31) - 1
INDICES = st.integers(0, LARGEST)


def check_inverse(index: int, divisor: int) -> None:
    factor, shift = inverse_of(divisor)
    assert 0 < factor < 1 << 32
    assert 0 <= shift < 64
    assert index * factor >> shift == index // divisor
    assert index * factor < 1 << 64


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


@given(index=INDICES, divisor=st.integers(1, LARGEST))
def test_an_index_is_divided_by_an_inverse(index: int, divisor: int):
    check_inverse(index, divisor)


@given(divisor=st.integers(1, LARGEST), times=INDICES)
def test_neighbours_of_multiples_are_divided_exactly(divisor: int, times: int):
    multiple = divisor * (times % (LARGEST // divisor + 1))
    for index in (multiple - 1, multiple, multiple + 1):
        check_inverse(min(max(index, 0), LARGEST), divisor)


@pytest.mark.parametrize("power", range(31))
def test_powers_of_two_and_their_neighbours(power: int):
    for divisor in {max((1 << power) + more, 1) for more in (-1, 0, 1)}:
        for index in (0, divisor - 1, divisor, 2 * divisor - 1, LARGEST - 1, LARGEST):
            check_inverse(min(index, LARGEST), divisor)
