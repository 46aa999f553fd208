"""Choices that constants and the bounds of operands decide are one of what they choose from.

T1 = fd.ops.iota(8, start=S0, step=S1)               0 to 7
T2 = fd.ops.ne(T1, S2)                               S2: -100
T3 = fd.ops.where(T2, T1, S3)
T4 = fd.ops.clamp(T3, S4, S5)                        S4: 0, S5: 9
->
T4 = T1

Losses compare their targets with the index that is ignored, and targets may be a range. Images are
resized at places that are clamped to be within the image, and then counted from its end where they
are below 0.
"""

from __future__ import annotations

from fuser.ir.dtypes import Category, DataType
from fuser.ir.nodes import Constant, Fusion, Number, Operation, Pointwise, Statement, Value
from fuser.passes.bounds import KnownBounds
from fuser.passes.intervals import Bounds
from fuser.passes.ranges import Ranges
from fuser.passes.rewrite import Emitter, rewrite


def take_known_choices(fusion: Fusion) -> Fusion:
    """`fusion` without choices of which every element is known to be that of one operand."""
    ranges, bounds = Ranges(), KnownBounds()

    def rule(statement: Statement, emit: Emitter) -> Operation | Value | None:
        ranges.note(statement)
        bounds.note(statement)
        op = statement.op
        if not isinstance(op, Pointwise):
            return None
        out = statement.out
        taken = _taken(op, out, ranges, bounds)
        if taken is None or not taken.is_tensor:
            return None
        return emit.expanded(emit.cast(taken, out.dtype), out.shape)

    return _with_numbers(rewrite(fusion, rule, may_copy=True))


def _with_numbers(fusion: Fusion) -> Fusion:
    """`fusion` with numbers for single truth values that are known, where the choice stays as its
    result may lie otherwise than what is chosen: kernels would read them from memory."""
    ranges = Ranges()

    def rule(statement: Statement, emit: Emitter) -> Operation | None:
        ranges.note(statement)
        match statement.op:
            case Pointwise("where", (Value(shape=()) as condition, *chosen)):
                known = ranges.number(condition) if condition.is_tensor else None
            case _:
                return None
        if known is None:
            return None
        return Pointwise("where", (emit.add(Constant(bool(known), DataType.Bool)), *chosen))

    return rewrite(fusion, rule)


def _taken(op: Pointwise, out: Value, ranges: Ranges, bounds: KnownBounds) -> Value | None:
    """The operand whose elements are all those of the result, converted to its type."""
    if op.op == "where":
        chosen = ranges.number(op.args[0])
        if chosen is None:
            chosen = _number(bounds.of(op.args[0]))
        return None if chosen is None else op.args[1 if chosen else 2]
    if out.dtype.category is Category.FLOAT:  # of zeros, one is less than none
        return None
    known = [found for found in bounds.of_operands(op) if found is not None]
    number = _unchanged(op.op, known) if len(known) == len(op.args) else None
    return None if number is None else op.args[number]


def _number(bounds: Bounds | None) -> Number | None:
    """What all elements are."""
    return bounds.low if bounds is not None and bounds.low == bounds.high else None


def _unchanged(op: str, operands: list[Bounds]) -> int | None:
    """The number of the operand that an operation on integers returns, by their bounds."""
    match op, operands:
        case "clamp", [x, low, high] if low.high <= x.low and x.high <= high.low:
            return 0
        case "abs" | "relu", [x] if x.low >= 0:
            return 0
        case "remainder" | "mod" | "fmod", [x, y] if x.low >= 0 and x.high < y.low:
            return 0
        case "maximum", [x, y] if x.low >= y.high or y.low >= x.high:
            return 0 if x.low >= y.high else 1
        case "minimum", [x, y] if x.high <= y.low or y.high <= x.low:
            return 0 if x.high <= y.low else 1
        case _:
            return None
