"""Divisions of neighbours: one for all lanes of a CUDA thread, and a carry for each.

    (i + lane) // 1023, (i + lane) % 1023
->  once:       row = i // 1023;  rest = i - row * 1023
    each lane:  next = rest + lane;  carries = next >= 1023
                row + 1 and next - 1023 where it carries, row and next where it does not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType, holds
from fuser.schedule.code.axes import with_index
from fuser.schedule.code.row_body import indices_in
from fuser.schedule.indices.index import (
    ZERO,
    Axis,
    Index,
    Quotient,
    Remainder,
    Term,
    Variable,
    divide,
    index_of,
)
from fuser.schedule.indices.rewrites import rewrite, substitute, terms_in
from fuser.schedule.tree.expressions import Call, Expression, IndexValue, Literal, Ref, SizeValue
from fuser.schedule.tree.statements import Let, Load, Store
from fuser.schedule.tree.vectors import step_along

Lane = Load | Let | Store
"""What a thread does for one lane."""


def carry(nodes: Sequence[Lane], lane: Axis) -> tuple[list[Let], list[Lane]]:
    """What is divided once, and the nodes with carries before them."""
    found = dict.fromkeys(_divisions(nodes, lane))
    once: list[Let] = []
    each: list[Lane] = []
    changes: dict[Term, Index] = {}
    for number, (of, divisor) in enumerate(dict.fromkeys((t.of, t.divisor) for t in found)):
        division = _Division(f"division{number}", of, divisor, lane)
        once += division.once()
        each += division.each()
        for term, let, made in division.results():
            if term in found:
                each.append(let)
                changes[term] = index_of(made)
    changed = (with_index(node, lambda index: rewrite(index, changes.get)) for node in nodes)
    return once, [*each, *changed]


def _divisions(nodes: Iterable[Lane], lane: Axis) -> Iterator[Quotient | Remainder]:
    """Divisions of what goes up by one from lane to lane, and wraps at most once."""
    for node in nodes:
        for term in (term for index in indices_in(node) for term in terms_in(index)):
            if not isinstance(term, Quotient | Remainder) or term.divisor < lane.extent:
                continue
            if step_along(term.of, lane) == 1:
                yield term


@dataclass(frozen=True, slots=True)
class _Division:
    """`of` by `divisor`, in every lane."""

    name: str
    of: Index
    divisor: int
    lane: Axis

    @property
    def _dtype(self) -> DataType:
        fits = holds(DataType.Int32, self.of.bounds()[1] + self.divisor)
        return DataType.Int32 if fits else DataType.Int

    def _ref(self, part: str) -> Ref:
        dtype = DataType.Bool if part == "carries" else self._dtype
        return Ref(f"{self.name}_{part}", dtype)

    def _variable(self, part: str) -> Variable:
        extent = self.of.bounds()[1] // self.divisor + 1
        return Variable(
            f"{self.name}_{part}", extent if part in ("row", "quotient") else self.divisor
        )

    def _index(self, part: str, index: Index) -> Let:
        return Let(f"{self.name}_{part}", self._dtype, IndexValue(index, self._dtype))

    def _chosen(self, part: str, one: Expression, other: Expression) -> Let:
        choice = Call("where", (self._ref("carries"), one, other), self._dtype)
        return Let(f"{self.name}_{part}", self._dtype, choice)

    def once(self) -> list[Let]:
        """Quotient and remainder of the first lane, by one division."""
        first = substitute(self.of, {self.lane: ZERO})
        row, _ = divide(first, self.divisor)
        rest = first + index_of(self._variable("row")) * -self.divisor
        return [self._index("row", row), self._index("rest", rest)]

    def each(self) -> list[Lane]:
        """Whether a lane is past the end of the first one's row."""
        along = Index(0, ((self._variable("rest"), 1), (self.lane, 1)))
        size = SizeValue(self.divisor, self._dtype)
        compared = Call("ge", (self._ref("next"), size), DataType.Bool)
        return [
            self._index("next", along),
            Let(f"{self.name}_carries", DataType.Bool, compared),
        ]

    def results(self) -> list[tuple[Term, Let, Variable]]:
        """What stands for the quotient and for the remainder of a lane."""
        dtype, row, next_ = self._dtype, self._ref("row"), self._ref("next")
        above = Call("add", (row, Literal(1, dtype)), dtype)
        wrapped = Call("sub", (next_, SizeValue(self.divisor, dtype)), dtype)
        return [
            (
                Quotient(self.of, self.divisor),
                self._chosen("quotient", above, row),
                self._variable("quotient"),
            ),
            (
                Remainder(self.of, self.divisor),
                self._chosen("remainder", wrapped, next_),
                self._variable("remainder"),
            ),
        ]
