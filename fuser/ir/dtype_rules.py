"""The dtypes that operations outside the pointwise table take, and how others are refused."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import OperandDtypeError
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Random, Value
from fuser.ir.pointwise import letter

_CATEGORY_WORDS = {
    "b": "bool",
    "i": "integer",
    "f": "floating",
    "c": "complex",
    "e": "8-bit or 4-bit floating",
    "p": "packed 4-bit floating",
    "u": "UInt64",
}

_ACCEPTED = {
    "all": "bifc",
    "any": "bifc",
    "argmax": "if",
    "argmin": "if",
    "argsort": "bif",
    "cummax": "bif",
    "cummin": "bif",
    "cumprod": "bifc",
    "cumsum": "bifc",
    "embedding_fwd": "f",
    "grouped_mm": "f",
    "index_add": "bifc",
    "index_put_accumulate": "bifc",
    "iota": "if",
    "linear": "fc",
    "matmul": "fc",
    "max": "bif",
    "mean": "fc",
    "min": "bif",
    "normal": "f",
    "prod": "bifc",
    "scaled_mm": "fep",
    "scatter_add": "bifc",
    "scatter_amax": "bif",
    "scatter_amin": "bif",
    "scatter_prod": "bifc",
    "sdpfa_bwd": "f",
    "sdpfa_fwd": "f",
    "sum": "bifc",
    "topk": "if",
    "uniform": "f",
    "var": "fc",
    "var_mean": "fc",
    "welford": "fc",
}
"""The dtype categories that operations outside the pointwise table compute in."""


def check_dtype(operation: str, dtype: DataType, args: Sequence[Value]) -> None:
    """Raises OperandDtypeError unless the operation computes in `dtype`; names `args`, if any."""
    accepted = _ACCEPTED[operation]
    if letter(dtype) not in accepted:
        reason = f"computes in {category_words(accepted)} types"
        raise refused(operation, with_cast(reason, dtype), args or [dtype])


_TO_INT = "; cast UInt64 to Int first"


def with_cast(reason: str, dtype: DataType) -> str:
    """Why an operation does not take `dtype`, and the cast of what is only kept."""
    if dtype is DataType.UInt64:
        return f"{reason}{_TO_INT}"
    bits = 4 if dtype.is_float4 else 8
    return f"{reason}; cast {bits}-bit floats to Float first" if dtype.is_byte_float else reason


def not_promoted(dtype: DataType) -> str:
    """Why an operation does not take what is only kept in `dtype` beside another type."""
    if dtype is DataType.UInt64:
        return with_cast("UInt64 is not promoted", dtype)
    bits = 4 if dtype.is_float4 else 8
    return f"{bits}-bit floats are not promoted; cast the operands to one dtype"


def check_same_dtype(operation: str, args: Sequence[Value]) -> None:
    """Raises OperandDtypeError unless all tensors have the dtype of the first."""
    if any(arg.dtype is not args[0].dtype for arg in args):
        raise refused(operation, "the tensors must have one dtype; cast them", args)


def check_index(operation: str, index: Value) -> None:
    """Raises OperandDtypeError unless the index is Int or Int32."""
    if index.dtype not in (DataType.Int, DataType.Int32):
        raise refused(operation, _integer_reason("the index must be Int or Int32", index), [index])


def check_drawn(op: Random) -> None:
    """Raises OperandDtypeError unless the parameters of random numbers are real, seed and offset
    Int or Int32."""
    if any(parameter.dtype.is_complex for parameter in op.parameters):
        raise refused(op.distribution, "its parameters must be real", op.parameters)
    if any(word.dtype not in (DataType.Int, DataType.Int32) for word in (op.seed, op.offset)):
        reason = "rng_seed and rng_offset must be Int or Int32"
        reason = _integer_reason(reason, op.seed, op.offset)
        raise refused(op.distribution, reason, (op.seed, op.offset))


def _integer_reason(reason: str, *operands: Value) -> str:
    """Why operands that must be integers are refused, and the cast of UInt64."""
    return f"{reason}{_TO_INT}" if any(o.dtype is DataType.UInt64 for o in operands) else reason


def check_fill(operation: str, fill: Value, dtype: DataType) -> None:
    """Raises OperandDtypeError if elements would lose the imaginary part of the number they get."""
    if fill.dtype.is_complex and not dtype.is_complex:
        raise refused(operation, f"elements of {dtype.name} cannot hold it", (fill,))


def refused(operation: str, reason: str, got: Sequence[Value | DataType]) -> OperandDtypeError:
    """The error that names each operand with its dtype."""
    names = (arg.name if isinstance(arg, DataType) else f"{arg} {arg.dtype.name}" for arg in got)
    return OperandDtypeError(operation=operation, reason=reason, got=", ".join(names))


def category_words(letters: str) -> str:
    """The words for a row's category letters: "if" is "integer, floating"."""
    return ", ".join(_CATEGORY_WORDS[code] for code in letters)
