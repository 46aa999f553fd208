from fuser.segmenter.profit import (
    BUSY_PROCESSORS,
    HIDDEN,
    LAUNCH_BYTES,
    OPERATIONS_PER_BYTE,
    PROCESSORS_OF_A_ROW,
    kernel_cost,
)


def test_a_kernel_costs_its_launch_and_the_bytes_it_moves():
    assert kernel_cost(6000, 0, 0) == LAUNCH_BYTES + 6000


def test_arithmetic_costs_where_it_outlasts_the_bytes():
    assert kernel_cost(0, 80, 0) == LAUNCH_BYTES + 80 // OPERATIONS_PER_BYTE
    assert kernel_cost(1000, 1000 * OPERATIONS_PER_BYTE, 0) == LAUNCH_BYTES + 1000
    assert kernel_cost(1000, 2000 * OPERATIONS_PER_BYTE, 0) == LAUNCH_BYTES + 2000


def test_arithmetic_done_again_costs_a_little_even_where_it_is_hidden():
    again = 640 * OPERATIONS_PER_BYTE
    assert kernel_cost(1000, 0, again) == LAUNCH_BYTES + 1000 + 640 // HIDDEN


def test_few_rows_that_are_swept_again_leave_processors_idle():
    slower = BUSY_PROCESSORS // PROCESSORS_OF_A_ROW
    assert kernel_cost(1000, 0, 0, rows=1) == LAUNCH_BYTES + slower * 1000
    assert kernel_cost(1000, 0, 0, rows=slower) == kernel_cost(1000, 0, 0)
    assert kernel_cost(1000, 0, 0, rows=0) == kernel_cost(1000, 0, 0)
