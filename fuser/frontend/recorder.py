"""The definition being written: checks operands, turns literals into constants, appends."""

from __future__ import annotations

import enum
from contextlib import suppress

import torch

from fuser.errors import (
    ArgumentError,
    ArgumentTypeError,
    DefinitionClosedError,
    DefinitionFailedError,
    DefinitionNotOpenError,
    ForeignValueError,
)
from fuser.frontend.four_bits import PAIRED_ROWS, FourBits, fastest_dim, pair_type
from fuser.frontend.handles import Handle, Scalar, Tensor
from fuser.ir import dtypes
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import Category, DataType
from fuser.ir.nodes import (
    Constant,
    Extent,
    Fusion,
    Number,
    Operation,
    Permute,
    Pointwise,
    SizeOf,
    StrideOrder,
    Value,
    python_int,
    python_number,
)
from fuser.ir.result_shapes import same_sizes
from fuser.ir.shapes import wrap_dim
from fuser.ir.types import DYNAMIC, TensorType, ValueType


class State(enum.Enum):
    NEW = 0
    OPEN = 1
    CLOSED = 2


class Recorder:
    """Appends inputs, operations and outputs to one fusion while the definition is open.

    Every method takes the name of the user's operation, for its errors. All of them raise
    DefinitionNotOpenError, DefinitionClosedError or DefinitionFailedError outside the definition's
    block.
    """

    def __init__(self) -> None:
        self.state = State.NEW
        self.failure: str | None = None
        """The error that has ended the block."""
        self._builder = FusionBuilder()
        self._four_bits = FourBits(self._builder.add)
        self._numbers: dict[Value, Number] = {}
        self._finished: Fusion | None = None

    @property
    def fusion(self) -> Fusion:
        """What was written so far; always the same object once the definition is closed."""
        if self.state is not State.CLOSED:
            return self._builder.fusion
        if self._finished is None:
            self._finished = self._builder.fusion
        return self._finished

    def copy(self, fusion: Fusion) -> None:
        """Write all of another fusion, in place of what was written."""
        self.check_open("clone")
        self._builder = FusionBuilder(fusion)
        self._four_bits = FourBits(self._builder.add)
        for value in fusion.inputs:
            self._note_pairs(value)

    def input(self, operation: str, type_: ValueType) -> Handle:
        """Declare the next input. Raises ArgumentError for 4-bit floats that are no pairs."""
        self.check_open(operation)
        if not type_.dtype.is_float4:
            return self.handle(self._builder.input(type_))
        if not isinstance(type_, TensorType):
            raise _no_scalar(operation, type_.dtype)
        pairs = type_ if type_.dtype is DataType.Float4_e2m1fn_x2 else pair_type(operation, type_)
        value = self._builder.input(pairs)
        self._note_pairs(value)
        return self.handle(value)

    def output(self, value: Value) -> None:
        """Declare the next output."""
        self._builder.output(value)

    def update(self, operation: str, argument: str, given: object, value: Value) -> None:
        """Declare that the next output is written into an input of its type, which no other one is.

        Raises ArgumentTypeError, ForeignValueError, ArgumentError.
        """
        into = self.stored(operation, argument, given)
        agree = into.dtype is value.dtype and same_sizes(into.shape, value.shape)
        if not agree or not self._builder.is_input(into):
            got = f"{into.name}: {into.type}"
            expected = f"expected an input of the type of {value.name}: {value.type}"
            raise ArgumentError(operation, argument, got, expected)
        if self._builder.is_updated(into):
            expected = "an output before this one is written into it"
            raise ArgumentError(operation, argument, into.name, expected)
        self._builder.output(value, into)

    def add(self, operation: str, op: Operation) -> Handle:
        """Append an operation that has one result."""
        (out,) = self.add_all(operation, op)
        return out

    def add_all(self, operation: str, op: Operation) -> tuple[Handle, ...]:
        """Append an operation."""
        self.check_open(operation)
        return tuple(map(self.handle, self._builder.add(op)))

    def constant(self, operation: str, number: Number, dtype: DataType) -> Handle:
        """A literal as `dtype`. Raises ArgumentError where the dtype does not hold the number."""
        if dtype.is_float4:
            raise _no_scalar(operation, dtype)
        exact = _as_dtype(operation, number, dtype)
        made = self.add(operation, Constant(exact, dtype))
        self._numbers[made.value] = exact
        return made

    def number(self, value: Value) -> Number | None:
        """What a constant is; None for any other value."""
        return self._numbers.get(value)

    def pointwise(self, name: str, *operands: object) -> Handle:
        """A row of the pointwise table on handles and literals."""
        self.check_open(name)
        if name == "float4_pair" and not any(isinstance(given, Tensor) for given in operands):
            raise wrong_type(name, "low", "a tensor of the definition", operands[0])
        read = self.stored if name in PAIRED_ROWS else self.operand
        args = tuple(read(name, f"operand {i}", given) for i, given in enumerate(operands))
        return self.add(name, Pointwise(name, args))

    def size(self, arg: object, dim: object) -> Handle:
        """The size of one dimension."""
        value = self.tensor("size", "arg", arg)
        return self.add("size", SizeOf(value, self.dim("size", value, dim)))

    def extent(self, operation: str, value: Value, dim: int) -> Extent:
        """The size of one dimension: a number, or a scalar where it is dynamic."""
        size = value.shape[dim]
        return self.add(operation, SizeOf(value, dim)).value if size == DYNAMIC else size

    def operand(self, operation: str, argument: str, given: object) -> Value:
        """A tensor, a scalar or a literal. Raises ArgumentTypeError, ForeignValueError."""
        if isinstance(given, Handle):
            return self._one_by_one(operation, self._own(operation, given))
        number = python_number(given)
        if number is not None:
            return self.constant(operation, number, dtypes.of_literal(number)).value
        raise wrong_type(operation, argument, "a tensor, a scalar or a Python number", given)

    def tensor(self, operation: str, argument: str, given: object) -> Value:
        """A tensor, 4-bit floats one by one. Raises ArgumentTypeError, ForeignValueError."""
        return self._one_by_one(operation, self.held(operation, argument, given))

    def held(self, operation: str, argument: str, given: object) -> Value:
        """A tensor; its 4-bit floats lie in pairs if they do already. Raises what `tensor` does."""
        if not isinstance(given, Tensor):
            raise wrong_type(operation, argument, "a tensor of the definition", given)
        return self._own(operation, given)

    def permuted(self, value: Value, dims: tuple[int, ...]) -> Handle:
        """A tensor in another order of dimensions; pairs stay pairs."""
        found = self.add("permute", Permute(value, dims))
        if value.dtype is DataType.Float4_e2m1fn_x2:
            self._four_bits.put(found.value, dims.index(self._four_bits.dim(value)))
        return found

    def stored(self, operation: str, argument: str, given: object, dim: int | None = None) -> Value:
        """A tensor as memory has it, where 4-bit floats lie in pairs: along `dim`, or else as they
        do, or along the last one. Raises ArgumentTypeError, ForeignValueError, ArgumentError."""
        value = self.held(operation, argument, given)
        if not value.dtype.is_float4 or not value.shape:
            return value
        along = None if dim is None else dim % len(value.shape)
        return self._four_bits.stored(value, along)

    def pairs(self, low: Handle, high: Handle) -> Handle:
        """4-bit floats in pairs along the last dimension."""
        found = self.pointwise("float4_pair", low, high)
        self._four_bits.put(found.value, found.ndim - 1)
        return found

    def laid_out(self, operation: str, given: object, order: tuple[int, ...]) -> Handle:
        """A tensor in another stride order. 4-bit floats lie in pairs along its fastest dimension;
        raises what `stored` does."""
        fastest = order.index(0) if order else None
        value = self.stored(operation, "arg", given, fastest)
        found = self.add(operation, StrideOrder(value, order))
        if fastest is not None and value.dtype is DataType.Float4_e2m1fn_x2:
            self._four_bits.put(found.value, fastest)
        return found

    def _note_pairs(self, value: Value) -> None:
        """Of an input."""
        type_ = value.type
        if isinstance(type_, TensorType) and type_.dtype is DataType.Float4_e2m1fn_x2:
            self._four_bits.put(value, fastest_dim(type_))

    def scalar(self, operation: str, argument: str, given: object) -> Value:
        """A scalar or a literal. Raises ArgumentTypeError, ForeignValueError."""
        if isinstance(given, Tensor):
            raise wrong_type(operation, argument, "a scalar or a Python number", given)
        return self.operand(operation, argument, given)

    def dim(self, operation: str, value: Value, given: object) -> int:
        """A dimension of `value`, negative ones counted from the end. Raises DimensionError."""
        dim = python_int(given)
        if dim is None:
            raise wrong_type(operation, "dim", "an int", given)
        return wrap_dim(operation, value.name, dim, len(value.shape))

    def _one_by_one(self, operation: str, value: Value) -> Value:
        """The 4-bit floats of pairs; any other value as it is."""
        if value.dtype is DataType.Float4_e2m1fn_x2:
            self.check_open(operation)
        return self._four_bits.apart(value)

    def _own(self, operation: str, handle: Handle) -> Value:
        if handle.owner is not self:
            raise ForeignValueError(operation=operation, name=handle.name)
        return handle.value

    def check_open(self, operation: str) -> None:
        """Raises DefinitionNotOpenError, DefinitionClosedError or DefinitionFailedError."""
        if self.state is State.NEW:
            raise DefinitionNotOpenError(operation=operation)
        if self.failure is not None:
            raise DefinitionFailedError(operation=operation, error=self.failure)
        if self.state is State.CLOSED:
            raise DefinitionClosedError(operation=operation)

    def handle(self, value: Value) -> Handle:
        """A value of the definition as its user holds it."""
        return Tensor(self, value) if value.is_tensor else Scalar(self, value)


