"""Fusion + sizes -> the same fusion with every extent static.

    T1 = fd.ops.reshape(T0, new_shape=[-1, 64])      T0: Float[-1, -1], executed with [32, 128]
 -> T1 = fd.ops.reshape(T0, new_shape=[64, 64])      T0: Float[32, 128]

Scalars that follow from sizes and constants become constants. Generated kernels still take their
sizes as arguments; static extents are for the decisions before that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import torch

from fuser.errors import ScalarEvaluationError, TensorSizeError
from fuser.ir import externs
from fuser.ir.dtypes import Category
from fuser.ir.infer import infer
from fuser.ir.interpret import evaluate
from fuser.ir.nodes import (
    Cast,
    Constant,
    Expand,
    Extent,
    Extern,
    Full,
    Fusion,
    Inputs,
    Iota,
    Number,
    Operation,
    Output,
    Pad,
    Pointwise,
    Random,
    SizeOf,
    Slice,
    Statement,
    Value,
    View,
    map_operands,
    operands,
)
from fuser.ir.printer import print_statement
from fuser.ir.types import DYNAMIC, TensorType

_CPU = torch.device("cpu")


def size_inputs(fusion: Fusion) -> frozenset[Value]:
    """The scalar inputs that some extent depends on: a plan is made for their values."""
    definitions = fusion.definitions()
    pending = [
        extent
        for statement in fusion.statements
        for extent in _extents(statement.op)
        if isinstance(extent, Value)
    ]
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in definitions:
            pending += [v for v in operands(definitions[value].op) if not v.is_tensor]
    return frozenset(value for value in fusion.inputs if value in seen)


def has_any_size(fusion: Fusion) -> bool:
    """Whether inputs of other sizes fit a definition, too."""
    types = (value.type for value in fusion.inputs)
    dynamic = any(isinstance(type_, TensorType) and DYNAMIC in type_.shape for type_ in types)
    return dynamic or bool(size_inputs(fusion))


def concretize(
    fusion: Fusion, shapes: Mapping[Value, tuple[int, ...]], scalars: Mapping[Value, Number]
) -> Fusion:
    """`fusion` for tensor inputs of these sizes and, where sizes depend on them, scalar inputs.

    Raises the errors of `infer` where sizes do not fit an operation.
    """
    return _Concretizer(shapes, scalars).run(fusion)


def concretize_for(fusion: Fusion, inputs: Inputs) -> Fusion:
    """`fusion` for the sizes of one call's inputs, which fit it. Raises as `concretize` does."""
    sized = size_inputs(fusion)
    shapes: dict[Value, tuple[int, ...]] = {}
    scalars: dict[Value, Number] = {}
    for value, given in zip(fusion.inputs, inputs, strict=True):
        if isinstance(given, torch.Tensor):
            shapes[value] = tuple(given.shape)
        elif value in sized:
            scalars[value] = given
    return concretize(fusion, shapes, scalars)


