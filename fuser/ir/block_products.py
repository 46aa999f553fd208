"""Products of 4-bit and 8-bit floats whose blocks have a scale each, as torch's tensors.

mat1 [m, k] and mat2 [k, n] have their blocks, of 16 elements (nvfp4) or 32 (mxfp8), along k. Scales
are swizzled: [m, k / block] in tiles of 128 by 4, the 512 numbers of a tile side by side, those of
mat2 as [n, k / block]. 4-bit floats come in pairs along k. `frontend/quantize_ops.py` makes both.
"""

from __future__ import annotations

import torch

from fuser.errors import ArgumentError
from fuser.ir.conversions import converted
from fuser.ir.dtype_rules import refused
from fuser.ir.dtypes import DataType
from fuser.ir.four_bits import apart
from fuser.ir.nodes import Value
from fuser.ir.result_shapes import same_size
from fuser.ir.types import TensorType

_PAIRS, _E8M0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
TILE_ROWS, TILE_COLUMNS, TILE_OUTER = 128, 4, 32
"""Of a tile of swizzled scales: rows are `TILE_OUTER` of 4 times as many, those first."""
BLOCK = {DataType.Float4_e2m1fn: 16, DataType.Float8_e4m3fn: 32}
"""How many elements of a type share a scale."""
_HAS_BLOCKS = (10, 0)
"""The first GPUs whose tensor cores read scales of blocks."""


def have_blocks(mat1: torch.Tensor, scale1: torch.Tensor) -> bool:
    """Whether the scales are of blocks: those of 4-bit floats are, and powers of two that are as
    many as whole tiles have."""
    if mat1.dtype is _PAIRS:
        return True
    rows, inner = mat1.shape
    blocks = -(-inner // BLOCK[DataType.Float8_e4m3fn])
    return scale1.dtype is _E8M0 and scale1.numel() == _whole_tiles(rows, blocks)


def block_product(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    dtype: DataType,
) -> torch.Tensor:
    """mat1 @ mat2, each element times the scale of its block: as `dtype` by torch's product where
    the GPU has one, else in float32."""
    if mat1.is_cuda and _torch_takes(mat1, mat2):
        return torchs_product(mat1, mat2, scale1, scale2, dtype)
    are_pairs = mat1.dtype is _PAIRS
    block = BLOCK[DataType.Float4_e2m1fn if are_pairs else DataType.Float8_e4m3fn]
    left, right = (apart(mat1), apart(mat2, 0)) if are_pairs else (mat1, mat2)
    return _widened(left, scale1, block) @ _widened(right.t(), scale2, block).t()


def torchs_product(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    dtype: DataType,
) -> torch.Tensor:
    """By torch's product of floats of 8 and 4 bits: as `dtype`, or Float where it makes none."""
    wide = dtype if dtype in (DataType.BFloat16, DataType.Half) else DataType.Float
    return torch._scaled_mm(mat1, mat2, scale1, scale2, out_dtype=wide.torch)  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]


def _torch_takes(mat1: torch.Tensor, mat2: torch.Tensor) -> bool:
    """Whether torch's product does, on this GPU: of rows and columns that are contiguous and of
    whole 16 bytes."""
    whole = mat1.shape[1] % 16 == 0 and mat2.shape[1] % 16 == 0 and mat1.numel() > 0
    laid_out = mat1.is_contiguous() and mat2.t().is_contiguous()
    return whole and laid_out and torch.cuda.get_device_capability(mat1.device) >= _HAS_BLOCKS


