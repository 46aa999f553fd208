"""What a definition's user holds: tensors and scalars that have no value yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from fuser.errors import HandleInTorchError, HandleTruthError, UnknownMemberError
from fuser.frontend.left_out import HANDLES
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number, Value
from fuser.ir.pointwise import TABLE
from fuser.runtime.untraced import untraced_methods


class Owner(Protocol):
    """The definition a handle belongs to, as far as a handle uses it."""

    def pointwise(self, name: str, *operands: object) -> Handle: ...

    def size(self, arg: object, dim: object) -> Handle: ...


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

    def __bool__(self) -> bool:
        raise HandleTruthError(name=self.name)

    def __iter__(self) -> None:
        raise HandleTruthError(name=self.name)

    def __getitem__(self, index: object) -> NoReturn:
        raise HandleTruthError(name=self.name)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Handle:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.owner.pointwise("eq", self, other)

    def __ne__(self, other: object) -> Handle:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.owner.pointwise("ne", self, other)

    def __lt__(self, other: Operand) -> Handle:
        return self.owner.pointwise("lt", self, other)

    def __le__(self, other: Operand) -> Handle:
        return self.owner.pointwise("le", self, other)

    def __gt__(self, other: Operand) -> Handle:
        return self.owner.pointwise("gt", self, other)

    def __ge__(self, other: Operand) -> Handle:
        return self.owner.pointwise("ge", self, other)

    def __neg__(self) -> Handle:
        return self.owner.pointwise("neg", self)

    def __abs__(self) -> Handle:
        return self.owner.pointwise("abs", self)

    def __invert__(self) -> Handle:
        return self.owner.pointwise("bitwise_not", self)

    def __add__(self, other: Operand) -> Handle:
        return self.owner.pointwise("add", self, other)

    def __radd__(self, other: Operand) -> Handle:
        return self.owner.pointwise("add", other, self)

    def __sub__(self, other: Operand) -> Handle:
        return self.owner.pointwise("sub", self, other)

    def __rsub__(self, other: Operand) -> Handle:
        return self.owner.pointwise("sub", other, self)

    def __mul__(self, other: Operand) -> Handle:
        return self.owner.pointwise("mul", self, other)

    def __rmul__(self, other: Operand) -> Handle:
        return self.owner.pointwise("mul", other, self)

    def __truediv__(self, other: Operand) -> Handle:
        return self.owner.pointwise("truediv", self, other)

    def __rtruediv__(self, other: Operand) -> Handle:
        return self.owner.pointwise("truediv", other, self)

    def __floordiv__(self, other: Operand) -> Handle:
        return self.owner.pointwise("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Handle:
        return self.owner.pointwise("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Handle:
        return self.owner.pointwise("remainder", self, other)

    def __rmod__(self, other: Operand) -> Handle:
        return self.owner.pointwise("remainder", other, self)

    def __pow__(self, other: Operand) -> Handle:
        return self.owner.pointwise("pow", self, other)

    def __rpow__(self, other: Operand) -> Handle:
        return self.owner.pointwise("pow", other, self)

    def __and__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_and", other, self)

    def __or__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_or", other, self)

    def __xor__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_xor", other, self)

    def __lshift__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_left_shift", other, self)

    def __rshift__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Handle:
        return self.owner.pointwise("bitwise_right_shift", other, self)


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
