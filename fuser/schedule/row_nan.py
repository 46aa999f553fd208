"""Largest and smallest values that need not tell of NaN, because a sum of their row does.

    T1 = max of T0 over the row          if any T0 is NaN, T3 is, and what is computed of it:
    T3 = sum of exp(T0 - T1)             T1 need not be
    store (T0 - T1) - log(T3)

On a processor, a fold that keeps NaN takes three instructions an element, one that does not, one.
"""

from __future__ import annotations

import dataclasses

from fuser.schedule.expressions import Call, Convert, Expression, Ref, refs
from fuser.schedule.folds import is_extreme, takes_each_once
from fuser.schedule.index import Axis
from fuser.schedule.row_body import Fold, RowBody, Sweep, names_in
from fuser.schedule.statements import Let

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

    def marked(fold: Fold, axes: tuple[Axis, ...]) -> Fold:
        if fold.slots is not None or not (is_extreme(fold.operation) and fold.dtype.is_floating):
            return fold
        return dataclasses.replace(fold, keeps_nan=not _is_repeated(body, fold, axes))

    stages = (
        dataclasses.replace(sweep, folds=tuple(marked(fold, sweep.axes) for fold in sweep.folds))
        for sweep in body.stages
    )
    return dataclasses.replace(body, stages=tuple(stages))


def _is_repeated(body: RowBody, extreme: Fold, axes: tuple[Axis, ...]) -> bool:
    """Whether all that leaves a row is the same whether or not an extreme keeps NaN."""
    reach = _Reach(extreme, axes)
    return all(map(reach.walked, body.sweeps))


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

    def walked(self, sweep: Sweep) -> bool:
        """Notes what a sweep makes; whether nothing unsure leaves the row there."""
        for node in sweep.code:
            if isinstance(node, Let):
                self._let(node)
            elif not self._unsure.isdisjoint(names_in((node,))):
                return False
        for fold in sweep.folds:
            if not self._fold(fold, sweep.axes):
                return False
        return all(
            _follows(store.source, self._of_row) or self._unsure.isdisjoint(names_in((store,)))
            for store in sweep.stores
        )

    def _let(self, let: Let) -> None:
        if let.name in self._of_element and _is_copy(let.expression):
            self._of_element.update(refs(let.expression))
        if _follows(let.expression, self._of_element):
            self._of_element.add(let.name)
        if _follows(let.expression, self._of_row):
            self._of_row.add(let.name)
        elif not self._unsure.isdisjoint(names_in((let,))):
            self._unsure.add(let.name)

    def _fold(self, fold: Fold, axes: tuple[Axis, ...]) -> bool:
        if fold.name == self._extreme.name:
            self._unsure.add(fold.name)
            return True
        if takes_each_once(fold.operation) and (
            _follows(fold.value, self._of_row)
            or (axes == self._axes and _follows(fold.value, self._of_element))
        ):
            self._of_row.add(fold.name)
            return True
        if not self._unsure.isdisjoint(names_in((fold,))):
            self._unsure.add(fold.name)
            return fold.slots is None
        return True


def _follows(expression: Expression, names: set[str]) -> bool:
    """Whether an expression is NaN whenever one of `names` is."""
    match expression:
        case Ref(name):
            return name in names
        case Convert(of, dtype):
            return dtype.is_floating and _follows(of, names)
        case Call(op, args):
            return op in PASS_NAN_ON and any(_follows(arg, names) for arg in args)
        case _:
            return False


def _is_copy(expression: Expression) -> bool:
    """Whether an expression is a named value, perhaps in another floating-point type."""
    match expression:
        case Ref(_, dtype):
            return dtype.is_floating
        case Convert(of, dtype):
            return dtype.is_floating and _is_copy(of)
        case _:
            return False
