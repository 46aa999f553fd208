"""What nvfuser_direct's module tells of `fd.fusion`: its text, and how exact its outputs are."""

from __future__ import annotations

from fuser.errors import ArgumentTypeError
from fuser.frontend.repro import Inputs
from fuser.frontend.workbench import flattened
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


def _checked(operation: str, given: object) -> Fusion:
    if not isinstance(given, Fusion):
        raise ArgumentTypeError(
            operation=operation, argument="fusion", expected="fd.fusion", got=type(given).__name__
        )
    return given
