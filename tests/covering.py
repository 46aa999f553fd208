"""Which combinations of a test's parameters are run where not all of them are.

A test of a few parameters runs in their product: most of its time goes to combinations of values
that each have run with others before. A covering part has every value of two parameters, and every
pair of values of three or more, as far as the product has them.

`more` marks values that no covering part has, because others of their parameter find what they
find: `parametrize("rows", [1, 64, *more(63, 65)])`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import combinations
from typing import Any

import pytest

Combination = Sequence[Hashable]
"""A value for each parameter."""

Meeting = tuple[tuple[int, Hashable], ...]
"""Parameters, by number, and their values."""


def more(*values: Any) -> list[Any]:
    """Values of a parameter for `pytest --covering` to leave out. Tuples are one value too."""
    return [pytest.param(value, marks=pytest.mark.more) for value in values]


def covering(product: Sequence[Combination], *, pairs: bool = True) -> list[int]:
    """Numbers of combinations, ascending, which have among them all that have to meet.

    Values of three parameters or more meet in pairs, or need not where `pairs` are not wanted.

    The next is the one in which the most values meet that have not met yet; of several, the one
    whose values were taken the least often, so that these occur about equally often.
    """
    if not product[0]:  # a test without parameters
        return list(range(len(product)))
    together = 2 if pairs and len(product[0]) > 2 else 1
    meetings = [_meetings(values, together) for values in product]
    singles = [_meetings(values, 1) for values in product]
    missing = set[Meeting]().union(*meetings)
    taken, uses = list[int](), Counter[Meeting]()

    def rank(number: int) -> tuple[int, int, int]:
        """Lowest first."""
        often = sum(uses[meeting] for meeting in singles[number])
        return -len(meetings[number] & missing), often, number

    queue = [rank(number) for number in range(len(product))]
    heapify(queue)
    while missing:
        # What is missing only becomes less, and what was taken more: who is first as of now is.
        number = queue[0][-1]
        now = rank(number)
        if now != queue[0]:
            heapreplace(queue, now)
            continue
        heappop(queue)
        missing -= meetings[number]
        uses.update(singles[number])
        taken.append(number)
    return sorted(taken)


def _meetings(values: Combination, together: int) -> set[Meeting]:
    return set(combinations(enumerate(values), together))
