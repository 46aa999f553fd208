"""The walk that passes share: statements in order, operands replaced as earlier rules decided.

    T5 = fd.ops.index_select(T0, T3, dim=1)
->  T9 = fd.ops.slice(T0, ...)                  rule: emit.add(Slice(T0, ...)), then
    T5 = fd.ops.expand(T9, shape=[4, 8])        return emit.add(Expand(T9, (4, 8)))

No output's strides change, whatever a rule does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Expand,
    Fusion,
    Operation,
    Slice,
    Statement,
    StrideOrder,
    Value,
    map_operands,
    operands,
)
from fuser.ir.types import TensorType, ValueType
from fuser.passes.layouts import (
    Layouts,
    Seen,
    alike,
    layout_to_restore,
    seen_layouts,
)


class Emitter:
    """The statements a rewritten fusion has so far; a rule looks at them and adds to them."""

    def __init__(self, fusion: Fusion) -> None:
        self._next_id = fusion.fresh_id
        self._definitions: dict[Value, Statement] = {}
        self._added: dict[Operation, Value] = {}
        self.statements: list[Statement] = []

    def add(self, op: Operation) -> Value:
        """The result of one more statement, numbered above all others, or of an equal one added."""
        if op in self._added:
            return self._added[op]
        (type_,) = infer(op)
        out = Value(self._next_id, type_)
        self._next_id += 1
        self._added[op] = out
        self.append(Statement((out,), op))
        return out

    def expanded(self, value: Value, shape: tuple[int, ...]) -> Value:
        """`value` in a shape that it broadcasts to."""
        new = len(shape) - len(value.shape)
        if new:
            flags = (*(True,) * new, *(False,) * len(value.shape))
            value = self.add(Broadcast(value, flags))
        return value if value.shape == shape else self.add(Expand(value, shape))

    def cast(self, value: Value, dtype: DataType) -> Value:
        """`value` in a type: itself, if it is."""
        return value if value.dtype is dtype else self.add(Cast(value, dtype))

    def leading(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The first elements of `value` along each dimension."""
        if value.shape == shape:
            return value
        return self.add(Slice(value, (0,) * len(shape), shape, (1,) * len(shape)))

    def append(self, statement: Statement) -> None:
        """Add a statement whose results are numbered."""
        self.statements.append(statement)
        for out in statement.outs:
            self._definitions[out] = statement

    def producer(self, value: Value) -> Operation | None:
        """The operation that makes a value; None for an input."""
        statement = self._definitions.get(value)
        return None if statement is None else statement.op

    def drop(self, length: int) -> None:
        """Take back all statements but the first `length`."""
        for statement in self.statements[length:]:
            self._added.pop(statement.op, None)
            for out in statement.outs:
                del self._definitions[out]
        del self.statements[length:]


Rule = Callable[[Statement, Emitter], Operation | Value | None]
"""What becomes of a statement with one result, whose operands are rewritten: another operation, an
earlier value that it equals or one that the rule has added, or None for no change. Of the
operations added before None is returned, nothing stays."""


def rewrite(fusion: Fusion, rule: Rule, *, may_copy: bool = False) -> Fusion:
    """`fusion` with `rule` applied to each statement once, in order.

    A change is not made that would alter the strides of an output, hand out as an output what is an
    input or another output, or make memory of its own for one that is a view of another. If the
    rewrite `may_copy`, it is made with a `StrideOrder` that lays the result out as before.
    """
    return _Rewrite(fusion, rule, may_copy).run()


@dataclass(frozen=True, slots=True)
class _Change:
    """What a result is made by, or what it equals, and its type."""

    to: Operation | Value
    type: ValueType


