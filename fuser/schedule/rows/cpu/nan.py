"""Largest and smallest values that need not tell of NaN, because a sum of their row does.

    T1 = max of T0 over the row          if any T0 is NaN, T3 is, and what is computed of it:
    T3 = sum of exp(T0 - T1)             T1 need not be
    store (T0 - T1) - log(T3)

On a processor, a fold that keeps NaN takes three instructions an element, one that does not, one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep, contents, names_in
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.expressions import Call, Convert, Expression, Ref, refs
from fuser.schedule.tree.folds import is_extreme, takes_each_once
from fuser.schedule.tree.statements import Let, Store

PASS_NAN_ON = frozenset(
    (
        *("abs", "add", "add_alpha", "sub", "sub_alpha", "mul", "neg", "addcmul"),
        *("truediv", "div", "reciprocal", "sqrt", "rsqrt"),
        *("exp", "exp2", "expm1", "exp_nonpositive", "log", "log1p", "log2", "log10"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "silu", "erf", "erfc"),
    )
)
"""Operations whose result is NaN whenever one of their floating-point operands is."""


def drop_repeated_nan(body: RowBody) -> RowBody:
    """`body` with folds marked that need not keep NaN."""
    walk = [(sweep, [*map(_Reading.of, contents((sweep,)))]) for sweep in body.sweeps]

    def marked(fold: Fold, axes: tuple[Axis, ...]) -> Fold:
        if fold.slots is not None or not (is_extreme(fold.operation) and fold.dtype.is_floating):
            return fold
        return dataclasses.replace(fold, keeps_nan=not _is_repeated(walk, fold, axes))

    stages = (
        dataclasses.replace(sweep, folds=tuple(marked(fold, sweep.axes) for fold in sweep.folds))
        for sweep in body.stages
    )
    return dataclasses.replace(body, stages=tuple(stages))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a part of a sweep reads, and of that, by `passing` it on, is NaN whenever one is."""

    part: Code | Fold | Store
    read: frozenset[str]
    passing: frozenset[str]

    @classmethod
    def of(cls, part: Code | Fold | Store) -> _Reading:
        match part:
            case Let(expression=value) | Fold(value=value) | Store(source=value):
                passing = frozenset(_passed_on(value))
            case _:
                passing = frozenset[str]()
        return cls(part, frozenset(names_in((part,))), passing)


Walk = Sequence[tuple[Sweep, Sequence[_Reading]]]
"""The sweeps of a row, with what each of their parts reads."""


def _is_repeated(walk: Walk, extreme: Fold, axes: tuple[Axis, ...]) -> bool:
    """Whether all that leaves a row is the same whether or not an extreme keeps NaN."""
    reach = _Reach(extreme, axes)
    return all(reach.walked(sweep, parts) for sweep, parts in walk)


class _Reach:
    """What the NaN among the operands of an extreme over `axes` reaches, as sweeps are walked."""

    def __init__(self, extreme: Fold, axes: tuple[Axis, ...]) -> None:
        self._extreme = extreme
        self._axes = axes
        self._of_element = set(refs(extreme.value)) if _is_copy(extreme.value) else set[str]()
        """NaN at every point where the extreme's operand is."""
        self._of_row: set[str] = set()
        """NaN if the extreme's operand is at any point of the row."""
        self._unsure: set[str] = set()
        """What depends on the extreme, and is not of those."""

    def walked(self, sweep: Sweep, parts: Sequence[_Reading]) -> bool:
        """Notes what a sweep makes; whether nothing unsure leaves the row there."""
        return all(self._part(part, sweep.axes) for part in parts)

    def _part(self, reading: _Reading, axes: tuple[Axis, ...]) -> bool:
        match reading.part:
            case Let() as let:
                self._let(let, reading)
                return True
            case Fold() as fold:
                return self._fold(fold, reading, axes)
            case Store():
                return self._follows_row(reading) or not self._is_unsure(reading)
            case _:
                return not self._is_unsure(reading)

    def _let(self, let: Let, reading: _Reading) -> None:
        if let.name in self._of_element and _is_copy(let.expression):
            self._of_element.update(refs(let.expression))
        if self._follows_element(reading):
            self._of_element.add(let.name)
        if self._follows_row(reading):
            self._of_row.add(let.name)
        elif self._is_unsure(reading):
            self._unsure.add(let.name)

    def _fold(self, fold: Fold, reading: _Reading, axes: tuple[Axis, ...]) -> bool:
        if fold.name == self._extreme.name:
            self._unsure.add(fold.name)
            return True
        if takes_each_once(fold.operation) and (
            self._follows_row(reading) or (axes == self._axes and self._follows_element(reading))
        ):
            self._of_row.add(fold.name)
            return True
        if self._is_unsure(reading):
            self._unsure.add(fold.name)
            return fold.slots is None
        return True

    def _follows_element(self, reading: _Reading) -> bool:
        return not self._of_element.isdisjoint(reading.passing)

    def _follows_row(self, reading: _Reading) -> bool:
        return not self._of_row.isdisjoint(reading.passing)

    def _is_unsure(self, reading: _Reading) -> bool:
        return not self._unsure.isdisjoint(reading.read)


def _passed_on(expression: Expression) -> Iterator[str]:
    """The names of which an expression is NaN whenever one is."""
    match expression:
        case Ref(name):
            yield name
        case Convert(of, dtype) if dtype.is_floating and not dtype.is_float4:
            yield from _passed_on(of)
        case Call(op, args) if op in PASS_NAN_ON:
            for arg in args:
                yield from _passed_on(arg)
        case _:
            pass


def _is_copy(expression: Expression) -> bool:
    """Whether an expression is a named value, perhaps in another floating-point type.

    It is NaN only where that is, so not in Float8_e8m0fnu, where what is too large is NaN too.
    """
    match expression:
        case Ref(_, dtype):
            return dtype.is_floating
        case Convert(of, dtype):
            return dtype.is_floating and dtype is not DataType.Float8_e8m0fnu and _is_copy(of)
        case _:
            return False
