"""Products of groups of rows, and of operands with scales, as torch computes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.errors import ArgumentError
from fuser.ir.dtype_rules import check_dtype, check_same_dtype, refused
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.result_shapes import same_size
from fuser.ir.types import DYNAMIC, TensorType

Types = tuple[TensorType, ...]
Results = tuple[torch.Tensor, ...]


def product_dtype(operation: str, given: Sequence[Value]) -> DataType:
    """The type that all operands have."""
    check_same_dtype(operation, list(given))
    check_dtype(operation, given[0].dtype, list(given))
    return given[0].dtype


def product_error(operation: str, given: Sequence[Value]) -> ArgumentError:
    """What is raised for sizes that do not fit."""
    expected = "these sizes cannot be multiplied: the inner ones must be equal"
    return _sizes_error(operation, given, expected)


def grouped_types(mat1: Value, mat2: Value, offsets: Value) -> Types:
    """One matrix, or one for each group where both operands are matrices."""
    given = [mat1, mat2]
    dtype = product_dtype("grouped_mm", given)
    if dtype not in (DataType.Float, DataType.Half, DataType.BFloat16):
        raise refused("grouped_mm", "torch multiplies groups of 16 and 32 bit floats", given)
    left, right = mat1.shape, mat2.shape
    if sorted((len(left), len(right))) not in ([2, 2], [2, 3]):
        expected = "expected two matrices, or one and a matrix for each group"
        raise _sizes_error("grouped_mm", given, expected)
    if not same_size(left[-1], right[-2]):
        raise product_error("grouped_mm", given)
    if offsets.dtype is not DataType.Int32 or len(offsets.shape) != 1:
        reason = "offsets say where each group ends: an Int32 tensor of one dimension"
        raise refused("grouped_mm", reason, [offsets])
    (groups,) = offsets.shape
    of_groups = [shape[0] for shape in (left, right) if len(shape) == 3]
    if any(not same_size(groups, size) for size in of_groups):
        expected = f"expected as many groups as offsets: {groups}"
        raise _sizes_error("grouped_mm", given, expected)
    batch = () if of_groups else (groups,)
    return (TensorType(dtype, (*batch, left[-2], right[-1])),)


def grouped(mat1: torch.Tensor, mat2: torch.Tensor, offsets: torch.Tensor) -> Results:
    """Rows (or columns) past the last group hold anything."""
    return (torch.nn.functional.grouped_mm(mat1, mat2, offs=offsets),)


def scaled_types(
    mat1: Value,
    mat2: Value,
    scale1: Value,
    scale2: Value,
    alpha: Value | None,
    bias: Value | None,
    beta: Value | None,
    *,
    dtype: DataType,
) -> Types:
    """A matrix of `dtype`."""
    product_dtype("scaled_mm", [mat1, mat2])
    left, right = mat1.shape, mat2.shape
    if len(left) != 2 or len(right) != 2 or not same_size(left[1], right[0]):
        raise product_error("scaled_mm", [mat1, mat2])
    sizes = (left[0], right[1])
    scales = {"scale1": scale1, "scale2": scale2, "alpha": alpha, "bias": bias, "beta": beta}
    for name, scale in scales.items():
        if scale is None:
            continue
        check_dtype("scaled_mm", scale.dtype, [scale])
        known = DYNAMIC not in (*sizes, *scale.shape)
        if len(scale.shape) > 2 or (known and not _fits(scale.shape, sizes)):
            expected = f"expected sizes that broadcast to {list(sizes)}"
            got = list(scale.shape)
            raise ArgumentError(operation="scaled_mm", argument=name, got=got, expected=expected)
    return (TensorType(dtype, sizes),)


def scaled(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    alpha: torch.Tensor | None,
    bias: torch.Tensor | None,
    beta: torch.Tensor | None,
    *,
    dtype: DataType,
) -> Results:
    """alpha scale1 scale2 (mat1 @ mat2) + beta bias. torch's own function takes float8 only."""
    wide = torch.promote_types(mat1.dtype, torch.float32)
    product = torch.matmul(mat1.to(wide), mat2.to(wide)) * scale1 * scale2
    product = product if alpha is None else product * alpha
    if bias is not None:
        product = product + (bias if beta is None else bias * beta)
    return (product.to(dtype.torch),)


def _fits(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether `shape` broadcasts to `sizes`."""
    pairs = zip(reversed(shape), reversed(sizes), strict=False)
    return all(have in (1, want) for have, want in pairs)


def _sizes_error(operation: str, given: Sequence[Value], expected: str) -> ArgumentError:
    got = [list(value.shape) for value in given]
    return ArgumentError(operation=operation, argument="operands", got=got, expected=expected)
