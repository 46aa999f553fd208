"""Scatters that kernels compute, and how: the last pass, since it depends on the target.

T3 = fd.ops.scatter_add(T0, T1, T2, dim=0)           T0: BFloat16 [V, D], T1: Int [T, D]
->
T4 = fd.ops.cast(T0, dtype=DataType.Float)           memory that nothing else reads, and
T5 = fd.ops.cast(T2, dtype=DataType.Float)           room for the sum of many small numbers
T6 = fd.ops.scatter_add(T4, T1, T5, dim=0)           in place: T6 is the memory of T4
T3 = fd.ops.cast(T6, dtype=DataType.BFloat16)

A kernel with lists, or one that goes row by row, makes every element of the result once: it needs
neither.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property

from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer
from fuser.ir.nodes import (
    Cast,
    CheckIndex,
    Extern,
    Fusion,
    MetadataOperation,
    Operation,
    Pointwise,
    Random,
    Scan,
    Scatter,
    ScatterForm,
    Statement,
    Value,
)
from fuser.ir.scatter import joined_type
from fuser.ir.varying import varying_dims

LEAST_COLUMNS, MOST_COLUMNS = 16, 1 << 14
"""Neighbouring elements that share their index for which lists are made: for fewer a list
costs about as much as its points, and the sum of more does not stay in the first cache. So many are
in a row that is made with points of its own."""

LEAST_ROWS = 8
"""Rows with points of their own from which a thread makes all of one: fewer would be too few for
the threads."""

LEAST_SHARED, MOST_SHARED_BYTES = 64, 1 << 16
"""Rows with points of their own for which a GPU has a block or a warp each, and the bytes of one in
shared memory: of so many, every architecture has room for one block at least."""

_MOST_LISTED = 2**31 - 2
"""Rows and points are numbered by Int32."""


def choose_scatter_forms(fusion: Fusion, *, in_order: bool, repeatable: bool) -> Fusion:
    """`fusion` with a form for every scatter.

    `in_order`: the target has lists of points in their order, or goes row by row; else kernels join
    them in any order, and which of several is kept is left to chance. `repeatable`: the same result
    is wanted each time, so where that is so, torch has to see to it.
    """
    return _Choice(fusion, in_order=in_order, repeatable=repeatable).run()


class _Choice:
    """One walk over a fusion."""

    def __init__(self, fusion: Fusion, *, in_order: bool, repeatable: bool) -> None:
        self._fusion = fusion
        self._in_order, self._repeatable = in_order, repeatable
        self._definitions = fusion.definitions()
        self._uses = fusion.uses()
        self._statements: list[Statement] = []
        self._next = fusion.fresh_id

    def run(self) -> Fusion:
        for statement in self._fusion.statements:
            op = statement.op
            form = self._form(op) if isinstance(op, Scatter) else ScatterForm.TORCH
            if isinstance(op, Scatter) and form is not ScatterForm.TORCH:
                self._rewrite(statement.out, dataclasses.replace(op, form=form))
            else:
                self._statements.append(statement)
        return dataclasses.replace(self._fusion, statements=tuple(self._statements))

    def _form(self, op: Scatter) -> ScatterForm:
        dtype = op.arg.dtype
        whole = math.prod(op.points) > 0 and op.arg.elements > 0
        if not whole or dtype.is_complex or (op.joins and dtype is DataType.Bool):
            return ScatterForm.TORCH
        if self._in_order and self._shares_index(op):
            return ScatterForm.LISTS
        if self._in_order and _has_rows(op, LEAST_ROWS):
            return ScatterForm.ROWS
        rounds = dtype.is_floating and op.joins in ("add", "mul")
        by_chance = not self._in_order and (rounds or not op.joins)
        if by_chance and self._repeatable:
            return ScatterForm.TORCH
        if op.joins and self._shares_index(op):
            return ScatterForm.LISTS
        row_bytes = op.arg.shape[op.dim] * max(op.arg.dtype.itemsize, 4)
        if op.joins and _has_rows(op, LEAST_SHARED) and row_bytes <= MOST_SHARED_BYTES:
            return ScatterForm.ROWS
        return ScatterForm.IN_PLACE

    def _shares_index(self, op: Scatter) -> bool:
        """Whether enough neighbours have one index, and whole rows of the result are joined to."""
        others = [dim for dim in range(len(op.points)) if dim not in op.point_dims]
        sizes = [op.points[dim] for dim in others]
        rows = op.arg.shape[: op.dim] + op.arg.shape[op.dim + 1 :]
        if tuple(sizes) != rows or max(math.prod(op.points), op.arg.elements) > _MOST_LISTED:
            return False
        if not op.mode.startswith("index") and not self._varying[op.index].isdisjoint(others):
            return False
        columns = math.prod(op.arg.shape[op.dim + 1 :])
        return LEAST_COLUMNS <= columns <= MOST_COLUMNS

    @cached_property
    def _varying(self) -> Mapping[Value, frozenset[int]]:
        return varying_dims(self._fusion)

    def _rewrite(self, out: Value, op: Scatter) -> None:
        """Add a scatter that a kernel computes, and what it needs besides."""
        src = op.src
        if not src.is_tensor and src.dtype is not op.arg.dtype:
            src = self._add(Cast(src, op.arg.dtype))
        if op.makes_all:
            self._append(out, dataclasses.replace(op, src=src))
            return
        dtype = joined_type(op.arg.dtype) if op.joins else op.arg.dtype
        if dtype is not op.arg.dtype:
            wide = dataclasses.replace(op, arg=self._add(Cast(op.arg, dtype)), src=src)
            wide = dataclasses.replace(wide, src=self._add(Cast(src, dtype)))
            self._append(out, Cast(self._add(wide), out.dtype))
            return
        base = op.arg if self._is_own(op) else self._add(Pointwise("set", (op.arg,)))
        self._append(out, dataclasses.replace(op, arg=base, src=src))

    def _is_own(self, op: Scatter) -> bool:
        """Whether a kernel makes `arg`, for this scatter alone."""
        made = self._definitions.get(op.arg)
        if made is None or len(made.outs) > 1 or op.arg in self._fusion.output_values:
            return False
        if isinstance(made.op, MetadataOperation | CheckIndex | Random | Scan | Extern):
            return False
        if isinstance(made.op, Scatter) and self._form(made.op) is not ScatterForm.IN_PLACE:
            return False
        read_otherwise = op.arg in (op.index, op.src)
        return len(self._uses.get(op.arg, ())) == 1 and not read_otherwise

    def _add(self, op: Operation) -> Value:
        (type_,) = infer(op)
        out = Value(self._next, type_)
        self._next += 1
        self._append(out, op)
        return out

    def _append(self, out: Value, op: Operation) -> None:
        self._statements.append(Statement((out,), op))


def _has_rows(op: Scatter, least: int) -> bool:
    """Whether the index numbers the last dimension, and all rows, of which there are `least`, have
    equally many points."""
    before, length = op.arg.shape[: op.dim], op.arg.shape[op.dim]
    is_last = op.dim == len(op.arg.shape) - 1 and len(op.point_dims) == 1
    return (
        is_last
        and op.points[: op.dim] == before
        and math.prod(before) >= least
        and LEAST_COLUMNS <= length <= MOST_COLUMNS
    )
