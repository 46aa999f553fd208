"""Index arithmetic against plain integers: what an index says is what its parts come to."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fuser.schedule.indices.cuts import LEAST_ROW, clean_cut, ragged_cut
from fuser.schedule.indices.index import (
    ZERO,
    Axis,
    Index,
    Quotient,
    Remainder,
    Term,
    clamp,
    divide,
    linear,
    of_axis,
    total,
    unravel,
)
from fuser.schedule.indices.rewrites import affine_parts, substitute

AXES = (Axis((0,), 6), Axis((1,), 4), Axis((2,), 5))
POINTS = list(itertools.product(*(range(axis.extent) for axis in AXES)))[::7]


def value(index: Index, at: dict[Axis, int]) -> int:
    """What the index comes to, with Python's own division."""

    def term_value(term: Term) -> int:
        match term:
            case Axis():
                return at[term]
            case Quotient():
                return value(term.of, at) // term.divisor
            case Remainder():
                return value(term.of, at) % term.divisor

    return index.constant + sum(c * term_value(term) for term, c in index.terms)


def values(index: Index) -> list[int]:
    return [value(index, dict(zip(AXES, point, strict=True))) for point in POINTS]


indices = st.recursive(
    st.one_of(st.integers(0, 9).map(Index), st.sampled_from(AXES).map(of_axis)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, st.integers(-3, 12)).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 12)).map(lambda pair: divide(*pair)[0]),
        st.tuples(inner, st.integers(1, 12)).map(lambda pair: divide(*pair)[1]),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(indices, indices, st.integers(-3, 12))
def test_sums_and_products_are_those_of_integers(left: Index, right: Index, factor: int):
    pairs = list(zip(values(left), values(right), strict=True))
    assert values(left + right) == [a + b for a, b in pairs]
    assert values(left * factor) == [a * factor for a, _ in pairs]


