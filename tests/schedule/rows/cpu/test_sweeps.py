import pytest

from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.rows.cpu.sweeps import lanes_for


def lanes_of(extent: int, arrays: int, joined: int | None = None) -> int:
    points = extent if joined is None else joined
    return lanes_for(CpuRowParameters(), extent, arrays, points, narrow=False)


@pytest.mark.parametrize("extent", [4, 31, 200, 1 << 12])
def test_without_arrays_there_are_no_more_lanes_than_elements(extent: int):
    lanes = lanes_of(extent, 0)
    assert lanes == min(64, 1 << (extent.bit_length() - 1))


def test_more_folds_have_fewer_lanes_each():
    chosen = [lanes_of(1 << 10, arrays) for arrays in (1, 2, 4, 8)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1] >= 4


def test_lanes_that_are_joined_more_rarely_may_be_more():
    assert lanes_of(256, 2, joined=1 << 14) > lanes_of(256, 2)
