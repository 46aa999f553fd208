from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Pointwise, Value
from fuser.ir.strided import Strided, row_major
from fuser.ir.types import TensorType
from fuser.segmenter.profit import LAUNCH_BYTES, kernel_cost, operation_cost


def tensor(id_: int, *shape: int, dtype: DataType = DataType.Float) -> Value:
    return Value(id_, TensorType(dtype, shape))


def test_a_kernel_costs_its_launch_and_the_bytes_it_moves():
    x, y = tensor(0, 1000), tensor(1, 1000, dtype=DataType.Half)
    assert kernel_cost([x], [y], {}, {}) == LAUNCH_BYTES + 4000 + 2000


def test_views_of_one_buffer_are_moved_once():
    x, view = tensor(0, 1000), tensor(1, 10, 100)
    memory = {x: row_major(x), view: Strided(x, (10, 100), (100, 1))}
    assert kernel_cost([x, view], [], {}, memory) == LAUNCH_BYTES + 4000


def test_an_expanded_operand_moves_what_it_has():
    x = tensor(0, 1000, 10)
    memory = {x: Strided(tensor(1, 10), (1000, 10), (0, 1))}
    assert kernel_cost([x], [], {}, memory) == LAUNCH_BYTES + 40


def test_arithmetic_repeated_for_every_element_costs():
    # exp of a row, recomputed for each of 1000 rows that use it
    row, out = tensor(0, 1, 100), tensor(1, 1000, 100)
    row_exp = {100: operation_cost(Pointwise("exp", (row,)))}
    once = kernel_cost([], [row], row_exp, {}) - kernel_cost([], [row], {}, {})
    repeated = kernel_cost([], [out], row_exp, {}) - kernel_cost([], [out], {}, {})
    assert once == 0
    assert repeated > 100_000


def test_joining_producer_and_consumer_saves_a_launch_and_two_trips_to_memory():
    x, middle, out = (tensor(id_, 1000) for id_ in range(3))
    apart = kernel_cost([x], [middle], {}, {}) + kernel_cost([middle], [out], {}, {})
    assert apart - kernel_cost([x], [out], {}, {}) == LAUNCH_BYTES + 2 * 4000


def test_disjoint_views_of_one_buffer_are_both_moved():
    x = tensor(0, 2000)
    halves = {
        tensor(1, 1000): Strided(x, (1000,), (1,)),
        tensor(2, 1000): Strided(x, (1000,), (1,), 1000),
    }
    assert kernel_cost(halves, [], {}, halves) == LAUNCH_BYTES + 8000
