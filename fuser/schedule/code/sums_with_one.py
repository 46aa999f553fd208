"""One and an error function, or a hyperbolic tangent, as one function on CUDA.

    T1 = erf(T0)
    T2 = T1 + 1.0            ->      T2 = erf_plus_one(T0)

Beside one, nobody sees how exact a small erf is, so a function of the sum takes half of the
instructions: it needs no choice between two polynomials. Where T0 is far below zero, it has digits
that the sum would lose. So are gelu and its gradient computed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, names_in
from fuser.schedule.tree.expressions import Call, Literal, Ref
from fuser.schedule.tree.statements import Let

_SUMS = {"erf": "erf_plus_one", "tanh": "tanh_plus_one"}
"""The function of the sum with one, for each that has one."""

_TYPE = DataType.Float


def join_sums_with_one(code: Sequence[Code], read_after: Iterable[str]) -> list[Code]:
    """`code`, of whose names stores and folds read those in `read_after`, with such sums of float32
    joined, where nothing else reads the function's value."""
    functions = {node.name: called for node in code if (called := _function(node)) is not None}
    if not functions:
        return list(code)
    reads = Counter((*names_in(code), *read_after))
    beside_one = {node.name: name for node in code if (name := _beside_one(node)) in functions}
    sums = Counter(beside_one.values())
    gone = {name for name in functions if reads[name] == sums[name] > 0}
    made: list[Code] = []
    for node in code:
        name = beside_one.get(node.name)
        if isinstance(node, Let) and name in gone:
            made.append(dataclasses.replace(node, expression=functions[name]))
        elif node.name not in gone:
            made.append(node)
    return made


def _function(node: Code) -> Call | None:
    """The function of the sum with one of what a node computes, if there is one."""
    match node:
        case Let(expression=Call(op, _, dtype, False) as call) if op in _SUMS and dtype is _TYPE:
            return dataclasses.replace(call, op=_SUMS[op])
        case _:
            return None


def _beside_one(node: Code) -> str | None:
    """What a node adds to one."""
    one = Literal(1, _TYPE)
    match node:
        case Let(expression=Call("add", (Ref(name), other) | (other, Ref(name)))) if other == one:
            return name
        case _:
            return None
