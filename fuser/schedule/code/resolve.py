"""Selections by place whose outcome the bounds of the axes decide.

    T4_place: Int32 = 64 + i1                      (i1 < 64)
    T4_place_from: Bool = ge(T4_place, 64)         always
    T4: Float = where(T4_place_from, T1, T3)   ->  T1 is used for T4

What nothing reads any more, comparisons, arithmetic and loads, is left out, and so are sums with
the zeros that pads have there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import assert_never

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import AnySweep, Code, without_dead_code
from fuser.schedule.code.zero_sums import is_unsigned, without_zero
from fuser.schedule.indices.index import Index
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
)
from fuser.schedule.tree.row_statements import Keep, KeepAt
from fuser.schedule.tree.statements import CheckedIndex, Let


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether an index is at least `threshold`; with `below`, whether it is not."""

    index: Index
    threshold: int
    below: bool


def resolve(sweep: AnySweep) -> AnySweep:
    """A sweep without the selections that its axes decide."""
    return without_dead_code(with_known(sweep, *decided(sweep.lets)))


def with_known(sweep: AnySweep, known: Mapping[str, Expression], lets: Iterable[Let]) -> AnySweep:
    """A sweep that reads what is `known` of names, and makes the others by these `lets`. Indices,
    of any sweep, still read what is known by its name."""
    left = {let.name: let for let in lets}
    code: list[Code] = []
    for node in sweep.code:
        match node:
            case Let() if node.name in left:
                code.append(left[node.name])
            case Let():
                code.append(dataclasses.replace(node, expression=known[node.name]))
            case CheckedIndex():
                code.append(dataclasses.replace(node, value=replaced(node.value, known)))
            case KeepAt():
                code.append(dataclasses.replace(node, source=replaced(node.source, known)))
            case Keep(source=source) if source is not None or node.name in known:
                kept = replaced(source, known) if source is not None else known[node.name]
                code.append(dataclasses.replace(node, source=kept))
            case _:
                code.append(node)
    folds = (dataclasses.replace(f, value=replaced(f.value, known)) for f in sweep.folds)
    stores = (dataclasses.replace(s, source=replaced(s.source, known)) for s in sweep.stores)
    return dataclasses.replace(sweep, code=tuple(code), folds=tuple(folds), stores=tuple(stores))


def decided(all_lets: Sequence[Let]) -> tuple[dict[str, Expression], list[Let]]:
    """Names that stand for other values once selections are made, with these; the other lets."""
    known: dict[str, Expression] = {}
    unsigned: set[str] = set()
    found = comparisons(all_lets)
    lets: list[Let] = []
    for let in all_lets:
        outcome = _decided(found[let.name]) if let.name in found else None
        if outcome is None:
            expression = without_zero(replaced(let.expression, known), unsigned)
        else:
            expression = Literal(outcome, DataType.Bool)
        if isinstance(expression, Ref | Literal) and expression.dtype is let.dtype:
            known[let.name] = expression
        else:
            same = expression is let.expression
            lets.append(let if same else dataclasses.replace(let, expression=expression))
            if expression.dtype is let.dtype and is_unsigned(expression, unsigned):
                unsigned.add(let.name)
    return known, lets


def comparisons(lets: Iterable[Let]) -> dict[str, Comparison]:
    """By name: the lets that compare a place with a number that follows from sizes."""
    places: dict[str, Index] = {}
    found: dict[str, Comparison] = {}
    for let in lets:
        match let.expression:
            case IndexValue(index):
                places[let.name] = index
            case Call("ge" | "lt" as comparison, (place, SizeValue(number))):
                read = place.of if isinstance(place, Convert) else place
                if isinstance(read, Ref) and read.name in places:
                    index = places[read.name]
                    found[let.name] = Comparison(index, number, below=comparison == "lt")
            case _:
                pass
    return found


def _decided(comparison: Comparison) -> bool | None:
    low, high = comparison.index.bounds()
    if low >= comparison.threshold:
        return not comparison.below
    return comparison.below if high < comparison.threshold else None


def replaced(expression: Expression, known: Mapping[str, Expression]) -> Expression:
    """An expression with what is known put in, and its selections made where that decides them."""
    match expression:
        case Ref():
            return known.get(expression.name, expression)
        case Convert(of):
            read = replaced(of, known)
            return expression if read is of else dataclasses.replace(expression, of=read)
        case Call(op, args):
            read = tuple([replaced(arg, known) for arg in args])
            chosen = _chosen(read) if op == "where" else None
            if chosen is not None:
                return chosen
            same = all(map(is_, read, args))
            return expression if same else dataclasses.replace(expression, args=read)
        case Literal() | SizeValue() | IndexValue():
            return expression
        case _:
            assert_never(expression)


def lets_replaced(code: Iterable[Code], known: Mapping[str, Expression]) -> list[Code]:
    """Code whose lets read what is known."""
    return [
        dataclasses.replace(node, expression=replaced(node.expression, known))
        if isinstance(node, Let)
        else node
        for node in code
    ]


def _chosen(args: tuple[Expression, ...]) -> Expression | None:
    """What `where` gives of arguments the first of which is known, or both of which are equal."""
    condition, one, other = args
    if isinstance(condition, Literal):
        return one if condition.value else other
    return one if one == other else None
