"""Values: the tensors and scalars that operations read and make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from fuser.ir.dtypes import DataType
from fuser.ir.types import ScalarType, TensorType, ValueType

Number = bool | int | float | complex

Inputs = Sequence[torch.Tensor | Number]
"""What a fusion is run with: a tensor or a number for each of its inputs."""


def python_number(given: object) -> Number | None:
    """A number of Python's, or of NumPy's as Python's; None for anything else."""
    plain = cast("object", given.item()) if isinstance(given, np.bool_ | np.number) else given
    return plain if isinstance(plain, bool | int | float | complex) else None


def python_int(given: object) -> int | None:
    """An int of Python's, or of NumPy's as Python's; None for anything else, bools among it."""
    number = python_number(given)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor or a scalar, assigned once. Ids count up through a definition: T0, S1, T2."""

    id: int
    type: ValueType

    def __hash__(self) -> int:
        return self.id

    @property
    def name(self) -> str:
        return f"{'T' if isinstance(self.type, TensorType) else 'S'}{self.id}"

    @property
    def dtype(self) -> DataType:
        return self.type.dtype

    @property
    def tensor(self) -> TensorType:
        """The type of a value that is known to be a tensor."""
        assert isinstance(self.type, TensorType), f"{self.name} is a scalar"
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; () for a scalar."""
        return self.type.shape if isinstance(self.type, TensorType) else ()

    @property
    def elements(self) -> int:
        """How many elements; 1 for a scalar. Sizes must be static."""
        return math.prod(self.type.shape) if isinstance(self.type, TensorType) else 1

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    def __str__(self) -> str:
        return self.name


Extent = int | Value
"""A size in an operation: a literal, or a scalar of the definition. In a view, -1 is inferred."""


def static(extents: Iterable[Extent]) -> tuple[int, ...]:
    """Sizes of a concretized fusion, where all are numbers."""
    sizes = tuple(extents)
    assert all(isinstance(size, int) for size in sizes), f"{sizes} are not concretized"
    return sizes  # pyright: ignore[reportReturnType]


def scalar(id_: int, dtype: DataType) -> Value:
    """A scalar value."""
    return Value(id_, ScalarType(dtype))
