"""Comparisons of 64-bit integers in 32 bits, where both sides are known to fit.

    T2 = index along the row, Int             T2_narrow = the same, Int32
    T3 = an index that was checked, Int       T3_narrow = Int32(T3)
    T4 = T2 == T3                             T4 = T2_narrow == T3_narrow

So are masks compared, and where the scores of a loss are the target's: vectors hold twice as many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fuser.ir.dtypes import DataType, holds
from fuser.schedule.body import Body
from fuser.schedule.emit import convert
from fuser.schedule.loop_tree import Call, CheckedIndex, Expression, IndexValue, Let, Literal, Ref
from fuser.schedule.row_body import Code, RowBody, Sweep

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_NARROW, _WIDE = DataType.Int32, DataType.Int


def narrow_points(body: Body) -> Body:
    """`body` with such comparisons narrow."""
    lets = [node for node in _Narrow().code(body.lets) if isinstance(node, Let)]
    return dataclasses.replace(body, lets=tuple(lets))


def narrow_rows(body: RowBody) -> RowBody:
    """The same for rows; what is known of a stage holds in later ones."""
    narrow = _Narrow()
    stages = tuple(narrow.stage(sweep) for sweep in body.stages)
    return dataclasses.replace(body, stages=stages)


class _Narrow:
    """What 64-bit integers are in 32 bits, by name."""

    def __init__(self) -> None:
        self._fitting: dict[str, Let] = {}
        self._of_row: dict[Code, None] = {}
        """What a stage without axes has made: all later stages see it."""

    def stage(self, sweep: Sweep) -> Sweep:
        """A stage with such comparisons narrow."""
        made = tuple(node for node in self.code(sweep.code) if node not in self._of_row)
        if not sweep.axes:
            self._of_row.update(dict.fromkeys(made))
        return dataclasses.replace(sweep, code=made)

    def code(self, nodes: Iterable[Code]) -> tuple[Code, ...]:
        """Nodes with such comparisons narrow, after what makes their operands so."""
        made: dict[Code, None] = {}
        for node in nodes:
            self._note(node)
            for changed in self._compared(node):
                made[changed] = None
        return tuple(made)

    def _compared(self, node: Code) -> list[Code]:
        if not isinstance(node, Let) or not isinstance(node.expression, Call):
            return [node]
        call = node.expression
        narrow = [found for arg in call.args if (found := self._operand(arg)) is not None]
        if call.op not in _COMPARISONS or len(narrow) < len(call.args):
            return [node]
        lets = [let for let, _ in narrow if let is not None]
        args = tuple(expression for _, expression in narrow)
        changed = dataclasses.replace(call, args=args)
        return [*lets, dataclasses.replace(node, expression=changed)]

    def _note(self, node: Code) -> None:
        match node:
            case Let(name, DataType.Int, IndexValue(index)):
                if all(holds(_NARROW, bound) for bound in index.bounds()):
                    self._fits(name, IndexValue(index, _NARROW))
            case Let(name, DataType.Int, Ref(other)) if other in self._fitting:
                self._fitting[name] = self._fitting[other]
            case CheckedIndex(name, size=size) if holds(_NARROW, size):
                self._fits(name, convert(Ref(name, _WIDE), _NARROW))
            case _:
                pass

    def _fits(self, name: str, narrow: Expression) -> None:
        self._fitting[name] = Let(f"{name}_narrow", _NARROW, narrow)

    def _operand(self, operand: Expression) -> tuple[Let | None, Expression] | None:
        """What computes it in 32 bits, and what it then is; None if it may not fit."""
        match operand:
            case Ref(name, DataType.Int) if name in self._fitting:
                let = self._fitting[name]
                return let, Ref(let.name, _NARROW)
            case Literal(int() as value, DataType.Int) if holds(_NARROW, value):
                return None, Literal(value, _NARROW)
            case _:
                return None
