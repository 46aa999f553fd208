"""Operations on shapes and element types."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import ArgumentError
from fuser.frontend.arguments import (
    Shape,
    boolean,
    check_original_shape,
    data_type,
    extents,
    integer,
    ints,
    is_int,
    one_of,
    original_and,
    read_dims,
    sequence,
)
from fuser.frontend.handles import Handle, Operand, Vector
from fuser.frontend.input_layouts import declared_order
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    Expand,
    Flip,
    Pad,
    Slice,
    Squeeze,
    Value,
    View,
)
from fuser.ir.types import DYNAMIC
from fuser.ir.varying import varying_dims


class ShapeOps(OperationGroup):
    """`fd.ops`: metadata operations, cast, pad and cat."""

    def cast(self, arg: Operand, dtype: DataType) -> Handle:
        """The same numbers as `dtype`; complex to real keeps the real part."""
        value = self._recorder.operand("cast", "arg", arg)
        return self._recorder.add("cast", Cast(value, data_type("cast", dtype)))

    def reshape(
        self,
        arg: Handle,
        *shapes: Shape,
        new_shape: Shape | None = None,
        original_shape: Sequence[int] | None = None,
    ) -> Handle:
        """The same elements in row-major order: `reshape(arg, [original_shape,] new_shape)`.

        One size may be -1. `original_shape` is checked against the operand's known sizes.
        """
        value = self._recorder.tensor("reshape", "arg", arg)
        original, new = original_and("reshape", "new_shape", shapes, original_shape, new_shape)
        if original is not None:
            check_original_shape("reshape", value, original)
        sizes = extents(self._recorder, "reshape", "new_shape", new, lowest=-1)
        return self._recorder.add("reshape", View(value, sizes))

    view = reshape

    def permute(self, arg: Handle, dims: Sequence[int]) -> Handle:
        """Result dimension i is operand dimension dims[i]."""
        value = self._recorder.held("permute", "arg", arg)
        order = ints("permute", "dims", dims)
        wrapped = tuple(self._recorder.dim("permute", value, dim) for dim in order)
        return self._recorder.permuted(value, wrapped)

    def broadcast(self, arg: Handle, is_broadcast_dim: Sequence[bool]) -> Handle:
        """Inserts a dimension of size 1 where `is_broadcast_dim` is True."""
        value = self._recorder.tensor("broadcast", "arg", arg)
        flags = sequence("broadcast", "is_broadcast_dim", is_broadcast_dim)
        new = tuple(boolean("broadcast", f"is_broadcast_dim[{i}]", f) for i, f in enumerate(flags))
        return self._recorder.add("broadcast", Broadcast(value, new))

    def broadcast_in_dim(
        self,
        arg: Handle,
        shape: Shape | None = None,
        broadcast_dims: Sequence[int] | None = None,
        *,
        output_shape: Shape | None = None,
    ) -> Handle:
        """`arg` broadcast to `shape`, where its dimension i is dimension broadcast_dims[i]."""
        value = self._recorder.tensor("broadcast_in_dim", "arg", arg)
        wanted = one_of("broadcast_in_dim", shape=shape, output_shape=output_shape)
        sizes = extents(self._recorder, "broadcast_in_dim", "shape", wanted, lowest=-1)
        dims = _broadcast_dims(value, broadcast_dims, len(sizes))
        if len(sizes) > len(dims):
            new = tuple(dim not in dims for dim in range(len(sizes)))
            arg = self._recorder.add("broadcast_in_dim", Broadcast(value, new))
        if all(
            have == size or size == DYNAMIC
            for have, size in zip(arg.value.shape, sizes, strict=True)
        ):
            return arg
        return self._recorder.add("broadcast_in_dim", Expand(arg.value, sizes))

    def expand(self, arg: Handle, shape: Shape) -> Handle:
        """Repeats dimensions of size 1 up to `shape`; -1 keeps a dimension."""
        value = self._recorder.tensor("expand", "arg", arg)
        sizes = extents(self._recorder, "expand", "shape", shape, lowest=-1)
        return self._recorder.add("expand", Expand(value, sizes))

    def repeat(self, arg: Handle, repeats: Sequence[int]) -> Handle:
        """`arg` that many times along each dimension, as torch.Tensor.repeat: further dimensions
        come first."""
        value = self._recorder.tensor("repeat", "arg", arg)
        times = ints("repeat", "repeats", repeats)
        new = len(times) - len(value.shape)
        if new < 0 or min(times, default=0) < 0:
            expected = f"expected at least {len(value.shape)} numbers from 0"
            raise ArgumentError("repeat", "repeats", times, expected)
        sizes = [1] * new + [self._recorder.size(arg, dim) for dim in range(len(value.shape))]
        flags = [flag for dim in range(len(times)) for flag in (True, dim < new)]
        apart = self.expand(self.broadcast(arg, flags), [n for t in times for n in (t, -1)])
        return self.reshape(apart, [t * size for t, size in zip(times, sizes, strict=True)])

    def squeeze(
        self,
        arg: Handle,
        *given: Sequence[int] | int | bool,
        dims: Sequence[int] | int | None = None,
        squeeze_expanded: bool = False,
        original_shape: Sequence[int] | None = None,
        dim: Sequence[int] | int | None = None,
    ) -> Handle:
        """Removes dimensions of size 1: `squeeze(arg, [original_shape,] dims)`.

        `dim` is an older name of `dims`. With `squeeze_expanded`, also last by position, dimensions
        of any size that repeat one element are removed too. Raises ArgumentError for others.
        """
        value = self._recorder.tensor("squeeze", "arg", arg)
        positional = given
        if given and isinstance(given[-1], bool):
            positional, squeeze_expanded = given[:-1], given[-1]
        removed = read_dims("squeeze", dims, {} if dim is None else {"dim": dim}, "dim")
        original, removed = original_and("squeeze", "dims", positional, original_shape, removed)
        if original is not None:
            check_original_shape("squeeze", value, original)
        listed = [removed] if is_int(removed) else sequence("squeeze", "dims", removed)
        wrapped = sorted(self._recorder.dim("squeeze", value, part) for part in listed)
        if boolean("squeeze", "squeeze_expanded", squeeze_expanded):
            value = self._without_repeats(value, wrapped)
        return self._recorder.add("squeeze", Squeeze(value, tuple(wrapped)))

    def _without_repeats(self, value: Value, dims: Sequence[int]) -> Value:
        """The first of what the expanded ones of `dims` repeat."""
        varying = varying_dims(self._recorder.fusion)[value]
        repeats = [dim for dim in dims if value.shape[dim] != 1 and dim not in varying]
        if not repeats:
            return value
        rank, extent = len(value.shape), self._recorder.extent
        ends = [1 if dim in repeats else extent("squeeze", value, dim) for dim in range(rank)]
        first = Slice(value, (0,) * rank, tuple(ends), (1,) * rank)
        return self._recorder.add("squeeze", first).value

    def slice(
        self,
        arg: Handle,
        start_indices: Shape,
        end_indices: Shape,
        strides: Shape | None = None,
        manual_normalization: bool = False,
    ) -> Handle:
        """Elements from start, below end, in steps; an end beyond the size is the size."""
        value = self._recorder.tensor("slice", "arg", arg)
        boolean("slice", "manual_normalization", manual_normalization)
        starts = extents(self._recorder, "slice", "start_indices", start_indices)
        ends = extents(self._recorder, "slice", "end_indices", end_indices)
        given = (1,) * len(starts) if strides is None else strides
        steps = extents(self._recorder, "slice", "strides", given)
        return self._recorder.add("slice", Slice(value, starts, ends, steps))

    def flip(self, arg: Handle, dims: Sequence[int] | int) -> Handle:
        """The elements in reverse order along each of `dims`."""
        value = self._recorder.tensor("flip", "arg", arg)
        listed = [dims] if is_int(dims) else ints("flip", "dims", dims)
        wrapped = tuple(self._recorder.dim("flip", value, dim) for dim in listed)
        return self._recorder.add("flip", Flip(value, wrapped))

    def stride_order(self, arg: Handle, stride_order: Sequence[int]) -> Handle:
        """The same tensor, laid out so that dimension d has stride rank stride_order[d]."""
        value = self._recorder.held("stride_order", "arg", arg)
        order = declared_order("stride_order", stride_order, len(value.shape))
        return self._recorder.laid_out("stride_order", arg, order)

    def size(self, arg: Handle, dim: int) -> Handle:
        """The size of a dimension, as an Int scalar."""
        return self._recorder.size(arg, dim)

    def shape(self, arg: Handle) -> Vector:
        """The size of every dimension, as Int scalars."""
        value = self._recorder.tensor("shape", "arg", arg)
        return Vector(self._recorder.size(arg, dim) for dim in range(len(value.shape)))

    tensor_sizes = shape

    def at(self, arg: Vector, index: int) -> Handle:
        """One scalar of a vector; negative indices count from the end. Raises ArgumentError."""
        scalars, place = sequence("at", "arg", arg), integer("at", "index", index)
        if not -len(scalars) <= place < len(scalars):
            expected = f"expected one of the {len(scalars)} elements"
            raise ArgumentError("at", "index", place, expected)
        return arg[place]

    def pad(self, arg: Handle, pad_widths: Shape, value: Operand | None = None) -> Handle:
        """torch.nn.functional.pad: (before, after) widths, the last dimension's first."""
        padded = self._recorder.tensor("pad", "arg", arg)
        widths = extents(self._recorder, "pad", "pad_widths", pad_widths)
        if len(widths) % 2 or len(widths) > 2 * len(padded.shape):
            got = [width if isinstance(width, int) else width.name for width in widths]
            expected = f"expected 2 widths for each of at most {len(padded.shape)} dimension(s)"
            raise ArgumentError("pad", "pad_widths", got, expected)
        missing = (0, 0) * (len(padded.shape) - len(widths) // 2)
        flat = widths + missing
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        fill = self._recorder.scalar("pad", "value", 0 if value is None else value)
        return self._recorder.add("pad", Pad(padded, tuple(reversed(pairs)), fill))

    def cat(self, tensors: Sequence[Handle], dim: int = 0, manual_padding: bool = False) -> Handle:
        """Tensors of one dtype, one after the other along `dim`."""
        boolean("cat", "manual_padding", manual_padding)
        parts = sequence("cat", "tensors", tensors)
        args = tuple(self._recorder.tensor("cat", f"tensors[{i}]", t) for i, t in enumerate(parts))
        if not args:
            raise ArgumentError("cat", "tensors", [], "expected at least one")
        return self._recorder.add("cat", Cat(args, self._recorder.dim("cat", args[0], dim)))


def _broadcast_dims(value: Value, given: object, rank: int) -> list[int]:
    """Where the dimensions of `value` go, in increasing order. Raises ArgumentError."""
    listed = one_of("broadcast_in_dim", broadcast_dims=given)
    dims = [
        dim + rank if dim < 0 else dim for dim in ints("broadcast_in_dim", "broadcast_dims", listed)
    ]
    fits = len(dims) == len(value.shape) and dims == sorted(set(dims))
    if not fits or any(not 0 <= dim < rank for dim in dims):
        expected = f"expected {len(value.shape)} increasing dimensions below {rank}"
        raise ArgumentError("broadcast_in_dim", "broadcast_dims", listed, expected)
    return dims