class _Rewrite:
    """Carries what is replaced by what."""

    def __init__(self, fusion: Fusion, rule: Rule, may_copy: bool) -> None:
        self._fusion = fusion
        self._rule = rule
        self._may_copy = may_copy
        self._emit = Emitter(fusion)
        self._replaced: dict[Value, Value] = {}
        self._bases: dict[Value, Value] = {}
        """By a value whose memory an output has: in which one's it is now."""
        self._followed = 0

    def run(self) -> Fusion:
        for statement in self._fusion.statements:
            self._visit(renamed(statement, self._replaced))
        return rebuilt(self._fusion, self._emit.statements, self._replaced)

    def _visit(self, statement: Statement) -> None:
        emit = self._emit
        before = len(emit.statements)
        change = self._rule(statement, emit)
        if change is not None and self._accept(statement.out, self._change(change, before)):
            return
        emit.drop(before)
        self._followed = min(self._followed, before)
        emit.append(statement)

    def _change(self, change: Operation | Value, before: int) -> _Change:
        """What a rule gave; the operation of the last statement it has added, if it is that."""
        if not isinstance(change, Value):
            return _Change(change, infer(change)[0])
        statements = self._emit.statements
        if len(statements) == before or statements[-1].out != change:
            return _Change(change, _computed(change.type))
        op = statements[-1].op
        self._emit.drop(len(statements) - 1)
        return _Change(op, change.type)

    def _accept(self, out: Value, change: _Change) -> bool:
        """Make the change, unless an output would show it."""
        assert change.type == out.type, f"{out} would become {change.type}, not {out.type}"
        to = change.to
        if not self._keeps_layout(out, to):
            order = layout_to_restore(out, self._old[out]) if self._may_copy else None
            if order is None:
                return False
            to = StrideOrder(to if isinstance(to, Value) else self._emit.add(to), order)
        if isinstance(to, Value):
            self._replaced[out] = to
        else:
            self._emit.append(Statement((out,), to))
        return True

    # -- layouts, looked at only where something changes -----------------------------------------

    def _keeps_layout(self, out: Value, change: Operation | Value) -> bool:
        seen = self._seen.get(out, Seen.NOTHING)
        if seen is Seen.NOTHING or not out.is_tensor:
            return True
        for statement in self._emit.statements[self._followed :]:
            self._new.follow(statement)
        self._followed = len(self._emit.statements)
        is_value = isinstance(change, Value)
        old, new = self._old[out], self._new[change] if is_value else self._new.result(change, out)
        if not alike(old, new, seen):
            return False
        if seen is Seen.MEMORY and new.base not in (old.base, self._bases.get(old.base)):
            if old.base in self._inputs or new.base in self._shared or self._is_held(old.base):
                return False
            self._shared.add(new.base)
            self._bases[old.base] = new.base  # what shared the one may share the other
        return True

    def _is_held(self, base: Value) -> bool:
        """Whether an output before this is in the memory of a value, as it was."""
        held = (v for v in self._fusion.output_values if self._emit.producer(v) is not None)
        return any(base == self._old[value].base == self._new[value].base for value in held)

    @cached_property
    def _seen(self) -> dict[Value, Seen]:
        return seen_layouts(self._fusion)

    @cached_property
    def _old(self) -> Layouts:
        return Layouts.of(self._fusion)

    @cached_property
    def _new(self) -> Layouts:
        return Layouts(self._fusion, beside=self._old)

    @cached_property
    def _inputs(self) -> frozenset[Value]:
        return frozenset(self._fusion.inputs)

    @cached_property
    def _shared(self) -> set[Value]:
        """Values whose memory callers hold, as an input or as an output."""
        outputs = (self._old[value].base for value in self._fusion.output_values)
        return {*self._inputs, *outputs}


def rebuilt(
    fusion: Fusion, statements: Iterable[Statement], replaced: dict[Value, Value]
) -> Fusion:
    """`fusion` with other statements, and outputs where they were, under their names."""
    names = _kept_names(fusion, replaced)
    if names:
        statements = [
            Statement(tuple(names.get(out, out) for out in each.outs), renamed(each, names).op)
            for each in statements
        ]
    replaced = {old: names.get(new, new) for old, new in replaced.items()}
    outputs = tuple(
        dataclasses.replace(output, value=replaced[output.value])
        if output.value in replaced
        else output
        for output in fusion.outputs
    )
    return dataclasses.replace(fusion, statements=tuple(statements), outputs=outputs)


def _kept_names(fusion: Fusion, replaced: Mapping[Value, Value]) -> dict[Value, Value]:
    """The values that stand for others, under the names of these, which plans tell of: those of
    outputs, and of what the definition has where a pass has made what stands for it.

    Inputs and other outputs have names of their own.
    """
    outputs, first = fusion.output_values, fusion.numbered
    kept = {*fusion.inputs, *(value for value in outputs if value not in replaced)}
    names: dict[Value, Value] = {}
    inner = (old for old, new in replaced.items() if old.id < first <= new.id)
    for old in (*outputs, *inner):
        new = replaced.get(old)
        if new is not None and new not in kept and new not in names:
            names[new] = dataclasses.replace(new, id=old.id)
    return names


def renamed(statement: Statement, replaced: Mapping[Value, Value]) -> Statement:
    """`statement`, reading what its operands were replaced by."""
    if not replaced or replaced.keys().isdisjoint(operands(statement.op)):
        return statement
    op = map_operands(statement.op, lambda value: replaced.get(value, value))
    return Statement(statement.outs, op)


def _computed(type_: ValueType) -> ValueType:
    """A type without what is declared of inputs only."""
    if isinstance(type_, TensorType) and (type_.layout is not None or type_.is_cpu):
        return TensorType(type_.dtype, type_.shape)
    return type_
