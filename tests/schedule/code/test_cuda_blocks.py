import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.schedule.code.cuda_blocks import MOST_BLOCKS, block_shape, grid_shape
from fuser.schedule.cuda_parameters import CudaParameters

PARAMETERS = CudaParameters()


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5000), max_size=4),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([32, 128, 256]),
)
def test_blocks_have_threads_and_no_more_than_twice_what_is_asked(
    extents: list[int], lanes: int, threads: int
):
    x, y, z = block_shape(extents, lanes, CudaParameters(threads=threads))
    assert z == 1
    assert x & (x - 1) == 0
    assert 1 <= x * y <= 2 * threads


def test_a_long_axis_fills_the_block():
    assert block_shape([1 << 20], 4, PARAMETERS) == (128, 1, 1)
    assert block_shape([100, 512], 4, PARAMETERS) == (128, 1, 1)


def test_rows_of_sixteen_vectors_are_stacked():
    # The transpose after attention: rows of 64 floats, 12 of them.
    x, y, _ = block_shape([64, 128, 12, 64], 4, PARAMETERS)
    assert (x, 12 % y) == (16, 0)


def test_no_axes_is_one_thread():
    assert block_shape([], 1, PARAMETERS) == (1, 1, 1)


def test_an_empty_axis_has_a_shape():
    assert math.prod(block_shape([0, 0], 1, PARAMETERS)) >= 1


@pytest.mark.parametrize(
    ("blocks", "grid"),
    [
        ([], (1, 1, 1)),
        ([1 << 30], (1 << 30, 1, 1)),
        ([MOST_BLOCKS, 7], (7, MOST_BLOCKS, 1)),
        ([3, 5, 7], (7, 5, 3)),
        ([2, 3, 5, 7], (7, 5, 6)),
    ],
)
def test_the_innermost_axes_have_a_dimension_of_the_grid_each(
    blocks: list[int], grid: tuple[int, int, int]
):
    assert grid_shape(blocks) == (grid, False)


@pytest.mark.parametrize(
    "blocks", [[MOST_BLOCKS + 1, 7], [MOST_BLOCKS + 1, 5, 7], [1 << 8, 1 << 8, 5, 7]]
)
def test_blocks_are_numbered_where_a_dimension_has_no_room_for_them(blocks: list[int]):
    assert grid_shape(blocks) == ((math.prod(blocks), 1, 1), True)
