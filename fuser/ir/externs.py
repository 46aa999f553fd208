"""The operations torch runs: a row says their arguments, their results and how torch computes them.

Arguments are tensors; optional ones may be None or, at the end, left out. Options are Python
literals and part of the operation, or scalars of the definition. Results lie in memory as torch
likes, dense in its order of dimensions (`extern_memory.py`); kernels read them there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch

from fuser.errors import ArgumentError
from fuser.ir import attention, attention_types, block_products, products, shapes
from fuser.ir.dtype_rules import check_dtype, check_index
from fuser.ir.dtypes import DataType
from fuser.ir.indexing import check_range
from fuser.ir.nodes import Extent, Extern, Operation, Value
from fuser.ir.result_shapes import check_dims, same_size, static_extent
from fuser.ir.types import DYNAMIC, TensorType

Types = tuple[TensorType, ...]
Results = tuple[torch.Tensor, ...]

REQUIRED = object()
"""Stands where an option has no default."""


@dataclass(frozen=True, slots=True)
class Row:
    """`args` are the tensors' names; the first `positional` come first in a user's call.

    `options` are names with defaults; those in `sizes` decide the results' sizes. `types` takes the
    arguments' values and the options by name; it gives the results' types, and raises what `infer`
    raises. `compute` takes tensors and numbers instead. Arguments in `optional` may be None.
    """

    args: tuple[str, ...]
    positional: int
    options: dict[str, object]
    types: Callable[..., Types]
    compute: Callable[..., Results]
    optional: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    picked: str = ""
    """What takes the results from what the user's call returns, if that is more than they are."""


def arguments(op: Extern) -> tuple[Value | None, ...]:
    """The values in the row's order, None for absent ones."""
    return op.args + (None,) * (len(TABLE[op.function].args) - len(op.args))


def options(op: Extern) -> dict[str, object]:
    """The options by name, with defaults for those left out."""
    defaults = TABLE[op.function].options
    return defaults | dict(zip(defaults, op.options, strict=False))


def draws(op: Operation) -> bool:
    """Whether an operation is torch's and advances torch's generator."""
    return isinstance(op, Extern) and bool(options(op).get("dropout_p"))


def sizes(op: Extern) -> tuple[Extent, ...]:
    """The options that decide sizes."""
    given = options(op)
    return tuple(cast("Extent", given[name]) for name in TABLE[op.function].sizes)


def result_types(op: Extern) -> Types:
    """The types of the results. Raises OperandDtypeError, ArgumentError, DimensionError."""
    return TABLE[op.function].types(*arguments(op), **options(op))


def run(
    op: Extern, tensors: tuple[torch.Tensor | None, ...], number: Callable[[Value], object]
) -> Results:
    """What torch computes; the tensors are those of `arguments(op)`, options that are scalars hold
    `number(option)`."""
    given = {
        name: number(option) if isinstance(option, Value) else option
        for name, option in options(op).items()
    }
    return TABLE[op.function].compute(*tensors, **given)


# -- products ------------------------------------------------------------------------------------


def _matmul_types(arg1: Value, arg2: Value) -> Types:
    dtype = products.product_dtype("matmul", [arg1, arg2])
    left, right = arg1.shape, arg2.shape
    if not left or not right or not same_size(left[-1], right[-2:][0]):
        raise products.product_error("matmul", [arg1, arg2])
    batch = shapes.broadcast("matmul", [left[:-2], right[:-2]])
    return (TensorType(dtype, batch + left[-2:-1] + (right[-1:] if len(right) > 1 else ())),)


def _linear_types(arg1: Value, arg2: Value, bias: Value | None) -> Types:
    given = [arg1, arg2] if bias is None else [arg1, arg2, bias]
    dtype = products.product_dtype("linear", given)
    left, right = arg1.shape, arg2.shape
    agree = left and len(right) in (1, 2) and same_size(left[-1], right[-1])
    if not agree:
        raise products.product_error("linear", given)
    _check_bias(bias, (*right[:-1], 1)[0])
    return (TensorType(dtype, left[:-1] + right[:-1]),)


def _check_bias(bias: Value | None, columns: int) -> None:
    """Raises ArgumentError unless it is a number, or one for each column of the result."""
    if bias is not None and bias.shape:
        (first, *further) = bias.shape
        if further or not same_size(first, columns):
            expected = f"it is added to rows, so its sizes must be [{columns}], or none"
            raise ArgumentError("linear", "bias", list(bias.shape), expected)


def _matmul(arg1: torch.Tensor, arg2: torch.Tensor) -> Results:
    return (torch.matmul(arg1, arg2),)


def _linear(arg1: torch.Tensor, arg2: torch.Tensor, bias: torch.Tensor | None) -> Results:
    if bias is None or arg2.dim() == 2:
        each = None if bias is None else bias.expand(arg2.shape[0])
        return (torch.nn.functional.linear(arg1, arg2, each),)
    return (torch.nn.functional.linear(arg1, arg2) + bias.reshape(()),)


# -- order ---------------------------------------------------------------------------------------


