"""Equal operations on equal operands are computed once.

    T1 = fd.ops.exp(T0)
    T2 = fd.ops.exp(T0)         ->     T1 = fd.ops.exp(T0)
    T3 = fd.ops.add(T1, T2)            T3 = fd.ops.add(T1, T1)

The state of torch's generator is another each time, so random numbers are equal where their seed
and offset are given. `segment_set` marks a place. Neither it nor a state is merged, nor are two
results that are outputs, or that outputs are views of: each is a tensor of its own.
"""

from __future__ import annotations

from functools import cached_property

from fuser.ir import externs
from fuser.ir.nodes import (
    Fusion,
    GeneratorState,
    Operation,
    Pointwise,
    Statement,
    Value,
)
from fuser.passes.layouts import Layouts
from fuser.passes.rewrite import rebuilt, renamed


def merge_common_subexpressions(fusion: Fusion) -> Fusion:
    """`fusion` with the later of two equal statements replaced by the earlier."""
    first: dict[Operation, tuple[Value, ...]] = {}
    replaced: dict[Value, Value] = {}
    statements: list[Statement] = []
    outputs = _Outputs(fusion)
    for original in fusion.statements:
        statement = renamed(original, replaced)
        op = statement.op
        found = first.get(op) if _is_pure(op) else None
        if found is not None and not outputs.lie_in_both(original.outs, found):
            replaced.update(zip(statement.outs, found, strict=True))
            continue
        first.setdefault(op, statement.outs)
        statements.append(statement)
    return rebuilt(fusion, statements, replaced)


class _Outputs:
    """In whose memory the outputs of a fusion lie. Looked at only where something is merged."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._values = [out.value for out in fusion.outputs if out.alias_of is None]

    def lie_in_both(self, outs: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
        """Whether some lie in the memory of one of these and some in that of its equal."""
        pairs = [p for p in zip(outs, others, strict=True) if all(v.is_tensor for v in p)]
        return len(self._values) > 1 and any(self._are_apart(*pair) for pair in pairs)

    def _are_apart(self, one: Value, other: Value) -> bool:
        bases = {self._layouts[one].base, self._layouts[other].base}
        return len(bases) == 2 and bases <= self._bases

    @cached_property
    def _layouts(self) -> Layouts:
        return Layouts.of(self._fusion)

    @cached_property
    def _bases(self) -> frozenset[Value]:
        return frozenset(self._layouts[value].base for value in self._values)


def _is_pure(op: Operation) -> bool:
    match op:
        case GeneratorState() | Pointwise(op="segment_set"):
            return False
        case _:
            return not externs.draws(op)
