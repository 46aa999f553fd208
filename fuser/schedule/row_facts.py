"""Cheaper arithmetic where what is known of a row says that it will do.

    T1 = max of T0 over the row          T2 <= 0 or NaN: its exponential is a simpler function
    T2 = T0 - T1                         T4 >= 1 or NaN: the largest element contributes e^0, so
    T4 = sum of exp(T2)                  dividing by it may be multiplying by its reciprocal

A quotient so made is within 1.5 units in the last place instead of 0.5.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import DataType
from fuser.schedule.index import Axis
from fuser.schedule.loop_tree import Call, Convert, Expression, Let, Ref
from fuser.schedule.row_body import Code, RowBody, Sweep


def use_facts(body: RowBody) -> RowBody:
    """`body` with exponentials and quotients of softmax's kind made cheaper."""
    facts = _Facts()
    stages = tuple(stage for sweep in body.stages for stage in facts.refined(sweep))
    return dataclasses.replace(body, stages=stages)


class _Facts:
    """What is known of the row's values, as its sweeps are walked."""

    def __init__(self) -> None:
        self._maxima: dict[str, tuple[Expression, tuple[Axis, ...]]] = {}
        """Folds that are a row's largest value: of what, over which axes."""
        self._nonpositive: dict[str, tuple[Axis, ...]] = {}
        """Differences from a largest value, and over which axes it is the largest."""
        self._powers: dict[str, tuple[Axis, ...]] = {}
        """e to such differences."""
        self._from_one: set[str] = set()
        """Values that are at least 1, or NaN."""
        self._reciprocals: dict[str, Let] = {}
        self._widened: dict[str, Expression] = {}
        """16-bit numbers as float32: of what."""

    def refined(self, sweep: Sweep) -> list[Sweep]:
        """A sweep with what is known so far used, after the row values that this needs."""
        before = set(self._reciprocals)
        code = tuple(map(self._node, sweep.code)) if sweep.axes else sweep.code
        for fold in sweep.folds:
            if fold.slots is not None:
                continue
            if fold.operation == "maximum":
                self._maxima[fold.name] = self._narrow(fold.value), sweep.axes
            elif fold.operation == "add" and self._is_power(fold.value, sweep.axes):
                self._from_one.add(fold.name)
        new = tuple(let for name, let in self._reciprocals.items() if name not in before)
        row = [Sweep((), new, (), ())] if new else []
        return [*row, dataclasses.replace(sweep, code=code)]

    def _node(self, node: Code) -> Code:
        if isinstance(node, Let) and isinstance(node.expression, Convert):
            self._widened[node.name] = _narrow(node.expression)
        if not isinstance(node, Let) or not isinstance(node.expression, Call):
            return node
        call = node.expression
        match call.op, call.args:
            case "sub", (value, (Ref(name) | Convert(Ref(name)))) if name in self._maxima:
                largest_of, axes = self._maxima[name]
                if self._narrow(value) == largest_of:
                    self._nonpositive[node.name] = axes
            case "exp", (Ref(name),) if name in self._nonpositive:
                self._powers[node.name] = self._nonpositive[name]
                if call.dtype is DataType.Float:
                    call = dataclasses.replace(call, op="exp_nonpositive")
            case "truediv" | "div", (value, Ref(name)) if name in self._from_one:
                call = Call("mul", (value, self._reciprocal(name, call.dtype)), call.dtype)
            case _:
                pass
        return dataclasses.replace(node, expression=call)

    def _narrow(self, value: Expression) -> Expression:
        """A value as it was before it became wider, if it did."""
        known = self._widened.get(value.name) if isinstance(value, Ref) else None
        return _narrow(value if known is None else known)

    def _is_power(self, value: Expression, axes: tuple[Axis, ...]) -> bool:
        """Whether a value is e to the difference from the largest one over `axes`."""
        return isinstance(value, Ref) and self._powers.get(value.name) == axes

    def _reciprocal(self, divisor: str, dtype: DataType) -> Ref:
        name = f"{divisor}_reciprocal"
        expression = Call("reciprocal", (Ref(divisor, dtype),), dtype)
        self._reciprocals.setdefault(name, Let(name, dtype, expression))
        return Ref(name, dtype)


def _narrow(value: Expression) -> Expression:
    """What a value is made of by a conversion that changes no number, or itself."""
    if isinstance(value, Convert) and value.dtype is value.of.dtype.compute:
        return value.of
    return value