def _topk_types(arg: Value, *, k: Extent, dim: int, largest: bool, sorted: bool) -> Types:
    check_dtype("topk", arg.dtype, [arg])
    _check_order("topk", arg, dim)
    size = (arg.shape or (1,))[dim]
    count = static_extent(k)
    if isinstance(k, int) and (k < 0 or (size != DYNAMIC and k > size)):
        limit = "" if size == DYNAMIC else f", and at most {size}, as {arg} has in dimension {dim}"
        expected = f"expected 0 or more{limit}"
        raise ArgumentError("topk", "k", k, expected)
    shape = (*arg.shape[:dim], count, *arg.shape[dim + 1 :]) if arg.shape else ()
    return TensorType(arg.dtype, shape), TensorType(DataType.Int, shape)


def _topk(arg: torch.Tensor, *, k: int, dim: int, largest: bool, sorted: bool) -> Results:
    values, indices = torch.topk(arg, k, dim, largest, sorted)
    return values, indices


def _check_order(function: str, arg: Value, dim: int) -> None:
    """Raises DimensionError unless the operand has the dimension; a 0-dim one is a row of one."""
    if arg.shape or dim != 0:
        check_dims(function, arg, (dim,))


def _argsort_types(arg: Value, *, dim: int, descending: bool, stable: bool) -> Types:
    check_dtype("argsort", arg.dtype, [arg])
    _check_order("argsort", arg, dim)
    return (TensorType(DataType.Int, arg.shape),)


def _argsort(arg: torch.Tensor, *, dim: int, descending: bool, stable: bool) -> Results:
    return (torch.argsort(arg, dim=dim, descending=descending, stable=stable),)


# -- embedding -----------------------------------------------------------------------------------


def _embedding_types(
    input: Value,
    weight: Value,
    *,
    padding_idx: int | Value | None,
    max_norm: float | Value | None,
    norm_type: float | Value | None,
    scale_grad_by_freq: bool | Value | None,
    sparse: bool | Value | None,
) -> Types:
    check_index("embedding_fwd", input)
    if len(weight.shape) != 2:
        got, expected = list(weight.shape), "expected 2 dimensions: rows of numbers"
        raise ArgumentError("embedding_fwd", "weight", got, expected)
    rows, width = weight.shape
    if isinstance(padding_idx, int) and rows != DYNAMIC and not -rows <= padding_idx < rows:
        expected = f"expected one of the {rows} rows of {weight}"
        raise ArgumentError("embedding_fwd", "padding_idx", padding_idx, expected)
    if max_norm is not None:
        check_dtype("embedding_fwd", weight.dtype, [weight])
    return (TensorType(weight.dtype, (*input.shape, width)),)


def _embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    *,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float | None,
    scale_grad_by_freq: bool | None,
    sparse: bool | None,
) -> Results:
    """The rows; with `max_norm`, longer ones scaled down, which torch does in `weight` too.

    The other options say how torch would compute a gradient.
    """
    check_range("embedding_fwd", input, weight.shape[0])
    if max_norm is None:
        return (torch.nn.functional.embedding(input, weight),)
    norm = 2.0 if norm_type is None else norm_type
    scaled = torch.nn.functional.embedding(input, weight.clone(), None, max_norm, norm)
    return (scaled,)


TABLE = {
    "matmul": Row(("arg1", "arg2"), 2, {}, _matmul_types, _matmul),
    "linear": Row(("arg1", "arg2", "bias"), 3, {}, _linear_types, _linear, ("bias",)),
    "grouped_mm": Row(("mat1", "mat2", "offsets"), 3, {}, products.grouped_types, products.grouped),
    "scaled_mm": Row(
        ("mat1", "mat2", "scale1", "scale2", "alpha", "bias", "beta"),
        4,
        {"dtype": REQUIRED},
        products.scaled_types,
        products.scaled,
        ("alpha", "bias", "beta"),
        picked="[0]",
    ),
    "cutlass_nvfp4_grouped_mm": Row(
        (
            *("mat1", "mat2", "scale1", "scale2", "alpha"),
            *("problem_sizes", "expert_offsets", "sf_offsets"),
        ),
        8,
        {"dtype": REQUIRED},
        block_products.groups_types,
        block_products.groups,
    ),
    "topk": Row(
        ("arg",),
        1,
        {"k": REQUIRED, "dim": -1, "largest": True, "sorted": False},
        _topk_types,
        _topk,
        sizes=("k",),
    ),
    "argsort": Row(
        ("arg",),
        1,
        {"dim": REQUIRED, "descending": False, "stable": False},
        _argsort_types,
        _argsort,
    ),
    "embedding_fwd": Row(
        ("input", "weight"),
        2,
        {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": None,
            "scale_grad_by_freq": None,
            "sparse": None,
        },
        _embedding_types,
        _embedding,
    ),
    "sdpfa_fwd": Row(
        ("query", "key", "value", "bias", "mask"),
        3,
        {"dropout_p": None, "is_causal": None, "scale": None},
        attention_types.forward_types,
        attention.forward,
        ("bias", "mask"),
    ),
    "sdpfa_bwd": Row(
        (
            *("grad_output", "query", "key", "value", "output", "logsumexp"),
            *("philox_seed", "philox_offset"),
        ),
        6,
        {"dropout_p": REQUIRED, "is_causal": REQUIRED, "scale": None},
        attention_types.backward_types,
        attention.backward,
    ),
}
"""By the user's name of the operation."""
