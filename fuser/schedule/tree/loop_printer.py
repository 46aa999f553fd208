"""A loop nest as text for people: one line a node, indented as it is nested.

rows_sum [launch=Launch(threaded), index_dtype=Int]
for i0 < 8192 [PARALLEL]:
  T1_lanes = Lanes(dtype=Float, count=64, fill=0)
  for i1 < 768 [SWEEP, step=64]:
    T0 = load T0[768*i0 + i1]
    T1_lanes: Float = add(T1_lanes, T0) [in_lanes]
  T1 = Combine(dtype=Float, arrays=(T1_lanes), kept=Float, count=64, operation=add)
  store T1[i0] = T1

Nodes that are not spelled here are shown by their fields, those that hold their defaults left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from fuser.ir.nodes import Value
from fuser.ir.printer import print_number
from fuser.schedule.indices.index import Axis, Index, Quotient, Remainder, Term, Variable
from fuser.schedule.tree.expressions import Call, Convert, IndexValue, Literal, Ref, SizeValue
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.row_statements import Partial
from fuser.schedule.tree.statements import Let, Load, Store

_IN_LINES = (
    *("name", "axes", "prologue", "body"),
    *("mapping", "parameters", "overwrite_refusal", "not_chosen"),
)
"""Fields of a nest that the lines below its head show, a dump of their own, or the plan."""


def print_nest(nest: LoopNest) -> str:
    """The text of a nest: what it is launched with, then its loop tree."""
    return "\n".join(_NestPrinter(nest).lines(nest)) + "\n"


class _NestPrinter:
    def __init__(self, nest: LoopNest) -> None:
        self._names = {axis: f"i{depth}" for depth, axis in enumerate(nest.axes)}

    def lines(self, nest: LoopNest) -> Iterator[str]:
        yield f"{nest.name} {self._rest(nest, _IN_LINES)}"
        for node in (*nest.prologue, *nest.body):
            yield from self._node(node, "")

    def _node(self, node: Any, indent: str) -> Iterator[str]:
        """The lines of one node: its head, and the nodes it holds."""
        match node:
            case Loop():
                head, shown = self._loop(node), ("axis", "body")
            case Load(name, tensor, at):
                verb = "load" if node.drawn is None else f"draw {node.drawn.distribution}"
                head = f"{name} = {verb} {tensor}[{self._index(at)}]"
                shown = ("name", "tensor", "at")
            case Let(name, dtype, expression):
                head = f"{name}: {dtype.name} = {self._value(expression)}"
                shown = ("name", "dtype", "expression")
            case Store(tensor, at, source):
                head = f"store {tensor}[{self._index(at)}] = {self._value(source)}"
                shown = ("tensor", "at", "source")
            case _:
                yield from self._unspelled(node, indent)
                return
        rest = self._rest(node, shown)
        colon = ":" if isinstance(node, Loop) else ""
        yield f"{indent}{head}{f' {rest}' if rest else ''}{colon}"
        for inside in node.body if isinstance(node, Loop) else ():
            yield from self._node(inside, indent + "  ")

    def _loop(self, loop: Loop) -> str:
        name = self._names.setdefault(loop.axis, f"i{len(self._names)}")
        return f"for {name} < {loop.axis.extent}"

    def _unspelled(self, node: Any, indent: str) -> Iterator[str]:
        """A node by its class and fields; fields that hold nodes are blocks below it."""
        blocks = {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
        blocks = {name: held for name, held in blocks.items() if _holds_nodes(held)}
        given = ", ".join(self._fields(node, ("name", *blocks)))
        name = f"{node.name} = " if hasattr(node, "name") else ""
        given = f"({given})" if given else ""
        yield f"{indent}{name}{type(node).__name__}{given}{':' if blocks else ''}"
        for title, held in blocks.items():
            yield f"{indent}  {title}:"
            for inside in held:
                yield from self._node(inside, indent + "    ")

    def _rest(self, node: Any, shown: tuple[str, ...]) -> str:
        """The fields of a node that are not shown yet, in brackets."""
        given = ", ".join(self._fields(node, shown))
        return f"[{given}]" if given else ""

    def _fields(self, node: Any, shown: Iterable[str]) -> Iterator[str]:
        for field in dataclasses.fields(node):
            held: object = getattr(node, field.name)
            if field.name in shown or held == field.default:
                continue
            if held is True:
                yield field.name
            elif isinstance(held, Enum) and field.name in ("binding", "team"):
                yield held.name
            else:
                yield f"{field.name}={self._value(held)}"

    def _value(self, value: object) -> str:
        """A field's value, or an expression."""
        match value:
            case Ref() | Variable() | Partial():
                return value.name
            case Value():
                return str(value)
            case Literal():
                return print_number(value.value)
            case SizeValue():
                return str(value.number)
            case Convert():
                return f"{value.dtype.name}({self._value(value.of)})"
            case Call():
                return f"{value.op}({', '.join(map(self._value, value.args))})"
            case IndexValue():
                return self._index(value.index)
            case Index():
                return self._index(value)
            case Axis():
                return self._names.get(value, f"axis of {value.extent}")
            case Enum():
                return value.name
            case tuple():
                return f"({', '.join(map(self._value, value))})"  # pyright: ignore[reportUnknownArgumentType]
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return f"{type(value).__name__}({', '.join(self._fields(value, ()))})"
            case _:
                return str(value)

    def _index(self, index: Index) -> str:
        parts = [self._product(term, factor) for term, factor in index.terms]
        if index.constant or not parts:
            parts.append(str(index.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def _product(self, term: Term, factor: int) -> str:
        match term:
            case Quotient():
                text = f"({self._index(term.of)})//{term.divisor}"
            case Remainder():
                text = f"({self._index(term.of)})%{term.divisor}"
            case _:
                text = self._value(term)
        return text if factor == 1 else f"{factor}*{text}"


def _holds_nodes(held: object) -> bool:
    """Whether a field is a tuple of nodes, rather than of numbers or axes."""
    return isinstance(held, tuple) and any(map(_is_node, held))  # pyright: ignore[reportUnknownArgumentType]


def _is_node(held: object) -> bool:
    return dataclasses.is_dataclass(held) and not isinstance(held, Axis)
