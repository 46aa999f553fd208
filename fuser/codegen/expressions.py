"""Scalar expressions in C: one printer for every target."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import assert_never

import numpy as np

from fuser.codegen.known_names import KnownNames
from fuser.codegen.moved_types import word_of
from fuser.codegen.sizes import Sizes
from fuser.codegen.target import Target
from fuser.ir.dtypes import Category, DataType
from fuser.ir.nodes import Number
from fuser.ir.pointwise import KERNEL_TABLE
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
)

_CALLED = re.compile(r"\b([a-z]\w*)\(")
_FUNCTION = re.compile(r"[a-z]\w*\(\{\d\}(, \{\d\})*\)")
"""How an operation is spelled that is one function of its operands."""


class ExpressionPrinter:
    """Prints expressions and notes the device functions and types they use.

    Names in `lane_arrays` hold one element a lane and are subscripted with `lane`.
    """

    def __init__(self, target: Target, sizes: Sizes, moved: Collection[DataType] = ()) -> None:
        self.target = target
        self._moved = moved
        """Narrow floats of which nothing is computed: they are integers in the text."""
        self._sizes = sizes
        self.sections = sizes.sections
        self.lane_arrays = sizes.lane_arrays
        self.known = KnownNames()
        """What names stand for, as far as spellings and compilers ask."""

    def type(self, dtype: DataType) -> str:
        """The C type of `dtype`."""
        dtype = word_of(dtype) if dtype in self._moved else dtype
        if dtype.spelling in self.target.library.sections:
            self.sections[dtype.spelling] = None
        return dtype.spelling

    def index_type(self, dtype: DataType) -> str:
        """The C type of indices of `dtype`."""
        own = self.target.index
        return self.use(own) if own and dtype is DataType.Int else self.type(dtype)

    def use_for(self, name: str, dtype: DataType) -> None:
        """Note what the device library has of a function for a type, unless C itself has it."""
        key = self.target.library.key(name, dtype.spelling)
        if key is not None:
            self.sections[key] = None

    def use(self, name: str) -> str:
        """Note a device function that is defined for every type."""
        self.sections[name] = None
        return name

    def print(self, expression: Expression, owner: str) -> str:
        """The text of an expression; `owner` names parameters that an index needs."""
        match expression:
            case Ref():
                subscript = "[lane]" if expression.name in self.lane_arrays else ""
                named = expression.name + subscript
                return self._truth(named) if self.known.is_stored(expression.name) else named
            case Literal():
                return self._literal(expression.value, expression.dtype)
            case SizeValue():
                size = self._sizes.count(owner, expression.number)
                return self._number(size, expression.dtype)
            case Convert():
                return self._convert(expression, owner)
            case Call():
                return self._call(expression, owner)
            case IndexValue():
                return self._number(self._sizes.index(expression.index, owner), self._sizes.dtype)
            case _:
                assert_never(expression)

    def _number(self, index: str, dtype: DataType) -> str:
        """An index as a number of `dtype`."""
        type_ = self.type(dtype)
        return index if type_ == self.index_type(self._sizes.dtype) else f"{type_}({index})"

    def element(self, name: str, stored: str) -> str:
        """What is loaded where it is `stored`, which `name` stands for from now on."""
        return self._truth(stored) if self.known.becomes_truth(name) else stored

    def _truth(self, stored: str) -> str:
        return f"{self.use('truth')}({stored})"

    def let(self, name: str, expression: Expression) -> str:
        """The text of an expression that `name` stands for from now on."""
        self.known.defined(name, expression)
        text = self.print(expression, name)
        self.known.computed(name, expression)
        return text

    def _convert(self, convert: Convert, owner: str) -> str:
        """A conversion; of a comparison to a float a choice, as g++ vectorizes nothing else.

        A float becomes a narrow integer by way of one of 32 bits: of what does not fit, C++ says
        nothing, and g++ leaves the narrow one out where it is converted again. So one becomes an
        unsigned integer by a function, where the target has one. Of complex numbers, so does the
        real part. An integer that was a float is never -0, which the target may have to see to.
        """
        given, of = self.print(convert.of, owner), convert.of.dtype
        narrow = _is_narrow_integer(convert.dtype)
        if of.is_complex and (narrow or convert.dtype is DataType.UInt64):
            given, of = f"{self.type(of.real)}({given})", of.real
        if of.is_floating and narrow:
            given = f"{self.type(DataType.Int32)}({given})"
        elif of.is_floating and convert.dtype.is_integral:
            self.known.truncated(convert.of)
            if convert.dtype is DataType.UInt64 and "uint64_of" in self.target.library.sections:
                return f"{self.use('uint64_of')}({given})"
        wide, zeroed = convert.dtype.compute, "plus_zero" in self.target.library.sections
        if convert.dtype.is_floating and self.known.is_compared(convert.of):
            yes, no = (self._literal(number, wide) for number in (1, 0))
            if wide is convert.dtype:
                return f"({given} ? {yes} : {no})"
            given = f"{given} ? {yes} : {no}"
        elif zeroed and self.known.is_truncated(convert.of) and not wide.is_integral:
            given = f"{self.use('plus_zero')}({self.type(wide.real)}({given}))"
        return f"{self.type(convert.dtype)}({given})"

    def _call(self, call: Call, owner: str) -> str:
        self.known.called(call)
        compute = _spelled_for(call)
        template = KERNEL_TABLE[call.op].spelling(compute)
        for name in _CALLED.findall(template):
            self.use_for(name, compute)
        self.type(compute)
        operand = self.print if _FUNCTION.fullmatch(template) else self._operand
        return template.format(*(operand(arg, owner) for arg in call.args))

    def _operand(self, expression: Expression, owner: str) -> str:
        """An operand of an operator."""
        text = self.print(expression, owner)
        if _is_operator(expression) or text.startswith("-"):
            return f"({text})"
        return text

    def _literal(self, value: Number, dtype: DataType) -> str:
        if dtype is DataType.Bool:
            return "true" if value else "false"
        if dtype.is_complex:
            number = complex(value)
            parts = (self._literal(part, dtype.real) for part in (number.real, number.imag))
            return f"{self.type(dtype)}({', '.join(parts)})"
        if dtype.is_floating:
            return self._floating(float(value.real), dtype)
        return self._integer(int(value.real), dtype)

    def _floating(self, value: float, dtype: DataType) -> str:
        if dtype.compute is not dtype:
            return f"{self.type(dtype)}({self._floating(value, DataType.Float)})"
        if math.isnan(value):
            return self.target.not_a_number[dtype]
        if math.isinf(value):
            sign = "-" if value < 0 else ""
            return sign + self.target.infinity[dtype]
        if dtype is DataType.Double:
            return repr(value)
        text = str(np.float32(value))
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"

    def _integer(self, value: int, dtype: DataType) -> str:
        if dtype is DataType.Int:
            return f"{value}LL" if value > -(2**63) else "(-9223372036854775807LL - 1)"
        if dtype is DataType.UInt64:
            return f"{value}ULL"
        if dtype is DataType.Int32:
            return str(value) if value > -(2**31) else "(-2147483647 - 1)"
        return f"{self.type(dtype)}({value})"


def _is_narrow_integer(dtype: DataType) -> bool:
    return dtype.category is Category.INTEGER and dtype.itemsize < 4


def _spelled_for(call: Call) -> DataType:
    """The type of its operands; of a predicate of several types, one that is no truth value."""
    types = [arg.dtype for arg in call.args]
    last = types[-1]
    return next((t for t in types if t is not last), last) if last is DataType.Bool else last


def _is_operator(expression: Expression) -> bool:
    """Whether it is spelled with operators."""
    match expression:
        case Call():
            compute = expression.args[-1].dtype
            return not _FUNCTION.fullmatch(KERNEL_TABLE[expression.op].spelling(compute))
        case _:
            return isinstance(expression, IndexValue)
