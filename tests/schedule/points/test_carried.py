"""Divisions of neighbours by one division and a carry."""

from __future__ import annotations

import pytest

from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import (
    Axis,
    Index,
    Quotient,
    Remainder,
    clamp,
    divide,
    of_axis,
    total,
)
from fuser.schedule.points.carried import carry
from fuser.schedule.tree.expressions import Call, IndexValue, Ref, SizeValue
from fuser.schedule.tree.statements import Let

OUTER, INNER, LANE = Axis((0,), 9), Axis((1,), 40), Axis((1, 1), 4)


def place(*indices: Index) -> list[Let]:
    return [
        Let(f"place{number}", DataType.Int, IndexValue(index, DataType.Int))
        for number, index in enumerate(indices)
    ]


def along(scale: int = 40, shift: int = 0) -> Index:
    """outer * scale + inner + lane + shift."""
    parts = (of_axis(OUTER), scale), (of_axis(INNER), 1), (of_axis(LANE), 1), (Index(shift), 1)
    return total(parts)


def run(lets: list[Let], known: dict[object, int]) -> dict[str, int]:
    """The numbers of lets, with those of the axes known."""
    numbers: dict[str, int] = {}

    def index(at: Index) -> int:
        return at.constant + sum(factor * term_of(term) for term, factor in at.terms)

    def term_of(term) -> int:
        if isinstance(term, Quotient):
            return index(term.of) // term.divisor
        if isinstance(term, Remainder):
            return index(term.of) % term.divisor
        if isinstance(term, Axis):
            return known[term]
        return (
            numbers[term.name]
            if hasattr(term, "name")
            else min(max(index(term.of), 0), term.extent - 1)
        )

    def value(expression) -> int:
        match expression:
            case IndexValue(at):
                return index(at)
            case Ref(name):
                return numbers[name]
            case SizeValue(number):
                return number
            case Call("where", (condition, one, other)):
                return value(one) if value(condition) else value(other)
            case Call("ge", (one, other)):
                return int(value(one) >= value(other))
            case Call("add", (one, other)):
                return value(one) + value(other)
            case Call("sub", (one, other)):
                return value(one) - value(other)
            case _:
                return int(expression.value)

    for let in lets:
        numbers[let.name] = value(let.expression)
    return numbers


@pytest.mark.parametrize("divisor", [4, 7, 39, 41, 1000])
@pytest.mark.parametrize("shift", [0, 5])
def test_every_lane_gets_its_quotient_and_its_remainder(divisor: int, shift: int):
    quotient, remainder = divide(along(shift=shift), divisor)
    given = place(quotient, clamp(remainder + Index(-3), 6))
    once, each = carry(given, LANE)
    for outer in range(OUTER.extent):
        for inner in range(0, INNER.extent, LANE.extent):
            for lane in range(LANE.extent):
                known = {OUTER: outer, INNER: inner, LANE: lane}
                wanted, got = run(given, known), run([*once, *each], known)
                assert {name: got[name] for name in wanted} == wanted


def test_a_quotient_and_a_remainder_are_one_division():
    once, each = carry(place(*divide(along(), 39)), LANE)
    divisions = [
        term
        for let in (*once, *each)
        if isinstance(let.expression, IndexValue)
        for term, _ in let.expression.index.terms
        if isinstance(term, Quotient | Remainder)
    ]
    assert len(divisions) == 1
    assert [let.name for let in once] == ["division0_row", "division0_rest"]


@pytest.mark.parametrize(
    "index",
    [
        divide(along(), 3)[0],  # wraps more than once within four lanes
        divide(along() * 2, 39)[0],  # goes up by two
        divide(of_axis(OUTER) * 7 + of_axis(INNER), 39)[1],  # the same for all lanes
    ],
)
def test_other_divisions_stay(index: Index):
    given = place(index)
    assert carry(given, LANE) == ([], given)
