"""Products of groups of rows, and of operands with scales, as torch computes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.errors import ArgumentError
from fuser.ir.block_products import block_product, have_blocks, torchs_product
from fuser.ir.conversions import converted
from fuser.ir.dtype_rules import check_dtype, check_same_dtype, refused
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.result_shapes import same_size
from fuser.ir.types import DYNAMIC, TensorType

Types = tuple[TensorType, ...]
Results = tuple[torch.Tensor, ...]


_WORD = 16
"""Bytes that torch's product of groups reads at once."""


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
    left, right = _in_whole_words(mat1), _in_whole_words(mat2)
    return (torch.nn.functional.grouped_mm(left, right, offs=offsets),)


def _in_whole_words(operand: torch.Tensor) -> torch.Tensor:
    """The operand; copied where its rows, or columns, are not contiguous, of whole 16 bytes and at
    an address of as many, which is what torch's product of groups takes."""
    width = _WORD // operand.element_size()
    outer, inner = operand.stride()[-2:]
    rows, columns = operand.shape[-2:]
    by_rows = inner == 1 and outer >= max(columns, 1) and outer % width == 0
    by_columns = outer == 1 and inner >= max(rows, 1) and inner % width == 0
    if (by_rows or by_columns) and operand.data_ptr() % _WORD == 0:
        return operand
    room = operand.new_zeros((*operand.shape[:-1], columns + -columns % width))
    copy = room[..., :columns]
    return copy.copy_(operand)


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
    _check_scaled([mat1, mat2])
    left, right = mat1.shape, mat2.shape
    if len(left) != 2 or len(right) != 2 or not same_size(left[1], right[0]):
        raise product_error("scaled_mm", [mat1, mat2])
    sizes = (left[0], right[1])
    of_blocks = mat1.dtype.is_float4 or scale1.dtype is DataType.Float8_e8m0fnu
    scales = {"scale1": scale1, "scale2": scale2, "alpha": alpha, "bias": bias, "beta": beta}
    for name, scale in scales.items():
        if scale is None:
            continue
        check_dtype("scaled_mm", scale.dtype, [scale])
        if of_blocks and name in ("scale1", "scale2"):
            continue  # how many there are depends on the inner size
        known = DYNAMIC not in (*sizes, *scale.shape)
        if len(scale.shape) > 2 or (known and not _fits(scale.shape, sizes)):
            expected = f"expected sizes that broadcast to {list(sizes)}"
            got = list(scale.shape)
            raise ArgumentError("scaled_mm", name, got, expected)
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
    """alpha scale1 scale2 (mat1 @ mat2) + beta bias, computed in float32 or float64.

    On a GPU, torch's product of 8-bit floats, or of blocks, where that takes the operands.
    """
    plain = alpha is None and bias is None
    if plain and mat1.is_cuda and float8_product_takes(mat1, mat2, scale1, scale2, dtype):
        return (float8_product(mat1, mat2, scale1, scale2, dtype),)
    wide = torch.float64 if mat1.dtype is torch.float64 else torch.float32
    if have_blocks(mat1, scale1):
        product = block_product(mat1, mat2, scale1, scale2, dtype if plain else DataType.Float)
        product = product.to(wide)
    else:
        product = torch.matmul(mat1.to(wide), mat2.to(wide)) * scale1.to(wide) * scale2.to(wide)
    product = product if alpha is None else product * alpha.to(wide)
    if bias is not None:
        product = product + (bias.to(wide) if beta is None else bias.to(wide) * beta.to(wide))
    return (converted(product, dtype),)


def float8_product_takes(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    dtype: DataType,
) -> bool:
    """Whether `float8_product` multiplies these: 8-bit floats, not both e5m2, rows of the one and
    columns of the other contiguous and of whole 16 bytes, at addresses of as many, with one scale
    for all, or one for each where the columns are e4m3."""
    dtypes = {mat1.dtype, mat2.dtype}
    if not dtypes <= {torch.float8_e4m3fn, torch.float8_e5m2} or dtypes == {torch.float8_e5m2}:
        return False
    (rows, inner), columns = mat1.shape, mat2.shape[1]
    aligned = inner % 16 == 0 and columns % 16 == 0 and rows > 0 and inner > 0
    aligned = aligned and mat1.data_ptr() % 16 == mat2.data_ptr() % 16 == 0
    laid_out = mat1.is_contiguous() and mat2.t().is_contiguous()
    for_all = scale1.numel() == scale2.numel() == 1
    for_each = scale1.shape == (rows, 1) and scale2.shape == (1, columns)
    each_fits = dtype is DataType.BFloat16 and mat2.dtype is torch.float8_e4m3fn
    scaled = for_all or (for_each and each_fits)
    floats = scale1.dtype is scale2.dtype is torch.float32
    if not (aligned and laid_out and scaled and floats):
        return False
    least = (8, 9) if for_all else (9, 0)
    return not mat1.is_cuda or torch.cuda.get_device_capability(mat1.device) >= least


def float8_product(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    dtype: DataType,
) -> torch.Tensor:
    """scale1 scale2 (mat1 @ mat2) by torch's product of 8-bit floats, which sums in float32."""
    if scale1.numel() == scale2.numel() == 1:
        scale1, scale2 = scale1.reshape(()), scale2.reshape(())
    scales = (scale1.contiguous(), scale2.contiguous())
    return converted(torchs_product(mat1, mat2, *scales, dtype), dtype)


def _check_scaled(given: Sequence[Value]) -> None:
    """Raises OperandDtypeError unless both are 8-bit floats, or floats of one type."""
    if all(value.dtype.is_byte_float for value in given):
        return
    product_dtype("scaled_mm", given)


def _fits(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether `shape` broadcasts to `sizes`."""
    pairs = zip(reversed(shape), reversed(sizes), strict=False)
    return all(have in (1, want) for have, want in pairs)


def _sizes_error(operation: str, given: Sequence[Value], expected: str) -> ArgumentError:
    got = [list(value.shape) for value in given]
    return ArgumentError(operation, "operands", got, expected)
