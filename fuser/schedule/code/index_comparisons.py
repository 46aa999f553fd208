"""Comparisons and conversions of 64-bit integers in 32 bits, where these are known to fit.

    T2 = index along the row, Int             T2_narrow = the same, Int32
    T3 = an index that was checked, Int       T3_narrow = Int32(T3)
    T4 = T2 == T3                             T4 = T2_narrow == T3_narrow

So are masks compared, and where the scores of a loss are the target's, and so do positions become
floating: vectors hold twice as many. What a row knows is compared with its positions after one look
at it, any number that has no place among them as one that is none:

    T3 = a number of the row, Int             T3_narrow = T3 if it has 32 bits, else -2^31
    T4 = T2 == T3                             T4 = T2_narrow == T3_narrow

Sums and multiples of indices are one index. What is an index and a number of 32 bits equals another
index where the number equals their difference, which often has no axis left:

    T2 = 2 i - 1
    T3 = T2 + T0, T0 Int32
    T4 = T3 == 2 i + 1                        T4 = T0 == 2
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from fuser.ir.dtypes import DataType, holds
from fuser.ir.pointwise import COMPARISONS, EQUALITIES
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import (
    Code,
    RowBody,
    Sweep,
    names_in,
    nodes_read,
    without_dead_code,
)
from fuser.schedule.indices.index import ZERO, Index
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    convert,
)
from fuser.schedule.tree.statements import CheckedIndex, Let, Load

_INT32, _INT64 = DataType.Int32, DataType.Int
_LEAST = -(2**31)
"""In 32 bits, in place of a number that no place equals."""

_Compared = tuple[list[Let], tuple[Expression, ...]]
"""What computes two sides in 32 bits, and what they then are."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """An index and, if there is one, a number of 32 bits; as numbers of 64 bits, of which there is
    no other value."""

    index: Index = ZERO
    number: Expression | None = None

    @property
    def is_constant(self) -> bool:
        """Whether it is the same everywhere."""
        return self.number is None and not self.index.terms

    def plus(self, other: _Sum, factor: int = 1) -> _Sum | None:
        """This and `factor` times another sum; None if that is no such sum."""
        if other.number is not None and (factor != 1 or self.number is not None):
            return None
        return _in_range(_Sum(self.index + other.index * factor, self.number or other.number))

    def in_32_bits(self) -> Expression | None:
        """The same in 32 bits, if that is known to have it."""
        if self.number is not None:
            return self.number if self.index == ZERO else None
        if not _fits(self.index, _INT32):
            return None
        return (
            Literal(self.index.constant, _INT32)
            if self.is_constant
            else IndexValue(self.index, _INT32)
        )


def _fits(index: Index, dtype: DataType) -> bool:
    return all(holds(dtype, bound) for bound in index.bounds())


def _in_range(found: _Sum) -> _Sum | None:
    return found if _fits(found.index, _INT64) else None


def points_in_32_bits(body: Body) -> Body:
    """`body` with such comparisons in 32 bits."""
    return without_dead_code(dataclasses.replace(body, code=_Comparisons().code(body.code)))


def rows_in_32_bits(body: RowBody) -> RowBody:
    """The same for rows; what is known of a stage holds in later ones."""
    comparisons = _Comparisons()
    stages = [comparisons.stage(sweep) for sweep in body.stages]
    stages = [comparisons.with_narrow(sweep) for sweep in stages]
    read_later: set[str] = set()
    for place, sweep in reversed(list(enumerate(stages))):
        needed = set(names_in((*sweep.folds, *sweep.stores)))
        needed.update(() if sweep.axes else read_later)
        stages[place] = dataclasses.replace(sweep, code=nodes_read(sweep.code, needed))
        read_later |= needed
    return dataclasses.replace(body, stages=tuple(stages))


class _Comparisons:
    """What is known of 64-bit integers, by name."""

    def __init__(self) -> None:
        self._known: dict[str, _Sum] = {}
        self._names: dict[str, str] = {}
        """The first name that stood for the same."""
        self._of_row: dict[Code, None] = {}
        """What a stage without axes has made: all later stages see it."""
        self._numbers_of_row: set[str] = set()
        """64-bit integers of which there is one a row."""
        self._narrow_in_row: dict[str, Let] = {}
        """What stages without axes make of such numbers besides."""

    def stage(self, sweep: Sweep) -> Sweep:
        """A stage with such comparisons in 32 bits."""
        of_row = (node for node in sweep.code if _is_of_row(node, sweep))
        self._numbers_of_row.update(n.name for n in of_row if n.dtype is _INT64)
        made = tuple(node for node in self.code(sweep.code) if node not in self._of_row)
        if not sweep.axes:
            self._of_row.update(dict.fromkeys(made))
        return dataclasses.replace(sweep, code=made)

    def with_narrow(self, sweep: Sweep) -> Sweep:
        """A stage that makes numbers of a row, with what others compare of them."""
        made: list[Code] = []
        for node in sweep.code:
            made.append(node)
            if not sweep.axes and (narrow := self._narrow_in_row.get(node.name)):
                made.append(narrow)
        return dataclasses.replace(sweep, code=tuple(made))

    def code(self, nodes: Iterable[Code]) -> tuple[Code, ...]:
        """Nodes with such comparisons in 32 bits, after what makes their operands so."""
        made: dict[Code, None] = {}
        for node in nodes:
            for changed in self._changed(node):
                made[changed] = None
        return tuple(made)

    def _learn(self, name: str, what: _Sum) -> None:
        self._known[name] = what
        self._names[name] = name

    def _changed(self, node: Code) -> list[Code]:
        """What takes the place of a node."""
        match node:
            case CheckedIndex(name, size=size) if holds(_INT32, size):
                self._learn(name, _Sum(number=convert(Ref(name, _INT64), _INT32)))
            case Let(name, DataType.Int, Ref(other)) if other in self._known:
                self._known[name] = self._known[other]
                self._names[name] = self._names[other]
            case Let(name, DataType.Int, expression) if found := self._sum(expression):
                self._learn(name, found)
                if found.number is None:
                    return [dataclasses.replace(node, expression=IndexValue(found.index, _INT64))]
            case Let(expression=Convert() as conversion):
                lets, converted = self._converted(conversion)
                return [*lets, dataclasses.replace(node, expression=converted)]
            case Let(name, expression=Call(op, (one, other)) as call) if op in COMPARISONS:
                compared = (
                    self._both(one, other)
                    or self._numbers(name, op, one, other)
                    or self._place_and_number(op, one, other)
                )
                if compared is not None:
                    lets, args = compared
                    return [*lets, dataclasses.replace(node, expression=Call(op, args, call.dtype))]
            case Let(expression=Call(args=operands) as call):
                converted = [self._converted(arg) for arg in operands]
                made = [let for lets, _ in converted for let in lets]
                narrow = dataclasses.replace(call, args=tuple(arg for _, arg in converted))
                return [*made, dataclasses.replace(node, expression=narrow)]
            case _:
                pass
        return [node]

    def _converted(self, operand: Expression) -> tuple[list[Let], Expression]:
        """An operand that becomes floating, or is to have 32 bits, from 32 bits; any other as it
        is."""
        match operand:
            case Convert(of, dtype) if dtype.is_floating or dtype is _INT32:
                narrow = self._side(of)
                return ([], operand) if narrow is None else (narrow[0], convert(narrow[1], dtype))
            case _:
                return [], operand

    def _both(self, one: Expression, other: Expression) -> _Compared | None:
        """Two sides in 32 bits, if both fit."""
        left, right = self._side(one), self._side(other)
        if left is None or right is None:
            return None
        return [*left[0], *right[0]], (left[1], right[1])

    def _side(self, side: Expression) -> tuple[list[Let], Expression] | None:
        """What computes an integer in 32 bits, and what it then is; None if it may not fit."""
        known = self._sum(side)
        short = known and known.in_32_bits()
        if short is None or not isinstance(side, Ref):
            return short and ([], short)
        let = Let(f"{self._names[side.name]}_narrow", _INT32, short)
        return [let], Ref(let.name, _INT32)

    def _numbers(self, name: str, op: str, one: Expression, other: Expression) -> _Compared | None:
        """The number of a sum, and what it is compared with: how much more the other side is."""
        left, right = self._sum(one), self._sum(other)
        if op not in EQUALITIES or left is None or right is None:
            return None
        if left.number is None:
            left, right = right, left
        more = right.plus(_Sum(left.index), -1)
        place = more and more.in_32_bits()
        if left.number is None or more is None or more.number is not None or place is None:
            return None
        let = Let(f"{name}_place", _INT32, place)
        return [let], (left.number, Ref(let.name, _INT32))

    def _place_and_number(self, op: str, one: Expression, other: Expression) -> _Compared | None:
        """A place along a row, and a number of the row, as none where that is no place."""
        if isinstance(one, Ref) and one.name in self._numbers_of_row:
            one, other = other, one
        place, narrow = self._sum(one), self._side(one)
        if op not in EQUALITIES or place is None or place.number is not None or narrow is None:
            return None
        if not (isinstance(other, Ref) and other.name in self._numbers_of_row):
            return None
        lowest, _ = place.index.bounds()
        if place.is_constant or lowest <= _LEAST:
            return None
        lets, index = narrow
        short = Convert(other, _INT32)
        fits = Call("eq", (Convert(short, _INT64), other), DataType.Bool)
        number = Call("where", (fits, short, Literal(_LEAST, _INT32)), _INT32)
        let = Let(f"{other.name}_narrow", _INT32, number)
        if any(node.name == other.name for node in self._of_row):
            self._narrow_in_row[other.name] = let
            return lets, (index, Ref(let.name, _INT32))
        return [*lets, let], (index, Ref(let.name, _INT32))

    def _sum(self, expression: Expression) -> _Sum | None:
        """An integer as such a sum; None if it is none."""
        match expression:
            case Ref(name, DataType.Int):
                return self._known.get(name)
            case Literal(int() as value, DataType.Int):
                return _Sum(Index(value))
            case IndexValue(index, DataType.Int):
                return _in_range(_Sum(index))
            case Convert(of, DataType.Int) if _fits_int32(of.dtype):
                return _Sum(number=convert(of, _INT32))
            case Call("neg", (one,), DataType.Int):
                negated = self._sum(one)
                return negated and _Sum().plus(negated, -1)
            case Call("add" | "sub" | "mul" as op, (one, other), DataType.Int):
                left, right = self._sum(one), self._sum(other)
                return left and right and _joined(op, left, right)
            case _:
                return None


def _is_of_row(node: Code, sweep: Sweep) -> bool:
    """Whether there is one of it a row: what a stage without axes makes, or what is read from where
    no point of a sweep says."""
    if not sweep.axes or not isinstance(node, Load):
        return not sweep.axes
    return not (variables_of(node.at) or any(map(node.at.coefficient, sweep.axes)))


def _joined(op: str, left: _Sum, right: _Sum) -> _Sum | None:
    match op:
        case "add":
            return left.plus(right)
        case "sub":
            return left.plus(right, -1)
        case _ if left.is_constant:
            return _Sum().plus(right, left.index.constant)
        case _:
            return _Sum().plus(left, right.index.constant) if right.is_constant else None


def _fits_int32(dtype: DataType) -> bool:
    return dtype is _INT32 or (dtype.is_integral and dtype.itemsize < _INT32.itemsize)
