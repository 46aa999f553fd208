"""What a definition's user holds: tensors and scalars that have no value yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from fuser.errors import (
    HandleInTorchError,
    HandleOperatorError,
    HandleTruthError,
    UnknownMemberError,
)
from fuser.frontend.left_out import HANDLES
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number, Value
from fuser.ir.pointwise import TABLE
from fuser.runtime.untraced import untraced_methods


class Owner(Protocol):
    """The definition a handle belongs to, as far as a handle uses it."""

    def pointwise(self, name: str, *operands: object) -> Handle: ...

    def size(self, arg: object, dim: object) -> Handle: ...

    def number(self, value: Value) -> Number | None: ...


def _operator(name: str) -> Callable[[Handle, Operand], Handle]:
    """`handle <operator> other`, by the row of that name in the pointwise table."""

    def applied(self: Handle, other: Operand) -> Handle:
        return self.owner.pointwise(name, self, other)

    return applied


def _reflected(name: str) -> Callable[[Handle, Operand], Handle]:
    """`other <operator> handle`, of an `other` that is no handle."""

    def applied(self: Handle, other: Operand) -> Handle:
        return self.owner.pointwise(name, other, self)

    return applied


def _no_value(self: Handle, *_: object) -> NoReturn:
    """What Python calls where it needs the numbers of a handle."""
    raise HandleTruthError(name=self.name)


@untraced_methods
class Handle:
    """A value of a definition. Operators append operations to the definition and return handles.

    `/` is true division (`truediv`: integers give Float), `//` rounds down (`floor_divide`) and `%`
    takes the divisor's sign (`remainder`), as in Python and torch; nvFuser's truncating ones are
    `fd.ops.div` and `fd.ops.mod`. `==` compares elements and gives a handle.
    """

    __slots__ = ("owner", "value")

    __array_ufunc__ = None
    """Makes numpy scalars on an operator's left defer to the handle."""

    def __init__(self, owner: Owner, value: Value) -> None:
        self.owner = owner
        self.value = value

    @property
    def name(self) -> str:
        """The name the value has in the printed definition: T0, S1, ..."""
        return self.value.name

    @property
    def ndim(self) -> int:
        """The number of dimensions; 0 for a scalar."""
        return len(self.value.shape)

    def dtype(self) -> DataType:
        """The element type."""
        return self.value.dtype

    def is_tensor(self) -> bool:
        """Whether it is a tensor: one of no dimensions is, a scalar is not."""
        return self.value.is_tensor

    def is_symbolic(self) -> bool:
        """Whether its value is not known while the definition is written: it is no constant."""
        return self.owner.number(self.value) is None

    def size(self, dim: int) -> Handle:
        """The size of a tensor's dimension, as an Int scalar. Raises DimensionError."""
        return self.owner.size(self, dim)

    def shape(self) -> Vector:
        """The size of every dimension, as Int scalars."""
        return Vector(self.owner.size(self, dim) for dim in range(self.ndim))

    def __getattr__(self, name: str) -> NoReturn:
        """Raises UnknownMemberError, which is an AttributeError; it tells where operations are."""
        hint = HANDLES.get(name, "operations are on a definition, as fd.ops.sum")
        raise UnknownMemberError(owner=type(self).__name__, name=name, hint=f"; {hint}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.value.type})"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> NoReturn:
        """Raises HandleInTorchError; where a tensor's operator was asked, the handle's is next."""
        name = getattr(func, "__name__", "function")
        raise HandleInTorchError(function=name, hint=f": fd.ops.{name}" if name in TABLE else "")

    __bool__ = __len__ = __int__ = __index__ = __float__ = __complex__ = _no_value
    __iter__ = __getitem__ = __contains__ = _no_value

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Handle:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.owner.pointwise("eq", self, other)

    def __ne__(self, other: object) -> Handle:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.owner.pointwise("ne", self, other)

    def __neg__(self) -> Handle:
        return self.owner.pointwise("neg", self)

    def __pos__(self) -> Handle:
        return self

    def __round__(self) -> Handle:
        return self.owner.pointwise("round", self)

    def __abs__(self) -> Handle:
        return self.owner.pointwise("abs", self)

    def __matmul__(self, other: object) -> NoReturn:
        raise HandleOperatorError(operator="@", instead="fd.ops.matmul(a, b)")

    __rmatmul__ = __matmul__

    def __invert__(self) -> Handle:
        return self.owner.pointwise("bitwise_not", self)

    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")
    __add__ = _operator("add")
    __radd__ = _reflected("add")
    __sub__ = _operator("sub")
    __rsub__ = _reflected("sub")
    __mul__ = _operator("mul")
    __rmul__ = _reflected("mul")
    __truediv__ = _operator("truediv")
    __rtruediv__ = _reflected("truediv")
    __floordiv__ = _operator("floor_divide")
    __rfloordiv__ = _reflected("floor_divide")
    __mod__ = _operator("remainder")
    __rmod__ = _reflected("remainder")
    __pow__ = _operator("pow")
    __rpow__ = _reflected("pow")
    __and__ = _operator("bitwise_and")
    __rand__ = _reflected("bitwise_and")
    __or__ = _operator("bitwise_or")
    __ror__ = _reflected("bitwise_or")
    __xor__ = _operator("bitwise_xor")
    __rxor__ = _reflected("bitwise_xor")
    __lshift__ = _operator("bitwise_left_shift")
    __rlshift__ = _reflected("bitwise_left_shift")
    __rshift__ = _operator("bitwise_right_shift")
    __rrshift__ = _reflected("bitwise_right_shift")


class Tensor(Handle):
    """A tensor of a definition."""

    __slots__ = ()


class Scalar(Handle):
    """A number of a definition: a constant, a runtime input, a size, or computed from those."""

    __slots__ = ()


class Vector(list[Handle]):
    """Scalars of a definition, in a list: a shape, or as many runtime inputs."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self)

    def at(self, index: int) -> Handle:
        """One of them; negative indices count from the end. Raises IndexError."""
        return self[index]


Operand = Handle | Number
"""What an operation takes: a handle, or a Python number that becomes a constant."""
