"""The statements of a definition that are no operations: inputs, constants, outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.errors import (
    ArgumentError,
    ArgumentTypeError,
    OperandDtypeError,
    ScalarOutputError,
    UndefinedOutputError,
)
from fuser.frontend.arguments import boolean, data_type, integer, is_int, one_of, sequence
from fuser.frontend.calls import explained_calls
from fuser.frontend.handles import Handle, Operand, Tensor, Vector
from fuser.frontend.input_layouts import declared_order, described
from fuser.frontend.recorder import Recorder, wrong_type
from fuser.frontend.tensor_forms import declared_tensor
from fuser.ir import dtypes
from fuser.ir.binding import is_strided
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cast, Number, python_number
from fuser.ir.types import ScalarType, TensorType


@explained_calls()
class Declarations:
    """`fd.define_...`, `fd.from_pytorch` and `fd.add_output`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def define_tensor(
        self,
        *given: object,
        shape: Sequence[int] | None = None,
        contiguity: Sequence[bool | None] | bool | None = None,
        dtype: DataType = DataType.Float,
        is_cpu: bool = False,
        stride_order: Sequence[int] | None = None,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        static_sizes: bool = False,
        ndims: int | None = None,
        symbolic_sizes: Sequence[int] | None = None,
        contiguous: Sequence[bool | None] | bool | None = None,
    ) -> Handle:
        """Declare the next input, a tensor. The forms, whose arguments may also be positional:

        - `(shape, contiguity=False, dtype, is_cpu, stride_order)`: a size is -1 for any, 1 for a
          dimension that broadcasts, or static. `contiguity` is one bool for all dimensions, or one
          for each from the slowest to the fastest, None for a broadcast dimension.
          `stride_order[d]` is dimension d's rank by stride, 0 the fastest.
        - `(sizes, strides, dtype, static_sizes, is_cpu)`: like a tensor of these sizes and strides
          (in elements), of any size unless `static_sizes`.
        - `(ndims, dtype, is_cpu)`: any sizes, not contiguous.

        `symbolic_sizes` and `contiguous` are older names of `shape` and `contiguity`. Nothing may
        be given twice, by two names or by name and position, nor what another form takes.
        Raises ArgumentError, ArgumentTypeError.
        """
        named: dict[str, object] = {
            "shape": shape,
            "contiguity": contiguity,
            "dtype": dtype,
            "is_cpu": is_cpu,
            "stride_order": stride_order,
            "sizes": sizes,
            "strides": strides,
            "static_sizes": static_sizes,
            "ndims": ndims,
            "symbolic_sizes": symbolic_sizes,
            "contiguous": contiguous,
        }
        return self._recorder.input("define_tensor", declared_tensor(given, named))

    def define_scalar(
        self, value: Number | DataType | None = None, dtype: DataType | None = None
    ) -> Handle:
        """A runtime input `([None,] dtype=Double)`, or a constant `(value, dtype=None)`."""
        if isinstance(value, DataType | torch.dtype):
            value, dtype = None, data_type("define_scalar", value)
        type_ = None if dtype is None else data_type("define_scalar", dtype)
        if value is None:
            return self._recorder.input("define_scalar", ScalarType(type_ or DataType.Double))
        return self._constant("define_scalar", value, type_)

    def define_constant(self, value: Number, dtype: DataType | None = None) -> Handle:
        """A constant; an older name of `define_scalar(value)`."""
        type_ = None if dtype is None else data_type("define_constant", dtype)
        return self._constant("define_constant", value, type_)

    def define_vector(
        self,
        size: int | Sequence[Operand] | None = None,
        dtype: DataType = DataType.Int,
        *,
        values: Sequence[Operand] | None = None,
    ) -> Vector:
        """Scalars in a list, which is taken wherever a shape is.

        `define_vector(size)` are that many inputs, passed as one list or in a row;
        `define_vector(values)` are given numbers, which become constants, and scalars of the
        definition, cast where they are of another dtype. Raises ArgumentError, ArgumentTypeError.
        """
        type_ = data_type("define_vector", dtype)
        given = one_of("define_vector", size=size, values=values)
        if values is not None or not is_int(given):
            parts = sequence("define_vector", "values", given)
            named = ((f"values[{n}]", part) for n, part in enumerate(parts))
            return Vector(self._element(argument, part, type_) for argument, part in named)
        count = integer("define_vector", "size", given)
        if count < 0:
            raise ArgumentError("define_vector", "size", count, "0 is the lowest")
        inputs = range(count)
        return Vector(self._recorder.input("define_vector", ScalarType(type_)) for _ in inputs)

    def _element(self, argument: str, given: object, dtype: DataType) -> Handle:
        """A number or a scalar as an element of a vector."""
        if not isinstance(given, Handle):
            return self._constant("define_vector", given, dtype, argument)
        value = self._recorder.scalar("define_vector", argument, given)
        if value.dtype is dtype:
            return given
        return self._recorder.add("define_vector", Cast(value, dtype))

    def from_pytorch(self, tensor: torch.Tensor, static_sizes: bool = False) -> Handle:
        """Declare the next input like `tensor`: its dtype, rank, size-1 dimensions and layout.

        The other sizes are dynamic unless `static_sizes`. Only metadata is read, so meta and fake
        tensors will do. Raises ArgumentTypeError, OperandDtypeError.
        """
        if not isinstance(tensor, torch.Tensor) or not is_strided(tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            expected = "a strided torch.Tensor"
            raise ArgumentTypeError("from_pytorch", "tensor", _layout_of(tensor), expected)
        element = dtypes.from_torch(tensor.dtype)
        if element is None:
            raise OperandDtypeError(
                operation="from_pytorch",
                reason="there is no DataType of this dtype",
                got=tensor.dtype,
            )
        static = boolean("from_pytorch", "static_sizes", static_sizes)
        shape, layout = described(list(tensor.shape), list(tensor.stride()), static_sizes=static)
        return self._recorder.input("from_pytorch", TensorType(element, shape, layout))

    def add_output(
        self,
        output: Handle,
        alias_input: Handle | Sequence[int] | None = None,
        stride_order: Sequence[int] | None = None,
    ) -> None:
        """Declare the next output, a tensor.

        With `alias_input` it is written into that input and not returned. `stride_order` (also as
        the second argument) lays it out. Raises UndefinedOutputError, ScalarOutputError.
        """
        self._recorder.check_open("add_output")
        if not isinstance(output, Handle):  # pyright: ignore[reportUnnecessaryIsInstance]
            is_torchs = isinstance(output, torch.Tensor)
            raise UndefinedOutputError(got="a torch.Tensor" if is_torchs else repr(output))
        if not isinstance(output, Tensor):
            self._recorder.operand("add_output", "output", output)
            raise ScalarOutputError(name=output.name, dtype=repr(output.dtype()))
        if isinstance(alias_input, list | tuple):
            alias_input, stride_order = None, alias_input
        if stride_order is None:
            value = self._recorder.stored("add_output", "output", output)
        else:
            order = declared_order("add_output", stride_order, output.ndim)
            value = self._recorder.laid_out("add_output", output, order).value
        if alias_input is None:
            self._recorder.output(value)
        else:
            self._recorder.update("add_output", "alias_input", alias_input, value)

    def _constant(
        self, operation: str, value: object, dtype: DataType | None, argument: str = "value"
    ) -> Handle:
        number = python_number(value)
        if number is None:
            raise wrong_type(operation, argument, "a Python number", value)
        return self._recorder.constant(operation, number, dtype or dtypes.of_literal(number))


def _layout_of(given: object) -> str:
    """What a message calls the memory of something that is no strided tensor."""
    if not isinstance(given, torch.Tensor):
        return type(given).__name__
    return "a nested tensor" if given.is_nested else str(given.layout)
