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
from fuser.frontend.recorder import Recorder
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
    """Operations by name. The rows of the pointwise table need no method: each is found by name.

    Operands are handles of the definition or Python numbers, which become constants.
    """

    def __getattr__(self, name: str) -> Callable[..., Handle]:
        """A pointwise operation. Raises UnknownOperationError, which is an AttributeError."""
        if name not in TABLE:
            raise UnknownOperationError(name=name, hint=_hint(name, dir(self)))
        operation = _pointwise(self._recorder, name)
        setattr(self, name, operation)
        return operation

    def __dir__(self) -> list[str]:
        return sorted(name for name in {*super().__dir__(), *TABLE} if not name.startswith("_"))

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


def _pointwise(recorder: Recorder, name: str) -> Callable[..., Handle]:
    row = TABLE[name]
    names = _PARAMETERS.get(name, _PARAMETERS_BY_ARITY[row.arity])
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(parameter, keyword) for parameter in names])

    def operation(*args: object, **named: object) -> Handle:
        if named or len(args) != row.arity:
            args = bound(name, signature, args, named)
        return recorder.pointwise(name, *args)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}({', '.join(names)}): elementwise, operands broadcast as in torch."
    operation.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return untraced(operation)


def _hint(name: str, known: list[str]) -> str:
    if name in OPERATIONS:
        return f"; {OPERATIONS[name]}"
    return close_names(name, known) or "; dir(fd.ops) lists what it has"
