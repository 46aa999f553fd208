"""What nvfuser_direct's module tells of `fd.fusion`, and of a tensor's sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import ArgumentError, ArgumentTypeError
from fuser.frontend.arguments import ints
from fuser.frontend.flattened import Inputs, flattened
from fuser.ir import types
from fuser.ir.binding import check_inputs
from fuser.ir.concretize import concretize_for
from fuser.ir.nodes import Fusion
from fuser.ir.printer import print_fusion
from fuser.ir.tolerance import tolerance_of


def translate_fusion(fusion: Fusion) -> str:
    """The definition of `fd.fusion` as a Python function, as `repr(fd)` is."""
    return print_fusion(_checked("translate_fusion", fusion))


def get_val_tolerances(fusion: Fusion, inputs: Inputs) -> list[tuple[float, float]]:
    """The (absolute, relative) difference that `fd.validate(inputs)` allows in each output that is
    returned, before it asks what these inputs make of a rounding.

    Only the sizes of tensors are looked at, and scalars that decide sizes. (0, 0) for integers and
    for what is only moved. Raises the Input...Errors.
    """
    flat = flattened(inputs)
    check_inputs(_checked("get_val_tolerances", fusion), flat)
    static = concretize_for(fusion, flat)
    returned = (output.value for output in static.outputs if output.alias_of is None)
    allowed = (tolerance_of(static, value) for value in returned)
    return [(absolute, relative) for relative, absolute in allowed]


def compute_tensor_descriptor(
    sizes: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[bool | None, ...], tuple[int, ...]]:
    """The (contiguity, stride_order) that describe a tensor of these sizes and strides.

    Strides are in elements. Dimensions of equal stride, and those of stride 0, keep their place.
    Size-1 and stride-0 dimensions have contiguity None. Raises ArgumentError, ArgumentTypeError.
    """
    return types.compute_tensor_descriptor(*_layout("compute_tensor_descriptor", sizes, strides))


def compute_contiguity(sizes: Sequence[int], strides: Sequence[int]) -> list[bool | None]:
    """Whether each dimension, in row-major order, steps over just what is inside of it.

    Strides are in elements. Size-1 and stride-0 dimensions have None. Raises ArgumentError,
    ArgumentTypeError.
    """
    return types.compute_contiguity(*_layout("compute_contiguity", sizes, strides))


def _layout(operation: str, sizes: object, strides: object) -> tuple[list[int], list[int]]:
    """Sizes and strides as lists. Raises ArgumentError, ArgumentTypeError."""
    checked = ints(operation, "sizes", sizes), ints(operation, "strides", strides)
    for argument, given in zip(("sizes", "strides"), checked, strict=True):
        if min(given, default=0) < 0:
            raise ArgumentError(operation, argument, given, "0 is the lowest")
    if len(checked[0]) != len(checked[1]):
        expected = f"expected {len(checked[0])}, one for each of the sizes"
        raise ArgumentError(operation, "strides", checked[1], expected)
    return checked


def _checked(operation: str, given: object) -> Fusion:
    if not isinstance(given, Fusion):
        raise ArgumentTypeError(operation, "fusion", type(given).__name__, "fd.fusion")
    return given
