"""Cheaper arithmetic where what is known of a row says that it will do.

    T1 = max of T0 over the row          T2 <= 0 or NaN: its exponential is a simpler function
    T2 = T0 - T1                         T4 >= 1 or NaN: the largest element contributes e^0, so
    T4 = sum of exp(T2)                  dividing by it may be multiplying by its reciprocal

A quotient so made is within 1.5 units in the last place instead of 0.5. Of other divisors that are
one for the row, the product with the reciprocal is corrected by the remainder, where the target
takes more instructions to divide:

    T6 = T5 / T1      ->      once: T1_scale, T1_scaled = T1 * T1_scale, T1_inverse = 1 / T1_scaled
                              T6 = quotient of T5 by these
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from fuser.ir.dtypes import DataType
from fuser.ir.references import divisor_scale
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import Code, RowBody, Sweep
from fuser.schedule.code.widening import unwidened, widened_in
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.powers import sums_in
from fuser.schedule.tree.expressions import Call, Convert, Expression, Literal, Ref
from fuser.schedule.tree.statements import Let, Load


def use_facts(body: RowBody, *, by_inverse: bool = False) -> RowBody:
    """`body` with exponentials and quotients of softmax's kind made cheaper; `by_inverse`, all of
    float32 whose divisor is one for the row, or for all of them."""
    facts = _Facts(by_inverse, body.prologue)
    stages = tuple(stage for sweep in body.stages for stage in facts.refined(sweep))
    return dataclasses.replace(body, stages=stages)


def divide_by_inverses(body: Body) -> Body:
    """The same of quotients alone, for points: a thread has several of them."""
    facts = _Facts(True, body.prologue)
    *_, sweep = facts.refined(body)
    return dataclasses.replace(body, prologue=(*body.prologue, *facts.once), code=sweep.code)


class _Facts:
    """What is known of the row's values, as its sweeps are walked."""

    def __init__(self, by_inverse: bool, prologue: Iterable[Load | Let]) -> None:
        self._by_inverse = by_inverse
        self._of_row = {let.name for let in prologue}
        """Values that a row has once; at first, those that are one for all rows."""
        self._maxima: dict[str, tuple[Expression, tuple[Axis, ...]]] = {}
        """Folds that are a row's largest value: of what, over which axes."""
        self._nonpositive: dict[str, tuple[Axis, ...]] = {}
        """Differences from a largest value, and over which axes it is the largest."""
        self._powers: dict[str, tuple[Axis, ...]] = {}
        """e to such differences."""
        self._from_one: set[str] = set()
        """Values that are at least 1, or NaN."""
        self._once_a_row: dict[str, Let] = {}
        self._widened: dict[str, Expression] = {}
        """Values that are others made wider, and these."""

    @property
    def once(self) -> tuple[Let, ...]:
        """What is computed once for quotients."""
        return tuple(self._once_a_row.values())

    def refined(self, sweep: Sweep) -> list[Sweep]:
        """A sweep with what is known so far used, after the row values that this needs."""
        before = set(self._once_a_row)
        self._widened |= widened_in(sweep.code)
        code = tuple(map(self._node, sweep.code)) if sweep.axes else sweep.code
        if not sweep.axes:
            self._of_row.update(node.name for node in code if isinstance(node, Let))
        for fold in sweep.folds_of_row:
            self._of_row.add(fold.name)
            if fold.operation == "maximum":
                self._maxima[fold.name] = unwidened(fold.value, self._widened), sweep.axes
        powers = {name for name, axes in self._powers.items() if axes == sweep.axes}
        self._from_one.update(sums_in(sweep, powers))
        new = tuple(let for name, let in self._once_a_row.items() if name not in before)
        row = [Sweep((), new)] if new else []
        return [*row, dataclasses.replace(sweep, code=code)]

    def _node(self, node: Code) -> Code:
        if not isinstance(node, Let) or not isinstance(node.expression, Call):
            return node
        if node.expression.alike:
            return node
        call = node.expression
        match call.op, call.args:
            case "sub", (value, (Ref(name) | Convert(Ref(name)))) if name in self._maxima:
                largest_of, axes = self._maxima[name]
                if unwidened(value, self._widened) == largest_of:
                    self._nonpositive[node.name] = axes
            case "exp", (Ref(name),) if name in self._nonpositive:
                self._powers[node.name] = self._nonpositive[name]
                if call.dtype is DataType.Float:
                    call = dataclasses.replace(call, op="exp_nonpositive")
            case "truediv" | "div", (value, Ref(name)) if name in self._from_one:
                inverse = self._once(f"{name}_reciprocal", "reciprocal", Ref(name, call.dtype))
                call = Call("mul", (value, inverse), call.dtype)
            case "truediv" | "div", (_, Ref(name)) if self._by_inverse and name in self._of_row:
                if call.dtype is DataType.Float and call.args[1].dtype is DataType.Float:
                    call = self._corrected(call.args[0], Ref(name, call.dtype))
            case "truediv" | "div", (value, Literal() as divisor) if self._by_inverse:
                if call.dtype is DataType.Float and divisor.dtype is DataType.Float:
                    call = _by_literal(call, value, divisor)
            case _:
                pass
        return dataclasses.replace(node, expression=call)

    def _corrected(self, value: Expression, divisor: Ref) -> Call:
        """A quotient by what is known of a divisor from once a row."""
        scale = self._once(f"{divisor.name}_scale", "divisor_scale", divisor)
        scaled = self._once(f"{divisor.name}_scaled", "mul", divisor, scale)
        inverse = self._once(f"{divisor.name}_inverse", "reciprocal", scaled)
        return Call("quotient_of_scaled", (value, scale, scaled, inverse), divisor.dtype)

    def _once(self, name: str, operation: str, *args: Ref) -> Ref:
        """A value that is computed once a row."""
        dtype = args[0].dtype
        self._once_a_row.setdefault(name, Let(name, dtype, Call(operation, args, dtype)))
        return Ref(name, dtype)


def _by_literal(call: Call, value: Expression, divisor: Literal) -> Call:
    """A quotient by a number of the text, corrected; itself, where the reciprocal is exact, or the
    number is 0 or not finite."""
    number = torch.tensor(float(divisor.value.real), dtype=torch.float32)
    mantissa, _ = torch.frexp(number)
    if not mantissa.isfinite() or mantissa.abs() in (0.0, 0.5):
        return call
    scale = divisor_scale(number)
    parts = (
        Literal(part.item(), call.dtype) for part in (scale, number * scale, 1 / (number * scale))
    )
    return Call("quotient_of_scaled", (value, *parts), call.dtype)
