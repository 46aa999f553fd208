"""The shapes and layouts of inputs, as `define_tensor` is told them."""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.arguments import boolean, ints, is_sequence, sequence
from fuser.ir.types import (
    DYNAMIC,
    Layout,
    compute_tensor_descriptor,
    dims_slowest_first,
    row_major_order,
)


def declared_shape(given: object) -> tuple[int, ...]:
    """The shape of an input: -1 dynamic, 1 broadcast, others static. Raises ArgumentError."""
    shape = ints("define_tensor", "shape", given)
    for dim, size in enumerate(shape):
        if size < DYNAMIC:
            expected = "a size is -1 (any), 0 or more"
            raise ArgumentError("define_tensor", f"shape[{dim}]", size, expected)
    return tuple(shape)


def declared_layout(shape: tuple[int, ...], contiguity: object, stride_order: object) -> Layout:
    """The layout of an input. `contiguity` runs from the slowest to the fastest dimension."""
    order = declared_order("define_tensor", stride_order, len(shape))
    sizes = [shape[dim] for dim in dims_slowest_first(order)]
    if not is_sequence(contiguity):
        everywhere = boolean("define_tensor", "contiguity", contiguity)
        return Layout(tuple(None if size == 1 else everywhere for size in sizes), order)
    flags = sequence("define_tensor", "contiguity", contiguity)
    if len(flags) != len(shape) or any(flag not in (None, 0, 1) for flag in flags):
        expected = f"expected True, False or None for each of {len(shape)} dimension(s)"
        raise ArgumentError("define_tensor", "contiguity", flags, expected)
    paired = zip(flags, sizes, strict=True)
    return Layout(tuple(None if f is None or size == 1 else bool(f) for f, size in paired), order)


def declared_order(operation: str, given: object, rank: int) -> tuple[int, ...]:
    """A stride order, negative entries wrapped; row-major when it is None or empty."""
    order = [] if given is None else ints(operation, "stride_order", given)
    if not order:
        return row_major_order(rank)
    wrapped = tuple(position + rank if position < 0 else position for position in order)
    if sorted(wrapped) != list(range(rank)):
        expected = f"expected each of 0 to {rank - 1} once, {rank - 1} the slowest dimension"
        raise ArgumentError(operation, "stride_order", order, expected)
    return wrapped


def described(
    sizes: object, strides: object, *, static_sizes: bool
) -> tuple[tuple[int, ...], Layout]:
    """The shape and layout of an input like a tensor of these sizes and strides, in elements."""
    actual, steps = declared_shape(sizes), ints("define_tensor", "strides", strides)
    if DYNAMIC in actual:
        expected = "expected a tensor's sizes beside its strides; shape and contiguity describe any"
        raise ArgumentError("define_tensor", "sizes", list(actual), expected)
    if len(actual) != len(steps) or min(steps, default=0) < 0:
        expected = f"expected a stride of 0 or more for each of the sizes {list(actual)}"
        raise ArgumentError("define_tensor", "strides", steps, expected)
    contiguity, order = compute_tensor_descriptor(actual, steps)
    shape = actual if static_sizes else tuple(1 if size == 1 else DYNAMIC for size in actual)
    return shape, Layout(contiguity, order)