def _widened(operand: torch.Tensor, scales: torch.Tensor, block: int) -> torch.Tensor:
    """In float32, each row's blocks times their scales."""
    rows, inner = operand.shape
    of_blocks = _linear(scales, rows, -(-inner // block)).float()
    return operand.float() * of_blocks.repeat_interleave(block, 1)[:, :inner]


def _linear(scales: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Swizzled scales as a matrix."""
    tiles = -(-rows // TILE_ROWS), -(-columns // TILE_COLUMNS)
    if scales.numel() != _whole_tiles(rows, columns):
        expected = (
            f"expected the scales of {list(tiles)} tiles of {TILE_ROWS} by {TILE_COLUMNS}, swizzled"
        )
        raise ArgumentError("scaled_mm", "scales", list(scales.shape), expected)
    tiled = scales.contiguous().reshape(*tiles, TILE_OUTER, TILE_ROWS // TILE_OUTER, TILE_COLUMNS)
    matrix = tiled.transpose(1, 3).reshape(tiles[0] * TILE_ROWS, tiles[1] * TILE_COLUMNS)
    return matrix[:rows, :columns]


def _whole_tiles(rows: int, columns: int) -> int:
    """How many scales as many whole tiles as hold these have."""
    return -(-rows // TILE_ROWS) * TILE_ROWS * -(-columns // TILE_COLUMNS) * TILE_COLUMNS


# -- groups --------------------------------------------------------------------------------------

_GROUPED = "cutlass_nvfp4_grouped_mm"
_INTEGERS = (DataType.Int32, DataType.Int)
_TAKEN = {
    "mat1": (2, (DataType.Float4_e2m1fn_x2,), "4-bit floats"),
    "mat2": (3, (DataType.Float4_e2m1fn_x2,), "4-bit floats"),
    "scale1": (2, (DataType.Float8_e4m3fn,), "Float8_e4m3fn"),
    "scale2": (3, (DataType.Float8_e4m3fn,), "Float8_e4m3fn"),
    "alpha": (1, (DataType.Float,), "Float"),
    "problem_sizes": (2, _INTEGERS, "Int32 or Int"),
    "expert_offsets": (1, _INTEGERS, "Int32 or Int"),
    "sf_offsets": (1, _INTEGERS, "Int32 or Int"),
}
"""For each operand of a product of groups, its rank and the types it may have."""


def groups_types(*given: Value, dtype: DataType) -> tuple[TensorType, ...]:
    """A matrix of `dtype`. Raises OperandDtypeError, ArgumentError."""
    for value, (argument, (rank, dtypes, words)) in zip(given, _TAKEN.items(), strict=True):
        if value.dtype not in dtypes:
            raise refused(_GROUPED, f"{argument} must be of {words}", [value])
        if len(value.shape) != rank:
            expected = f"expected {rank} dimension(s)"
            raise ArgumentError(_GROUPED, argument, list(value.shape), expected)
    mat1, mat2 = given[:2]
    if not same_size(mat1.shape[1], mat2.shape[1]):
        got = [list(mat1.shape), list(mat2.shape)]
        raise ArgumentError(_GROUPED, "operands", got, "the inner sizes must be equal")
    return (TensorType(dtype, (mat1.shape[0], mat2.shape[2])),)


def groups(
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
    alpha: torch.Tensor,
    problem_sizes: torch.Tensor,
    expert_offsets: torch.Tensor,
    sf_offsets: torch.Tensor,
    *,
    dtype: DataType,
) -> tuple[torch.Tensor, ...]:
    """For each group, alpha[g] (mat1 of its rows @ mat2[g]); 0 in rows of no group.

    Its rows begin at `expert_offsets[g]` and are `problem_sizes[g, 0]`; their scales begin at row
    `sf_offsets[g]` of `scale1`.
    """
    result = alpha.new_zeros((mat1.shape[0], mat2.shape[2]), dtype=dtype.torch)
    counts = problem_sizes[:, 0], expert_offsets, sf_offsets
    if any(len(each) != mat2.shape[0] for each in (*counts, alpha, scale2)):
        got = [len(each) for each in (*counts, alpha, scale2)]
        expected = f"a number, or matrix, for each of the {mat2.shape[0]} groups of mat2"
        raise ArgumentError(_GROUPED, "groups", got, expected)
    for group, of_group in enumerate(torch.stack([each.long() for each in counts], 1).cpu()):
        rows, first, first_scale = (int(number) for number in of_group)
        last_scale = first_scale + -(-rows // TILE_ROWS) * TILE_ROWS
        if (
            min(rows, first, first_scale) < 0
            or first + rows > len(mat1)
            or last_scale > len(scale1)
        ):
            expected = f"rows of the {len(mat1)} of mat1, and of the {len(scale1)} of scale1"
            got = f"group {group}: {rows} rows from {first} on, scales from {first_scale} on"
            raise ArgumentError(_GROUPED, "groups", got, expected)
        if rows == 0:
            continue
        scales = scale1[first_scale:last_scale], scale2[group]
        of_rows = mat1[first : first + rows], mat2[group]
        product = block_product(*of_rows, *scales, DataType.Float) * alpha[group]
        result[first : first + rows] = converted(product, dtype)
    return (result,)
