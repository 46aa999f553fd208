"""Operations that make tensors from scalars: full and iota."""

from __future__ import annotations

import math

from fuser.errors import ArgumentError
from fuser.frontend.arguments import Shape, data_type, extent, extents, one_of
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import Category, DataType, takes
from fuser.ir.nodes import Full, Iota, Value, python_int, python_number


class FactoryOps(OperationGroup):
    """`fd.ops`: factories."""

    def full(
        self,
        shape: Shape | None = None,
        fill_value: Operand | None = None,
        dtype: DataType = DataType.Float,
        *,
        size: Shape | None = None,
        arg: Operand | None = None,
    ) -> Handle:
        """A tensor of one number. `size` and `arg` are older names of `shape` and `fill_value`.

        Raises ArgumentError for a number that does not fit an integer dtype.
        """
        given = one_of("full", shape=shape, size=size)
        sizes = extents(self._recorder, "full", "shape", given, lowest=0)
        fill = one_of("full", fill_value=fill_value, arg=arg)
        element = data_type("full", dtype)
        _check_fits("full", "fill_value", fill, element)
        whole = python_int(fill)
        if element is DataType.UInt64 and whole is not None and whole >= 0:
            fill = self._recorder.constant("full", whole, element)  # it may be too large for Int
        value = self._recorder.scalar("full", "fill_value", fill)
        return self._recorder.add("full", Full(sizes, value, element))

    def iota(
        self,
        length: int | Handle,
        start: Operand | None = None,
        step: Operand | None = None,
        dtype: DataType = DataType.Int,
    ) -> Handle:
        """start, start + step, ...: `length` elements; by default 0, 1, 2, ...

        Both are real; as numbers they are finite and fit an integer dtype, and the step is not 0.
        Raises ArgumentError.
        """
        count = extent(self._recorder, "iota", "length", length, lowest=0)
        first = self._real("start", 0 if start is None else start)
        pace = self._real("step", 1 if step is None else step)
        element = data_type("iota", dtype)
        _check_fits("iota", "start", start, element)
        _check_fits("iota", "step", step, element)
        return self._recorder.add("iota", Iota(count, first, pace, element))

    def _real(self, argument: str, given: object) -> Value:
        """The start or the step of iota. A scalar may turn out to be any number, a constant too:
        passes make some."""
        value, number = self._recorder.scalar("iota", argument, given), python_number(given)
        expected = ""
        if value.dtype.is_complex:
            expected = "expected a real number"
        elif isinstance(number, float) and not math.isfinite(number):
            expected = "expected a finite number"
        elif argument == "step" and number == 0:
            expected = "expected a number that is not 0; fd.ops.full repeats one number"
        if expected:
            raise ArgumentError("iota", argument, given, expected)
        return value


def _check_fits(operation: str, argument: str, given: object, dtype: DataType) -> None:
    """Raises ArgumentError for a number that torch refuses as one of an integer dtype."""
    number = python_number(given)
    if dtype.category is not Category.INTEGER or not isinstance(number, int | float):
        return
    if not takes(dtype, number):
        expected = f"expected a number that fits {dtype.name}"
        raise ArgumentError(operation, argument, given, expected)
