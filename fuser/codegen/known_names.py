"""What the names of a kernel stand for, as far as spellings and compilers ask.

    T3 = T1 < T2              a comparison: g++ makes vectors of it as a float if that is a choice
    T4 = T3 ? T1 : T2         depends on a choice
    T5 = T4 < 0.0f            compares one: of such loops, g++ makes branches if it is let

A name stands for what was last defined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from fuser.ir.dtypes import DataType
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
    refs,
)

_CHOICES = frozenset({"where", "relu", "clamp", "maximum", "minimum"})
"""Operations whose result is one of their operands."""

_SPECIAL_CASES = frozenset({"atan2", "floor_divide", "fmod", "mod", "pow", "remainder"})
"""Functions of two floats that compare them with numbers, and choose what they are there."""

_FEW = 1 << 16
"""Literals below this, and what little follows from them, are numbers of 32 bits."""


class KnownNames:
    """Grows as a kernel is printed; a name that is defined again stands for something else."""

    def __init__(self) -> None:
        self._compared: set[str] = set()
        """Truth values that come of a comparison."""
        self._stored: set[str] = set()
        """Truth values as they are in memory."""
        self._chosen: set[str] = set()
        """What depends on a choice."""
        self._of_truths: set[str] = set()
        """Numbers that follow from truth values and literals."""
        self._truncated: set[str] = set()
        """Integers that were floats."""
        self._combined: set[str] = set()
        """Truth values that are several together."""
        self.compares_choices = False
        """Whether something has been compared that depends on a choice, here or in a function, or
        made an integer, or truth values were combined one after the other, or a place is read that
        a choice tells."""

    def loaded(self, name: str, dtype: DataType) -> None:
        """Note that `name` stands for what is in memory from now on."""
        self._compared.discard(name)
        if dtype is DataType.Bool:
            self._stored.add(name)

    def becomes_truth(self, name: str) -> bool:
        """Whether `name` stood for a truth value in memory; it is a comparison from now on."""
        if name not in self._stored:
            return False
        self._stored.discard(name)
        self._compared.add(name)
        return True

    def defined(self, name: str, expression: Expression) -> None:
        """Note that `name` stands for an expression, before that is printed."""
        self._stored.discard(name)
        self._compared.discard(name)
        if _is_comparison(expression) or self.is_compared(expression):
            self._compared.add(name)

    def computed(self, name: str, expression: Expression) -> None:
        """Note what else an expression is that `name` stands for, once that is printed."""
        if _is_combination(expression):
            self.compares_choices |= not self._combined.isdisjoint(refs(expression))
            self._combined.add(name)
        _put(name, self._of_truths, self._is_of_truths(expression))
        _put(name, self._chosen, self._depends_on_choice(expression))
        _put(name, self._truncated, self.is_truncated(expression))

    def reads_at(self, names: Iterable[str]) -> None:
        """Note that an element is read at a place that these names tell."""
        self.compares_choices |= not self._chosen.isdisjoint(names)

    def truncated(self, of: Expression) -> None:
        """Note that a float is made an integer."""
        self.compares_choices |= self._depends_on_choice(of)

    def called(self, call: Call) -> None:
        """Note that an operation is computed."""
        compares = _is_comparison(call) and any(map(self._depends_on_choice, call.args))
        self.compares_choices |= compares or call.op in _SPECIAL_CASES

    def is_stored(self, name: str) -> bool:
        """Whether it is a truth value as it is in memory."""
        return name in self._stored

    def is_of_truths(self, name: str) -> bool:
        """Whether it is a number that follows from truth values and small literals alone."""
        return name in self._of_truths

    def is_truncated(self, expression: Expression) -> bool:
        """Whether it is an integer of 32 bits or more that was a float, and nothing else since."""
        match expression:
            case Ref():
                return expression.name in self._truncated
            case Convert(of=of, dtype=dtype):
                was_float = of.dtype.is_floating or of.dtype.is_complex
                return was_float and dtype in (DataType.Int, DataType.Int32)
            case _:
                return False

    def is_compared(self, expression: Expression) -> bool:
        """Whether it is a comparison made before, or several together."""
        match expression:
            case Ref():
                return expression.name in self._compared or expression.name in self._stored
            case Call(dtype=DataType.Bool):
                return all(map(self.is_compared, expression.args))
            case _:
                return False

    def _is_of_truths(self, expression: Expression) -> bool:
        if expression.dtype is DataType.Bool:
            return True
        match expression:
            case Ref():
                return expression.name in self._of_truths
            case Convert():
                return self._is_of_truths(expression.of)
            case Call():
                return all(map(self._is_of_truths, expression.args))
            case Literal():
                return abs(expression.value) < _FEW
            case SizeValue() | IndexValue():
                return False
            case _:
                assert_never(expression)

    def _depends_on_choice(self, expression: Expression) -> bool:
        match expression:
            case Ref():
                return expression.name in self._chosen
            case Call():
                chooses = expression.op in _CHOICES or expression.op in _SPECIAL_CASES
                return chooses or any(map(self._depends_on_choice, expression.args))
            case Convert():
                return self._depends_on_choice(expression.of)
            case _:
                return False


def _put(name: str, names: set[str], belongs: bool) -> None:
    """Add a name to others, or take it from them."""
    if belongs:
        names.add(name)
    else:
        names.discard(name)


def _is_comparison(expression: Expression) -> bool:
    """Whether a truth value is computed from what is none."""
    match expression:
        case Call(dtype=DataType.Bool):
            return all(arg.dtype is not DataType.Bool for arg in expression.args)
        case _:
            return False


def _is_combination(expression: Expression) -> bool:
    """Whether a truth value is computed from several."""
    match expression:
        case Call(dtype=DataType.Bool, args=args):
            return len(args) == 2 and all(arg.dtype is DataType.Bool for arg in args)
        case _:
            return False
