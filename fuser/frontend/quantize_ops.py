"""Quantization by blocks: compositions of the other operations.

Each `block_size` elements of a row share a scale of 8 bits:

    nvfp4    16 floats of 4 bits and a Float8_e4m3fn; one float32 may scale the whole tensor too
    mxfp8    32 floats of 8 bits and a Float8_e8m0fnu, a power of two

Products read scales [m, k] in tiles of 128 by 4, those of a tile side by side (NVIDIA's layout of
scales for its tensor cores), rounded up to whole tiles:

    [m, k]  -->  [tiles of m, 4, 32, tiles of k, 4]  -->  [tiles of m, tiles of k, 32, 4, 4]
"""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.arguments import boolean, data_type, integer
from fuser.frontend.factory_ops import FactoryOps
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.index_ops import IndexOps
from fuser.frontend.reduction_ops import ReductionOps
from fuser.frontend.shape_ops import ShapeOps
from fuser.ir.block_products import BLOCK, TILE_COLUMNS, TILE_OUTER, TILE_ROWS
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value

_LARGEST_FLOAT4, _LARGEST_E4M3, _LARGEST_POWER = 6.0, 448.0, 2.0**127
_LARGEST_FLOAT = 3.4028234663852886e38


class QuantizeOps(ShapeOps, ReductionOps, IndexOps, FactoryOps):
    """`fd.ops`: floats of 4 and 8 bits with a scale for each block of them."""

    def nv_block_quantize(
        self,
        input: Handle,
        global_scale: Handle | None = None,
        swizzle_block_scales: bool = False,
        block_size: int = 16,
        dtype: DataType = DataType.Float4_e2m1fn,
    ) -> tuple[Handle, Handle]:
        """`input` [..., n] in few bits, and the scales of its blocks [..., n / block_size].

        Of Float4_e2m1fn, blocks of 16: a scale is the largest magnitude over 6, times
        `global_scale` (Float, 0-dim) if there is one. Of Float8_e4m3fn, blocks of 32: the least
        power of two that is no less than the largest magnitude over 448. With
        `swizzle_block_scales`, those of a matrix are as products read them: whole tiles, filled up
        with zeros. A block with NaN has the scale NaN. Raises ArgumentError.
        """
        name = "nv_block_quantize"
        value = self._recorder.tensor(name, "input", input)
        to = data_type(name, dtype)
        if to not in BLOCK:
            raise ArgumentError(name, "dtype", dtype, f"one of {', '.join(map(repr, BLOCK))}")
        self._check(name, value, to, integer(name, "block_size", block_size))
        swizzled = boolean(name, "swizzle_block_scales", swizzle_block_scales)
        if swizzled and len(value.shape) != 2:
            expected = f"scales of a matrix are swizzled; {value} has {len(value.shape)} dimensions"
            raise ArgumentError(name, "swizzle_block_scales", True, expected)
        if to is DataType.Float4_e2m1fn:
            codes, scales = self._nvfp4(input, value, global_scale)
        elif global_scale is not None:
            expected = "blocks of 8-bit floats have powers of two alone"
            raise ArgumentError(name, "global_scale", global_scale, expected)
        else:
            codes, scales = self._mxfp8(input, value)
        return codes, self._swizzled(scales) if swizzled else scales

    def nv_grouped_block_quantize(
        self,
        input: Handle,
        input_offsets: Handle,
        output_offsets: Handle,
        global_scale: Handle | None = None,
        block_size: int = 16,
        dtype: DataType = DataType.Float4_e2m1fn,
    ) -> tuple[Handle, Handle]:
        """`nv_block_quantize` of a matrix whose scales `preprocess_grouped_matmul_input_sf` puts
        where products of groups read them. Raises ArgumentError."""
        if data_type("nv_grouped_block_quantize", dtype) is not DataType.Float4_e2m1fn:
            expected = "Float4_e2m1fn: only nvfp4 is multiplied by groups"
            raise ArgumentError("nv_grouped_block_quantize", "dtype", dtype, expected)
        codes, scales = self.nv_block_quantize(input, global_scale, False, block_size, dtype)
        placed = self.preprocess_grouped_matmul_input_sf(scales, input_offsets, output_offsets)
        return codes, placed

    def preprocess_grouped_matmul_input_sf(
        self, input: Handle, input_offsets: Handle, output_offsets: Handle
    ) -> Handle:
        """Scales [m, k] as `cutlass_nvfp4_grouped_mm` reads them: those of each group swizzled.

        Group g begins at row `input_offsets[g]` of `input`, and its tiles at row
        `output_offsets[g]` of the result, a multiple of 128; both are Int32 or Int [groups]. The
        result has m + 128 groups rows, of which no group has more than fill its tiles; what no
        scale is written to is 0. Raises ArgumentError.
        """
        name = "preprocess_grouped_matmul_input_sf"
        value = self._recorder.tensor(name, "input", input)
        for argument, offsets in (
            ("input_offsets", input_offsets),
            ("output_offsets", output_offsets),
        ):
            given = self._recorder.tensor(name, argument, offsets)
            if len(given.shape) != 1 or not given.dtype.is_integral:
                expected = "a tensor of one dimension, of Int32 or Int"
                raise ArgumentError(name, argument, given.type, expected)
        if len(value.shape) != 2:
            raise ArgumentError(name, "input", value.type, "a matrix of scales")
        rows, columns = (self.size(input, dim) for dim in range(2))
        groups = self.size(input_offsets, 0)
        width = _tiles(columns, TILE_COLUMNS) * TILE_COLUMNS
        row = self.broadcast(self.iota(rows), [False, True])
        begun = row >= self.broadcast(input_offsets, [True, False])
        group = self.sum(self.cast(begun, DataType.Int), [1]) - 1
        within = self.iota(rows) - self.index_select(input_offsets, group, 0)
        first = self.index_select(output_offsets, group, 0)
        place = self._place(first, within, self.iota(columns), width)
        size = (rows + groups * TILE_ROWS) * width
        empty = self.full([size], 0.0, value.dtype)
        placed = self.scatter(empty, self.reshape(place, [-1]), self.reshape(input, [-1]), 0)
        return self.reshape(placed, [-1, width])

    def _place(self, first: Handle, row: Handle, column: Handle, width: Handle) -> Handle:
        """Where scales lie from the start, of tiles that begin at row `first`: [rows, columns]."""
        tile, rest = row // TILE_ROWS, row % TILE_ROWS
        inner, outer = rest // TILE_OUTER, rest % TILE_OUTER
        of_row = (
            (first + tile * TILE_ROWS) * width
            + outer * (TILE_COLUMNS * TILE_COLUMNS)
            + inner * TILE_COLUMNS
        )
        of_column = column // TILE_COLUMNS * (TILE_ROWS * TILE_COLUMNS) + column % TILE_COLUMNS
        return self.broadcast(of_row, [False, True]) + self.broadcast(of_column, [True, False])

    def _check(self, name: str, value: Value, dtype: DataType, block_size: int) -> None:
        """Raises ArgumentError."""
        block = BLOCK[dtype]
        if block_size != block:
            expected = f"{block} elements of {dtype.name} share a scale"
            raise ArgumentError(name, "block_size", block_size, expected)
        floating = value.dtype.is_floating and not value.dtype.is_byte_float
        if not floating or not value.shape:
            expected = "a tensor of floats of 16 bits or more, of one dimension or more"
            raise ArgumentError(name, "input", value.type, expected)
        if value.shape[-1] > 0 and value.shape[-1] % block:
            expected = f"the last size must be a multiple of {block}, the elements of a block"
            raise ArgumentError(name, "input", list(value.shape), expected)

    def _nvfp4(self, x: Handle, value: Value, global_scale: Handle | None) -> tuple[Handle, Handle]:
        """The pairs of 4-bit floats, each computed from the two numbers that it holds."""
        sizes = [self.size(x, dim) for dim in range(len(value.shape) - 1)]
        pairs = self.reshape(x, [*sizes, -1, BLOCK[DataType.Float4_e2m1fn] // 2, 2])
        low, high = (
            self.cast(self.select(pairs, number, -1), DataType.Float) for number in range(2)
        )
        largest = self.max(self._maximum(self._abs(low), self._abs(high)), [-1], keepdim=True)
        size = largest / _LARGEST_FLOAT4
        if global_scale is not None:
            size = size * global_scale
        scale = self.cast(self._minimum(size, _LARGEST_FLOAT), DataType.Float8_e4m3fn)
        held = self.cast(scale, DataType.Float)
        if global_scale is not None:
            held = held * self._recorder.pointwise("reciprocal", global_scale)
        inverse = self._minimum(self._recorder.pointwise("reciprocal", held), _LARGEST_FLOAT)
        first, second = (
            self.reshape(self.cast(half * inverse, DataType.Float4_e2m1fn), [*sizes, -1])
            for half in (low, high)
        )
        return self._recorder.pairs(first, second), self.squeeze(scale, [-1])

    def _mxfp8(self, x: Handle, value: Value) -> tuple[Handle, Handle]:
        sizes = [self.size(x, dim) for dim in range(len(value.shape))]
        blocks = self.reshape(x, [*sizes[:-1], -1, BLOCK[DataType.Float8_e4m3fn]])
        wide = self.cast(blocks, DataType.Float)
        largest = self.max(self._abs(wide), [-1], keepdim=True) * (1 / _LARGEST_E4M3)
        size = self._minimum(largest, _LARGEST_POWER)
        nearest = self.cast(self.cast(size, DataType.Float8_e8m0fnu), DataType.Float)
        least = self._recorder.pointwise("where", nearest < size, nearest * 2.0, nearest)
        codes = self.cast(
            wide * self._recorder.pointwise("reciprocal", least), DataType.Float8_e4m3fn
        )
        scales = self.squeeze(self.cast(least, DataType.Float8_e8m0fnu), [-1])
        return self.reshape(codes, sizes), scales

    def _swizzled(self, scales: Handle) -> Handle:
        """Of a matrix, in whole tiles."""
        rows, columns = (self.size(scales, dim) for dim in range(2))
        tiles = _tiles(rows, TILE_ROWS), _tiles(columns, TILE_COLUMNS)
        filled = tiles[0] * TILE_ROWS, tiles[1] * TILE_COLUMNS
        whole = self.pad(scales, [0, filled[1] - columns, 0, filled[0] - rows], 0.0)
        apart = self.reshape(
            whole, [tiles[0], TILE_ROWS // TILE_OUTER, TILE_OUTER, tiles[1], TILE_COLUMNS]
        )
        return self.reshape(self.permute(apart, [0, 3, 2, 1, 4]), list(filled))

    def _abs(self, x: Operand) -> Handle:
        return self._recorder.pointwise("abs", x)

    def _maximum(self, x: Operand, y: Operand) -> Handle:
        return self._recorder.pointwise("maximum", x, y)

    def _minimum(self, x: Operand, y: Operand) -> Handle:
        return self._recorder.pointwise("minimum", x, y)


def _tiles(size: Handle, of: int) -> Handle:
    """How many tiles of a size hold a dimension."""
    return (size + (of - 1)) // of
