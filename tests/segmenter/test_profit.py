from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Pointwise, Value
from fuser.ir.types import TensorType
from fuser.segmenter.profit import (
    BUSY_PROCESSORS,
    LAUNCH_BYTES,
    OPERATIONS_PER_BYTE,
    PROCESSORS_OF_A_ROW,
    kernel_cost,
    operation_cost,
    repeated_arithmetic,
)


def test_a_kernel_costs_its_launch_and_the_bytes_it_moves():
    assert kernel_cost(6000, 0) == LAUNCH_BYTES + 6000


def test_arithmetic_done_again_costs():
    assert kernel_cost(0, 80) == LAUNCH_BYTES + 80 // OPERATIONS_PER_BYTE


def test_few_rows_that_are_swept_again_leave_processors_idle():
    slower = BUSY_PROCESSORS // PROCESSORS_OF_A_ROW
    assert kernel_cost(1000, 0, rows=1) == LAUNCH_BYTES + slower * 1000
    assert kernel_cost(1000, 0, rows=slower) == kernel_cost(1000, 0)
    assert kernel_cost(1000, 0, rows=0) == kernel_cost(1000, 0)


def test_a_row_computed_at_every_point_of_a_domain_is_repeated():
    row = Value(0, TensorType(DataType.Float, (100,)))
    exp = operation_cost(Pointwise("exp", (row,)))
    assert repeated_arithmetic({100: exp}, 1000) == exp * 900
    assert repeated_arithmetic({100: exp}, 100) == 0


def test_a_single_number_is_computed_once_a_thread():
    assert repeated_arithmetic({1: 50}, 1 << 20) == 0
