"""Reading arguments: older spellings, shapes that mix numbers and scalars, layouts of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import torch

from fuser.errors import ArgumentError, ArgumentTypeError, DimensionError, OriginalShapeError
from fuser.frontend.calls import UnknownKeywordError
from fuser.frontend.handles import Handle, Scalar
from fuser.frontend.recorder import Recorder, wrong_type
from fuser.ir.dtypes import Category, DataType, from_torch, holds
from fuser.ir.nodes import Cast, Extent, Value, python_int, python_number
from fuser.ir.result_shapes import same_sizes

Shape = Sequence[int | Handle]
T = TypeVar("T")


def one_of(operation: str, **spellings: object) -> object:
    """The argument given under one of its spellings, newest first. Raises ArgumentError."""
    given = {name: value for name, value in spellings.items() if value is not None}
    if len(given) == 1:
        return next(iter(given.values()))
    newest = next(iter(spellings))
    expected = f"give it once, as {' or '.join(given)}" if given else "this argument is missing"
    raise ArgumentError(operation, newest, given or None, expected)


def read_dims(operation: str, dims: object, older: Mapping[str, object], *names: str) -> object:
    """`dims`, or what was given under one of its older `names`, or None.

    Raises UnknownKeywordError, ArgumentError.
    """
    for name in older:
        if name not in names:
            raise UnknownKeywordError(name)
    given = {"dims": dims, **older}
    return one_of(operation, **given) if any(v is not None for v in given.values()) else None


def check_zero_dim(operation: str, operand: Value, dims: Sequence[object]) -> None:
    """Raises DimensionError unless `dims` of a 0-dim tensor are 0 or -1, as torch allows, and
    ArgumentTypeError for what is no int."""
    for dim in dims:
        if integer(operation, "dim", dim) not in (0, -1):
            raise DimensionError(operation=operation, dim=dim, operand=operand.name, rank=0)


def original_and(
    operation: str, argument: str, positional: Sequence[object], original: object, current: object
) -> tuple[object, object]:
    """(original_shape, `argument`) of a call `op(arg, [original_shape,] argument)`.

    Each may also be given by keyword. Raises ArgumentError.
    """
    rest = list(positional)
    if current is None and rest:
        current = rest.pop()
    if original is None and rest:
        original = rest.pop()
    if rest:
        raise ArgumentError(operation, argument, rest, "too many arguments")
    return original, one_of(operation, **{argument: current})


def is_int(given: object) -> bool:
    """Whether it is an int, of Python or NumPy, and no bool."""
    return python_int(given) is not None


def is_sequence(given: object) -> bool:
    """Whether it is a list, or what stands for one: a tuple, a range, an array with dimensions."""
    if isinstance(given, np.ndarray):
        return np.ndim(given) > 0  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def sequence(operation: str, argument: str, given: object) -> list[object]:
    """A list, or what stands for one, as a list. Raises ArgumentTypeError."""
    if not is_sequence(given):
        raise ArgumentTypeError(operation, argument, type(given).__name__, "a list or tuple")
    return list(cast("Sequence[object]", given))


def ints(operation: str, argument: str, given: object) -> list[int]:
    """A list of ints. Raises ArgumentTypeError."""
    parts = sequence(operation, argument, given)
    return [integer(operation, f"{argument}[{i}]", part) for i, part in enumerate(parts)]


def integer(operation: str, argument: str, given: object) -> int:
    """An int of at most 64 bits, also of NumPy. Raises ArgumentTypeError."""
    whole = python_int(given)
    if whole is None:
        raise wrong_type(operation, argument, "an int", given)
    if not holds(DataType.Int, whole):
        raise wrong_type(operation, argument, "an int of 64 bits", given)
    return whole


def number(operation: str, argument: str, given: object) -> float:
    """An int or float, also of NumPy, as a float. Raises ArgumentTypeError."""
    plain = python_number(given)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise wrong_type(operation, argument, "a Python number", given)
    return float(plain)


def boolean(operation: str, argument: str, given: object) -> bool:
    """A bool, also as 0 or 1, or of NumPy. Raises ArgumentTypeError."""
    plain = python_number(given)
    if not isinstance(plain, int) or plain not in (0, 1):
        raise wrong_type(operation, argument, "a bool", given)
    return bool(plain)


def string(operation: str, argument: str, given: object) -> str:
    """A str. Raises ArgumentTypeError."""
    if not isinstance(given, str):
        raise wrong_type(operation, argument, "a str", given)
    return given


Read = Callable[[str, str, object], T]


def option(
    recorder: Recorder, read: Read[T], operation: str, argument: str, given: object
) -> T | Value | None:
    """What `read` (integer, number or boolean) makes of a literal or a constant; or a scalar that
    is known only at execution; or None. Raises ArgumentTypeError."""
    if given is None:
        return None
    if not isinstance(given, Scalar):
        return read(operation, argument, given)
    value = recorder.scalar(operation, argument, given)
    known = recorder.number(value)
    if known is not None:
        return read(operation, argument, known)
    expected, categories = _OPTIONS[read]
    if value.dtype.category not in categories:
        raise wrong_type(operation, argument, expected, given)
    return value


_OPTIONS: dict[Read[object], tuple[str, tuple[Category, ...]]] = {
    integer: ("an int", (Category.INTEGER,)),
    number: ("a Python number", (Category.INTEGER, Category.FLOAT)),
    boolean: ("a bool", (Category.BOOL,)),
}
"""What reads an option: its words, and the dtypes of scalars that may stand for it."""


def data_type(operation: str, given: object, *, paired: bool = False) -> DataType:
    """A DataType; that of pairs only where inputs are declared. Raises ArgumentTypeError."""
    if not isinstance(given, DataType):
        got = "DataType.Null, which is None" if given is None else repr(given)
        meant = from_torch(given) if isinstance(given, torch.dtype) else None
        expected = "a DataType" if meant is None else f"a DataType: DataType.{meant.name}"
        raise ArgumentTypeError(operation, "dtype", got, expected)
    if given is DataType.Float4_e2m1fn_x2 and not paired:
        expected = "DataType.Float4_e2m1fn: outputs lie in pairs by themselves"
        raise ArgumentTypeError(operation, "dtype", repr(given), expected)
    return given


def extents(
    recorder: Recorder, operation: str, argument: str, given: object, *, lowest: int | None = None
) -> tuple[Extent, ...]:
    """A shape that mixes ints, none below `lowest`, and scalars of the definition."""
    parts = sequence(operation, argument, given)
    return tuple(
        extent(recorder, operation, f"{argument}[{i}]", part, lowest=lowest)
        for i, part in enumerate(parts)
    )


def extent(
    recorder: Recorder, operation: str, argument: str, given: object, *, lowest: int | None = None
) -> Extent:
    """One size: an int, not below `lowest`, or a scalar of the definition.

    What a constant holds is taken as it is. Floating scalars are cut to integers, as nvFuser does.
    Raises ArgumentError, ArgumentTypeError.
    """
    if isinstance(given, Scalar):
        value = recorder.scalar(operation, argument, given)
        if value.dtype.is_complex or value.dtype is DataType.Bool:
            expected = "an int, or a scalar of integers or floats"
            raise wrong_type(operation, argument, expected, given)
        number = recorder.number(value)
        if number is None:
            is_count = value.dtype.is_integral and not value.dtype.is_only_kept
            return value if is_count else recorder.add(operation, Cast(value, DataType.Int)).value
        given = _cut(number)
    size = integer(operation, argument, given)
    if lowest is not None and size < lowest:
        raise ArgumentError(operation, argument, size, f"{lowest} is the lowest")
    return size


def _cut(number: object) -> object:
    """A float without its fraction; infinities and NaN stay, which no integer is."""
    return int(number) if isinstance(number, float) and math.isfinite(number) else number


def check_original_shape(operation: str, operand: Value, given: object) -> None:
    """Raises OriginalShapeError unless `given` agrees with the operand's known sizes."""
    original = ints(operation, "original_shape", given)
    if not same_sizes(original, operand.shape):
        raise OriginalShapeError(
            operation=operation, got=original, operand=operand.name, expected=list(operand.shape)
        )
