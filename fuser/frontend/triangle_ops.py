"""Triangles of matrices: a comparison of row and column numbers.

triu(T0, diagonal=1)    rows = iota(8, start=1); columns = iota(6)
T0 [2, 8, 6]            where(columns >= rows, T0, 0)
"""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Iota, Pointwise, Value


class TriangleOps(OperationGroup):
    """`fd.ops`: triangles of the last two dimensions."""

    def triu(self, arg: Handle, diagonal: Operand = 0) -> Handle:
        """`arg` above a diagonal and on it, 0 below. The main one is 0, those above are positive.

        Raises ArgumentError for fewer than two dimensions.
        """
        return self._triangle("triu", arg, "ge", diagonal)

    def tril(self, arg: Handle, diagonal: Operand = 0) -> Handle:
        """`arg` below a diagonal and on it, 0 above. The main one is 0, those above are positive.

        Raises ArgumentError for fewer than two dimensions.
        """
        return self._triangle("tril", arg, "le", diagonal)

    def _triangle(self, name: str, arg: Handle, comparison: str, diagonal: Operand) -> Handle:
        value = self._recorder.tensor(name, "arg", arg)
        rank = len(value.shape)
        if rank < 2:
            expected = f"{value} has {rank} dimension(s), expected two or more"
            raise ArgumentError(name, "arg", arg, expected)
        first = self._recorder.scalar(name, "diagonal", diagonal)
        if not first.dtype.is_integral or first.dtype is DataType.Bool:
            raise ArgumentError(name, "diagonal", diagonal, "expected an integer")
        rows = self._numbers(name, value, rank - 2, first)
        rows = self._recorder.add(name, Broadcast(rows, (False, True))).value
        columns = self._numbers(name, value, rank - 1, self._recorder.scalar(name, "start", 0))
        kept = self._recorder.add(name, Pointwise(comparison, (columns, rows))).value
        is_bool = value.dtype is DataType.Bool
        nothing = self._recorder.constant(name, False if is_bool else 0, value.dtype).value
        return self._recorder.add(name, Pointwise("where", (kept, value, nothing)))

    def _numbers(self, name: str, value: Value, dim: int, start: Value) -> Value:
        """The numbers of the elements along a dimension, from `start`."""
        size, step = self._recorder.extent(name, value, dim), self._recorder.scalar(name, "step", 1)
        return self._recorder.add(name, Iota(size, start, step, DataType.Int)).value
