"""`fd.ops`: every operation a definition can append."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from fuser.errors import ArgumentError, UnknownOperationError
from fuser.frontend.calls import bound
from fuser.frontend.close_names import close_names
from fuser.frontend.extern_ops import ExternOps
from fuser.frontend.handles import Handle, Operand, Tensor
from fuser.frontend.left_out import OPERATIONS
from fuser.frontend.norm_ops import NormOps
from fuser.frontend.quantize_ops import QuantizeOps
from fuser.frontend.random_ops import RandomOps
from fuser.frontend.triangle_ops import TriangleOps
from fuser.ir import dtypes
from fuser.ir.nodes import Number, python_number
from fuser.ir.pointwise import TABLE
from fuser.runtime.untraced import untraced, untraced_methods

_PARAMETERS_BY_ARITY = (
    (),
    ("x",),
    ("lhs", "rhs"),
    ("x", "y", "z"),
    ("x", "y", "z", "w"),
)
_PARAMETERS = {
    "add_alpha": ("lhs", "rhs", "alpha"),
    "addcmul": ("x", "y", "z", "value"),
    "complex": ("real", "imag"),
    "float4_high": ("pairs",),
    "float4_low": ("pairs",),
    "float4_pair": ("low", "high"),
    "lerp": ("start", "end", "weight"),
    "sub_alpha": ("lhs", "rhs", "alpha"),
    "threshold": ("x", "threshold", "value"),
}


@untraced_methods
class Operations(NormOps, QuantizeOps, ExternOps, RandomOps, TriangleOps):
    """Operations by name. Those of the pointwise table that have no method get one from their row.

    Operands are handles of the definition or Python numbers, which become constants.
    """

    def __getattr__(self, name: str) -> Callable[..., Handle]:
        """Raises UnknownOperationError, which is an AttributeError."""
        raise UnknownOperationError(name=name, hint=_hint(name, dir(self)))

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    def clamp(self, x: Operand, min: Operand | None = None, max: Operand | None = None) -> Handle:
        """`x` no lower than `min` and no higher than `max`; one of them may be left out."""
        if min is None and max is None:
            raise ArgumentError("clamp", "min", None, "give min, max or both")
        if max is None:
            return self._recorder.pointwise("maximum", x, min)
        if min is None:
            return self._recorder.pointwise("minimum", x, max)
        return self._recorder.pointwise("clamp", x, min, max)

    def where(self, condition: Operand, x: Operand, y: Operand) -> Handle:
        """`x` where the condition holds, else `y`, in their common type.

        A tensor of two scalars of the definition has their type, as in nvFuser: `define_scalar`
        makes Doubles of Python floats. Two numbers make what they make in torch, float32 of floats.
        """
        one, other = python_number(x), python_number(y)
        if one is not None and other is not None and isinstance(condition, Tensor):
            x, y = self._in_default_width(one), self._in_default_width(other)
        return self._recorder.pointwise("where", condition, x, y)

    def _in_default_width(self, number: Number) -> Handle:
        """A number of `where` in the type of torch's tensors of such numbers."""
        dtype = dtypes.default_width(dtypes.of_literal(number))
        return self._recorder.constant("where", number, dtype)


def _pointwise(name: str) -> Callable[..., Handle]:
    """The method of a row of the table."""
    row = TABLE[name]
    names = _PARAMETERS.get(name, _PARAMETERS_BY_ARITY[row.arity])
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    operands = [inspect.Parameter(parameter, keyword) for parameter in names]
    signature = inspect.Signature(operands)

    def operation(self: Operations, /, *args: object, **named: object) -> Handle:
        if named or len(args) != row.arity:
            args = bound(name, signature, args, named)
        return self._recorder.pointwise(name, *args)  # pyright: ignore[reportPrivateUsage]

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}({', '.join(names)}): elementwise, operands broadcast as in torch."
    operation.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *operands]
    )
    return untraced(operation)


for _name in TABLE:
    if not hasattr(Operations, _name):
        setattr(Operations, _name, _pointwise(_name))


def _hint(name: str, known: list[str]) -> str:
    if name in OPERATIONS:
        return f"; {OPERATIONS[name]}"
    return close_names(name, known) or "; dir(fd.ops) lists what it has"
