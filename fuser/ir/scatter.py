"""Scatters: elements that are put in places, or added there, and what computes that."""

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


@dataclass(frozen=True, slots=True)
class Scatter:
    """`arg` with `src` (tensor or scalar) written, or added, at `index` along `dim`.

    mode: scatter, scatter_add, index_add or index_put_accumulate.
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
    def adds(self) -> bool:
        """Whether what goes to one place is added up, rather than the last kept."""
        return self.mode != "scatter"

    @property
    def points(self) -> tuple[int, ...]:
        """The sizes of what is written or added, element by element."""
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


def sum_type(dtype: DataType) -> DataType:
    """The type that many numbers are added in: as exact as torch is where it takes care, and one
    that memory adds by itself."""
    if dtype.is_floating:
        return dtype.compute
    return dtype if dtype.itemsize >= 4 else DataType.Int32
