"""Scatters: elements that are put in places, or joined to what is there, and what computes that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from fuser.ir.dtypes import DataType
from fuser.ir.values import Value


class ScatterForm(Enum):
    """What computes a scatter; a pass decides it for the target."""

    TORCH = "torch"
    LISTS = "lists"  # a kernel that makes every element, from a list of the points that go to it
    ROWS = "rows"  # a kernel that makes every element, row by row, each from points of its own
    IN_PLACE = "in place"  # a kernel that changes the memory of `arg`, which nothing else reads


_JOINED = {
    "scatter_add": "add",
    "scatter_amax": "maximum",
    "scatter_amin": "minimum",
    "scatter_prod": "mul",
    "index_add": "add",
    "index_put_accumulate": "add",
}
"""For each mode but "scatter", the pointwise operation that joins what goes to one place."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """`arg` with `src` (tensor or scalar) written, or joined to it, at `index` along `dim`.

    mode: scatter, scatter_add, scatter_amax, scatter_amin, scatter_prod, index_add or
    index_put_accumulate.
    """

    arg: Value
    index: Value
    src: Value
    dim: int
    mode: str = "scatter"
    form: ScatterForm = ScatterForm.TORCH

    @property
    def in_kernel(self) -> bool:
        """Whether a kernel computes it, rather than torch."""
        return self.form is not ScatterForm.TORCH

    @property
    def makes_all(self) -> bool:
        """Whether a kernel makes every element of the result once."""
        return self.form in (ScatterForm.LISTS, ScatterForm.ROWS)

    @property
    def joins(self) -> str | None:
        """The pointwise operation that joins what goes to one place; None if the last is kept."""
        return _JOINED.get(self.mode)

    @property
    def points(self) -> tuple[int, ...]:
        """The sizes of what is written or joined, element by element."""
        return self.src.shape if self.mode.startswith("index") else self.index.shape

    @property
    def point_dims(self) -> range:
        """The dimensions of `points` that the index numbers; the others are as those of `arg`."""
        rank = len(self.index.shape) if self.mode == "index_put_accumulate" else 1
        return range(self.dim, self.dim + rank)

    @property
    def most_at_one_place(self) -> int:
        """How many points there are that may go to the same place."""
        return math.prod(self.points[dim] for dim in self.point_dims)


def joined_type(dtype: DataType) -> DataType:
    """The type that many numbers are joined in: as exact as torch is where it takes care, and one
    that memory joins by itself."""
    if dtype.is_floating:
        return dtype.compute
    return dtype if dtype.itemsize >= 4 else DataType.Int32