@settings(deadline=None)
@given(indices, st.integers(1, 15))
def test_division_is_that_of_integers(index: Index, divisor: int):
    quotient, remainder = divide(index, divisor)
    assert values(quotient) == [v // divisor for v in values(index)]
    assert values(remainder) == [v % divisor for v in values(index)]


@given(indices, st.integers(1, 8))
def test_what_is_said_to_be_a_multiple_is_one_everywhere(index: Index, number: int):
    scaled = index * number
    assert scaled.is_multiple_of(number)
    assert all(n % number == 0 for n in values(scaled))
    assert not (scaled + Index(1)).is_multiple_of(number) or number == 1


@given(indices)
def test_without_an_axis_of_its_own_an_index_is_less_by_its_steps(index: Index):
    axis = AXES[0]
    rest = index.without(axis)
    assert values(rest + of_axis(axis) * index.coefficient(axis)) == values(index)
    assert rest.coefficient(axis) == 0


@given(st.integers(-4, 9))
def test_a_clamped_index_stays_within(shift: int):
    axis = Axis((0,), 6)
    clamped = clamp(of_axis(axis) + Index(shift), 5)
    low, high = clamped.bounds()
    assert 0 <= low <= high <= 4
    found = [substitute(clamped, {axis: Index(i)}).constant for i in range(6)]
    assert found == [min(max(i + shift, 0), 4) for i in range(6)]


def test_nothing_is_clamped_that_is_within():
    index = of_axis(Axis((0,), 6)) + Index(1)
    assert clamp(index, 7) == index
    assert clamp(index, 1) == Index()


@settings(deadline=None)
@given(indices, st.integers(1, 15))
def test_nothing_negative_is_divided(index: Index, divisor: int):
    """C rounds a negative quotient towards 0."""
    for part in divide(index, divisor):
        for inner in list(affine_parts(part))[1:]:
            assert min(values(inner)) >= 0


@settings(deadline=None)
@given(indices)
def test_bounds_hold(index: Index):
    low, high = index.bounds()
    assert low <= min(values(index))
    assert max(values(index)) <= high


@settings(deadline=None)
@given(indices)
def test_terms_are_unique_and_have_coefficients(index: Index):
    terms = [term for term, _ in index.terms]
    assert len(set(terms)) == len(terms)
    assert all(coefficient for _, coefficient in index.terms)


@settings(deadline=None)
@given(indices, indices)
def test_substitution_puts_an_index_in_an_axis_place(index: Index, replacement: Index):
    replaced = substitute(index, {AXES[0]: replacement})
    for point in POINTS:
        at = dict(zip(AXES, point, strict=True))
        assert value(replaced, at) == value(index, {**at, AXES[0]: value(replacement, at)})


@settings(deadline=None)
@given(indices, st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_unravel_gives_row_major_coordinates(index: Index, shape: list[int]):
    coordinates = unravel(index, tuple(shape))
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    assert values(linear(coordinates, strides)) == values(index)
    for coordinate, size in list(zip(coordinates, shape, strict=True))[1:]:
        assert all(0 <= v < size for v in values(coordinate))


@settings(deadline=None)
@given(indices)
def test_affine_parts_hold_every_axis_that_matters(index: Index):
    named = {term for part in affine_parts(index) for term, _ in part.terms}
    for axis in AXES:
        moved = Axis((9,), axis.extent)
        if substitute(index, {axis: of_axis(moved)}) != index:
            assert axis in named


factors = st.lists(st.sampled_from([2, 3, 4, 5]), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(factors, st.data())
def test_views_whose_factors_nest_need_no_division(sizes: list[int], data: st.DataObject):
    """Both shapes group one list of factors, so axes of those factors address both."""

    def grouped() -> tuple[int, ...]:
        cuts = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
        shape = [1]
        for size, cut in zip(sizes, cuts, strict=True):
            shape = [*shape, size] if cut else [*shape[:-1], shape[-1] * size]
        return tuple(shape)

    axes = [Axis((dim,), size) for dim, size in enumerate(sizes)]
    strides = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    index = linear(map(of_axis, axes), strides)
    for coordinate in unravel(index, grouped()):
        assert all(isinstance(term, Axis) for term, _ in coordinate.terms)


def test_a_view_and_its_memory_undo_each_other():
    # x // 7 * 7 + x % 7 is x
    quotient, remainder = divide(of_axis(Axis((0,), 50)) * 3, 7)
    assert quotient * 7 + remainder == of_axis(Axis((0,), 50)) * 3
    assert (quotient * 14 + remainder * 2) == of_axis(Axis((0,), 50)) * 6


def test_steps_that_are_nearly_rows_go_on_within_them():
    # 10i + j, in rows of 9, is element i + j of row i, as long as there are so many
    i, j = map(of_axis, AXES[1:])
    assert divide(i * 10 + j, 9) == (i, i + j)
    assert divide(i * 8 + j + Index(12), 9) == (i + Index(1), j + i * -1 + Index(3))
    assert any(isinstance(term, Remainder) for term, _ in divide(i * 10 + j, 7)[1].terms)


@given(
    extent=st.integers(LEAST_ROW, 90),
    row=st.integers(LEAST_ROW, 30),
    step=st.integers(1, 3),
    shift=st.integers(0, 70),
)
def test_a_ragged_axis_is_cut_into_whole_rows_and_what_is_beside(
    extent: int, row: int, step: int, shift: int
):
    axis = Axis((0,), extent)
    place = of_axis(axis) * step + Index(shift * step)
    quotient, _ = divide(place, row * step)
    found = ragged_cut(quotient)
    points = () if found is None else found[1]
    for start, end in itertools.pairwise([0, *points, extent]):
        rows = {(at + shift) // row for at in range(start, end)}
        whole = (start + shift) % row == 0 and (end - start) % row == 0
        assert len(rows) == 1 or whole


def test_short_rows_and_sums_of_axes_are_not_cut():
    axis, other = Axis((0,), 100), Axis((1,), 7)
    for place, row in ((of_axis(axis), LEAST_ROW - 1), (of_axis(axis) + of_axis(other), 30)):
        assert ragged_cut(divide(place, row)[0]) is None


def test_an_axis_of_one_element_is_zero():
    assert of_axis(Axis((0,), 1)) == ZERO


def test_a_split_axis_is_its_halves():
    axis = Axis((3,), 12)
    outer, inner = axis.split(4)
    assert (outer.extent, inner.extent) == (3, 4)
    assert outer.path < inner.path
    whole = total([(of_axis(outer), 4), (of_axis(inner), 1)])
    assert whole.bounds() == (0, 11)


def test_a_clean_cut_removes_a_division():
    axis = Axis((0,), 12)
    quotient, _ = divide(of_axis(axis), 4)
    assert clean_cut(quotient) == (axis, 4)
    outer, inner = axis.split(4)
    replaced = substitute(quotient, {axis: total([(of_axis(outer), 4), (of_axis(inner), 1)])})
    assert replaced == of_axis(outer)


def test_a_clean_cut_removes_a_division_of_an_index_that_falls():
    axis = Axis((0,), 12)
    quotient, remainder = divide(Index(11) + of_axis(axis) * -1, 4)
    assert clean_cut(quotient) == clean_cut(remainder) == (axis, 4)
    outer, inner = axis.split(4)
    halves = {axis: total([(of_axis(outer), 4), (of_axis(inner), 1)])}
    assert substitute(quotient, halves) == Index(2) + of_axis(outer) * -1
    assert substitute(remainder, halves) == Index(3) + of_axis(inner) * -1


def test_no_cut_is_clean_where_sizes_do_not_nest():
    quotient, _ = divide(of_axis(Axis((0,), 6)) * 4 + of_axis(Axis((1,), 4)), 3)
    assert clean_cut(quotient) is None