class _Concretizer:
    """Carries the values made so far and the scalars whose number is known."""

    def __init__(
        self, shapes: Mapping[Value, tuple[int, ...]], scalars: Mapping[Value, Number]
    ) -> None:
        self._shapes = shapes
        self._made: dict[Value, Value] = {}
        self._known: dict[Value, torch.Tensor] = {
            value: torch.tensor(number, dtype=value.dtype.torch, device=_CPU)
            for value, number in scalars.items()
        }
        self._sized: set[Value] = set()
        """Scalars that follow from sizes."""

    def run(self, fusion: Fusion) -> Fusion:
        def made(value: Value | None) -> Value | None:
            return None if value is None else self._made[value]

        inputs = tuple(self._input(value) for value in fusion.inputs)
        statements = tuple(self._statement(statement) for statement in fusion.statements)
        outputs = tuple(
            Output(self._made[output.value], made(output.alias_of), made(shown))
            for output, shown in zip(fusion.outputs, fusion.shown_in(), strict=True)
        )
        return Fusion(inputs, statements, outputs)

    def _input(self, value: Value) -> Value:
        type_ = value.type
        if isinstance(type_, TensorType):
            type_ = dataclasses.replace(type_, shape=self._shapes[value])
        self._made[value] = Value(value.id, type_)
        return self._made[value]

    def _statement(self, statement: Statement) -> Statement:
        op = self._folded(statement) or map_operands(
            self._with_static_extents(statement.op), self._made.__getitem__
        )
        pairs = zip(statement.outs, infer(op), strict=True)
        outs = tuple(Value(old.id, type_) for old, type_ in pairs)
        if isinstance(op, View | Expand):
            op = dataclasses.replace(op, shape=outs[0].shape)
        for out in outs:
            _check_bytes(statement, out)
        self._made.update(zip(statement.outs, outs, strict=True))
        return Statement(outs, op)

    def _folded(self, statement: Statement) -> Constant | None:
        """The constant that a scalar statement comes to, if it is to be one.

        Of what follows from sizes, integers are: their text is a parameter. Other numbers are left
        to be computed from these, so that kernels for other sizes have the same text.
        """
        number = self._number(statement)
        if number is None:
            return None
        op, out = statement.op, statement.out
        self._known[out] = number
        if isinstance(op, SizeOf) or not self._sized.isdisjoint(operands(op)):
            self._sized.add(out)
            is_count = out.dtype.category is Category.INTEGER
            return Constant(int(number.item()), out.dtype, is_size=True) if is_count else None
        return Constant(number.item(), out.dtype)

    def _number(self, statement: Statement) -> torch.Tensor | None:
        """What a scalar statement comes to, if all it reads is known."""
        op = statement.op
        if isinstance(op, SizeOf):
            return torch.tensor(self._made[op.arg].shape[op.dim], device=_CPU)
        if not isinstance(op, Constant | Pointwise | Cast) or statement.out.is_tensor:
            return None
        if not all(operand in self._known for operand in operands(op)):
            return None
        try:
            (number,) = evaluate(op, self._known, _CPU)
        except RuntimeError as error:
            text, words = print_statement(statement), str(error)
            reason = _IN_WORDS.get(words, words)
            raise ScalarEvaluationError(statement=text, reason=reason) from error
        return number

    def _with_static_extents(self, op: Operation) -> Operation:
        match op:
            case View() | Expand() | Full() | Random():
                return dataclasses.replace(op, shape=self._sizes(op.shape))
            case Iota():
                return dataclasses.replace(op, length=self._size(op.length))
            case Slice():
                spans = map(self._sizes, (op.starts, op.ends, op.steps))
                return Slice(op.arg, *spans)
            case Pad():
                widths = tuple((self._size(a), self._size(b)) for a, b in op.widths)
                return dataclasses.replace(op, widths=widths)
            case Extern():
                for extent in externs.sizes(op):
                    self._size(extent)
                return dataclasses.replace(op, options=tuple(map(self._option, op.options)))
            case _:
                return op

    def _option(self, option: object) -> object:
        """A scalar that is known as its number; anything else as it is."""
        if isinstance(option, Value) and option in self._known:
            return self._known[option].item()
        return option

    def _sizes(self, extents: tuple[Extent, ...]) -> tuple[int, ...]:
        return tuple(map(self._size, extents))

    def _size(self, extent: Extent) -> int:
        if isinstance(extent, Value) and extent not in self._known:
            reason = "it is made while the fusion runs, and a size must be known before"
            raise ScalarEvaluationError(statement=extent, reason=reason)
        return int(self._known[extent].item()) if isinstance(extent, Value) else extent


def _check_bytes(statement: Statement, out: Value) -> None:
    """Raises TensorSizeError if a tensor has more bytes than 64 bits can count."""
    if not out.is_tensor or 0 in out.shape:
        return
    needed = math.prod(out.shape) * out.dtype.itemsize
    if needed >= 1 << 63:
        raise TensorSizeError(
            operation=print_statement(statement),
            name=out.name,
            sizes=list(out.shape),
            bytes=needed,
        )


def _extents(op: Operation) -> tuple[Extent, ...]:
    """The sizes in an operation, and the numbers that decide its result's."""
    match op:
        case View() | Expand() | Full() | Random():
            return op.shape
        case Iota():
            return (op.length,)
        case Slice():
            return (*op.starts, *op.ends, *op.steps)
        case Pad():
            return tuple(width for pair in op.widths for width in pair)
        case Extern():
            return externs.sizes(op)
        case _:
            return ()


_IN_WORDS = {"ZeroDivisionError": "an integer is divided by 0"}
"""Torch's errors that are no sentence."""
