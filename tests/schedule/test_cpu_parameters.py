import pytest

from fuser.schedule.cpu_parameters import CpuParameters, CpuRowParameters


def test_parameters_say_what_they_are():
    assert "processor=ProcessorParameters(serial_work=" in str(CpuParameters())


@pytest.mark.parametrize("extent", [4, 31, 200, 1 << 12])
def test_without_arrays_there_are_no_more_lanes_than_elements(extent: int):
    lanes = CpuRowParameters().lanes_for(extent, arrays=0)
    assert lanes == min(64, 1 << (extent.bit_length() - 1))


def test_more_folds_have_fewer_lanes_each():
    given = CpuRowParameters()
    chosen = [given.lanes_for(1 << 10, arrays) for arrays in (1, 2, 4, 8)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1] >= 4


def test_lanes_that_are_joined_more_rarely_may_be_more():
    given = CpuRowParameters()
    assert given.lanes_for(256, 2, joined=1 << 14) > given.lanes_for(256, 2)