def _no_scalar(operation: str, dtype: DataType) -> ArgumentError:
    return ArgumentError(operation, "dtype", dtype, "no scalar has 4 bits")


def wrong_type(operation: str, argument: str, expected: str, given: object) -> ArgumentTypeError:
    """The error of what is none of what is expected. Whole numbers and values are named."""
    shown = isinstance(given, Handle | int) and not isinstance(given, bool)
    got = repr(given) if shown else type(given).__name__
    if isinstance(given, torch.Tensor):
        got = "a torch.Tensor; fd.from_pytorch(tensor) declares an input like it, for execute"
        got += ", and tensor.item() is its number" if given.dim() == 0 else ""
    return ArgumentTypeError(operation, argument, got, expected)


def _as_dtype(operation: str, number: Number, dtype: DataType) -> Number:
    """`number` as the Python type that `dtype` goes with: 0.0 is an Int, and 1 a Bool, but 0.5 is
    neither. What is rounded to a float is one."""
    with suppress(OverflowError):  # of a whole number that no float is near
        fitting = _fitting(number, dtype)
        if fitting is not None:
            return fitting
    raise ArgumentError(operation, "value", number, f"expected a number that fits {dtype.name}")


def _fitting(number: Number, dtype: DataType) -> Number | None:
    match dtype.category:
        case Category.BOOL if number in (0, 1):
            return bool(number)
        case Category.INTEGER:
            whole = _whole(number)
            return whole if whole is not None and dtypes.holds(dtype, whole) else None
        case Category.FLOAT if number.imag == 0:
            return float(number.real)
        case Category.COMPLEX:
            return complex(number)
        case _:
            return None


def _whole(number: Number) -> int | None:
    """The int that is equal to it, or None."""
    real = number.real
    whole = number.imag == 0 and (isinstance(real, int) or real.is_integer())
    return int(real) if whole else None
