import pytest

from fuser.codegen.sizes import Sizes
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import ZERO, Axis, Index, divide, linear, of_axis
from fuser.schedule.tree.counts import inverse_of

OUTER, INNER = Axis((0,), 8), Axis((1,), 6)


def sizes() -> Sizes:
    return Sizes((OUTER, INNER), DataType.Int32)


def numbers(used: Sizes) -> dict[str, int]:
    return {size.name: size.number for size in used.parameters}


def index(*strides: int, offset: int = 0) -> Index:
    return linear((of_axis(OUTER), of_axis(INNER)), strides, offset)


def test_a_row_major_index_needs_extents_only():
    used = sizes()
    assert used.index(index(6, 1), "T0") == "i0 * n1 + i1"
    assert numbers(used) == {"n1": 6}


def test_other_strides_are_parameters_named_after_the_tensor():
    used = sizes()
    assert used.index(index(1, 8), "T0") == "i0 + i1 * T0_stride_1"
    assert numbers(used) == {"T0_stride_1": 8}


def test_an_offset_is_a_parameter():
    used = sizes()
    assert used.index(index(6, 1, offset=12), "T3") == "i0 * n1 + i1 + T3_offset"
    assert numbers(used)["T3_offset"] == 12


def test_what_neighbouring_lanes_leave_between_them_is_counted_from_one_offset():
    used = sizes()
    used.in_lanes(INNER)
    assert used.index(index(12, 2, offset=57), "T0").endswith("i1 * 2 + T0_offset + 1")
    assert used.index(index(12, 2, offset=58), "T0").endswith("i1 * 2 + T0_offset + 2")
    assert used.index(index(12, 2, offset=2), "T0").endswith("i1 * 2 + 2")
    assert used.index(index(12, 2, offset=60), "T0").endswith("i1 * 2 + T0_offset_2")
    assert numbers(used) == {"T0_stride_0": 12, "T0_offset": 56, "T0_offset_2": 60}


def test_an_axis_walked_backward_is_subtracted():
    used = sizes()
    assert used.index(index(6, -1, offset=5), "T0") == "i0 * n1 - i1 + T0_offset"
    assert used.index(index(-1, 8), "T1") == "-i0 + i1 * T1_stride_1"


def test_nothing_is_zero():
    assert sizes().index(ZERO, "T0") == "0"


def test_divisors_and_factors_are_parameters_with_names_of_their_own():
    used = sizes()
    quotient, remainder = divide(index(6, 1), 5)
    first = used.index(quotient * 3 + remainder, "T0")
    second = used.index(quotient, "T1")

    assert "quotient_by_inverse(" in first
    assert "rest_by_inverse(" in first
    values = list(numbers(used).values())
    factor, shift = inverse_of(5)
    for number in (factor - (1 << 32), shift):
        assert values.count(number) == 3  # one for each division: other sizes may divide by others
    assert len(set(numbers(used))) == len(values)
    assert not any(character.isdigit() and int(character) == 5 for character in second)


def test_a_parameter_is_declared_once():
    used = sizes()
    assert used.extent(OUTER) == "n0"
    assert used.extent(OUTER) == "n0"
    assert [(size.name, size.number, size.dtype) for size in used.parameters] == [
        ("n0", 8, DataType.Int32)
    ]


def test_an_axis_can_be_named_otherwise():
    used = sizes()
    lane = Axis((1, 1), 4)
    used.name_axis(lane, "lane")
    assert used.index(of_axis(lane) + of_axis(INNER), "T0") in ("i1 + lane", "lane + i1")


def test_what_a_division_needs_is_not_taken_for_a_second_load():
    # T0 reads through a division, T0_1 is the same tensor read elsewhere with another stride
    used = sizes()
    quotient, remainder = divide(index(1, 8), 3)
    used.index(quotient + remainder * 10, "T0")
    used.index(index(1, 10), "T0_1")
    used.index(index(1, 11), "T0_0")
    assert numbers(used)["T0_1_stride_1"] == 10
    assert numbers(used)["T0_0_stride_1"] == 11


def test_a_number_that_its_type_cannot_hold_is_a_mistake():
    with pytest.raises(AssertionError, match="too large for Int32"):
        sizes().parameter("n0", 1 << 31)
