"""Atoms: which dimensions of different tensors are one axis, and which are factors of one.

    T0 [8192, 3072]                      (a b) c     a = 64, b = 128, c = 3072
    T1 [64, 128, 3072] = view(T0)        a b c
    T2 [64, 128] = sum(T1, [2])          a b
    T3 [3072, 8192] = permute(T0)        c (a b)

One pass over the fusion gives every dimension a list of atoms, outermost first. An operation that
reads elements of equal coordinates makes the atoms of its operands one; a view splits them. What an
operation reads at other coordinates (a slice, a flip, a gather, a view whose factors do not nest)
gets atoms of its own. Two dimensions of one tensor are never the same atom, even in x + x.T: what
would make them so is noted as read out of place. Dimensions of size 1 have no atoms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import assert_never

from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Constant,
    Expand,
    Extern,
    Flip,
    Full,
    Fusion,
    Gather,
    GeneratorState,
    Iota,
    Pad,
    Permute,
    Pointwise,
    Random,
    Reduce,
    Scan,
    Scatter,
    SizeOf,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    static,
)
from fuser.segmenter.atom_table import AtomTable

Dimension = tuple[int, ...]
"""The atoms of one dimension, outermost first."""

AtomSet = frozenset[int]
NONE: AtomSet = frozenset()


class Atoms:
    """The atoms of every tensor of a concretized fusion."""

    def __init__(self, fusion: Fusion) -> None:
        self._table = AtomTable()
        self._dims: dict[Value, tuple[Dimension, ...]] = {}
        self._misplaced: dict[tuple[Value, Value], tuple[int, ...]] = {}
        self._sets: dict[Value, AtomSet] = {}
        for value in fusion.inputs:
            self._dims[value] = tuple(map(self._fresh, value.shape))
        for statement in fusion.statements:
            for out in statement.outs:
                dims = self._read(statement, out)
                self._dims[out] = dims
                self._table.live_together(atom for dim in dims for atom in dim)

    def of(self, value: Value) -> AtomSet:
        """The atoms a tensor is indexed by; none for a scalar."""
        found = self._sets.get(value)
        if found is None:
            dims = self._dims.get(value, ())
            found = frozenset(leaf for dim in dims for leaf in self._table.leaves(dim))
            self._sets[value] = found
        return found

    def factors(self, value: Value) -> tuple[Dimension, ...]:
        """The atoms of each dimension of a tensor, outermost first."""
        return tuple(map(self._leaves, self._dims[value]))

    def size(self, atom: int) -> int:
        """The extent of one atom."""
        return self._table.sizes[atom]

    def along(self, value: Value, dims: Iterable[int]) -> AtomSet:
        """The atoms of some dimensions of a tensor."""
        held = self._dims[value]
        return frozenset(leaf for dim in dims for leaf in self._table.leaves(held[dim]))

    def misplaced(self, reader: Value, operand: Value) -> AtomSet:
        """Atoms of `operand` at which what makes `reader` reads it elsewhere than it computes."""
        return frozenset(self._table.leaves(self._misplaced.get((reader, operand), ())))

    def match(self, one: Value, other: Value) -> None:
        """Let two tensors of one shape, which nothing relates, be walked together."""
        for left, right in zip(self._dims[one], self._dims[other], strict=True):
            self._table.align(left, right)
        self._sets.clear()

    def elements(self, atoms: AtomSet) -> int:
        """How many points these atoms span."""
        return math.prod(self._table.sizes[atom] for atom in atoms)

    def sizes(self, atoms: AtomSet) -> list[int]:
        """The extents of atoms, in the order the atoms were made."""
        return [self._table.sizes[atom] for atom in sorted(atoms)]

    def _fresh(self, size: int) -> Dimension:
        return () if size == 1 else (self._table.new(size),)

    def _leaves(self, dim: Dimension) -> Dimension:
        return self._table.leaves(dim)

    def _read(self, statement: Statement, out: Value) -> tuple[Dimension, ...]:
        """The atoms of a result, from those of the operands."""
        op, shape = statement.op, out.shape
        match op:
            case Pointwise():
                return self._joined(out, [(arg, self._aligned(arg, shape)) for arg in op.args])
            case Cast() | StrideOrder() | CheckIndex() | Scan():
                return self._dims.get(op.arg, ())
            case Scatter():
                return self._dims[op.arg]
            case View():
                return self._viewed(op.arg, out)
            case Permute():
                return tuple(self._dims[op.arg][dim] for dim in op.dims)
            case Broadcast():
                kept = iter(self._dims[op.arg])
                return tuple(() if new else next(kept) for new in op.is_broadcast)
            case Squeeze():
                dims = enumerate(self._dims[op.arg])
                return tuple(dim for number, dim in dims if number not in op.dims)
            case Flip():
                return self._moved(op.arg, out, op.dims)
            case Slice():
                return self._sliced(op, out)
            case Expand():
                sizes = enumerate(zip(op.arg.shape, shape, strict=True))
                return self._moved(op.arg, out, [dim for dim, (old, new) in sizes if old != new])
            case Pad():
                return self._moved(
                    op.arg, out, [n for n, pair in enumerate(op.widths) if any(pair)]
                )
            case Cat():
                return self._concatenated(op, out)
            case Reduce():
                dims = enumerate(self._dims[op.arg])
                kept = [(n, () if n in op.dims else dim) for n, dim in dims]
                return tuple(dim for n, dim in kept if op.keepdim or n not in op.dims)
            case Gather():
                return self._gathered(op, out)
            case Full() | Iota() | Random() | Extern() | Constant() | SizeOf() | GeneratorState():
                return tuple(map(self._fresh, shape))
            case _:
                assert_never(op)

    def _aligned(self, arg: Value, shape: tuple[int, ...]) -> list[Dimension]:
        """An operand's dimensions, with those that broadcasting adds in front."""
        dims = self._dims.get(arg, ())
        return [()] * (len(shape) - len(dims)) + list(dims)

    def _joined(
        self, out: Value, operands: Sequence[tuple[Value, list[Dimension]]]
    ) -> tuple[Dimension, ...]:
        """The dimensions of operands that are read at equal coordinates, made one.

        What an operand cannot be read at so is noted as out of place.
        """
        result: list[Dimension] = []
        used: set[int] = set()
        for number, size in enumerate(out.shape):
            chosen: Dimension | None = None
            for operand, dims in operands:
                dim = self._leaves(dims[number])
                if not dim:
                    continue
                if not used.isdisjoint(dim):
                    self._note(out, operand, dim)
                elif chosen is None:
                    chosen = dim
                elif not self._table.align(chosen, dim):
                    self._note(out, operand, dim)
            found = self._fresh(size) if chosen is None else self._leaves(chosen)
            used.update(found)
            result.append(found)
        return tuple(result)

    def _note(self, out: Value, operand: Value, atoms: Sequence[int]) -> None:
        held = self._misplaced.get((out, operand), ())
        self._misplaced[out, operand] = (*held, *atoms)

    def _moved(self, arg: Value, out: Value, dims: Sequence[int]) -> tuple[Dimension, ...]:
        """Dimensions as they were, but for `dims`, whose elements have other places."""
        result = list(self._dims[arg])
        for dim in dims:
            self._note(out, arg, result[dim])
            result[dim] = self._fresh(out.shape[dim])
        return tuple(result)

    def _sliced(self, op: Slice, out: Value) -> tuple[Dimension, ...]:
        """Every second, third, ... element lies elsewhere in the innermost factor alone, if that
        has so many, and the others stay; any other part of a dimension lies elsewhere in all."""
        result = list(self._dims[op.arg])
        spans = zip(op.arg.shape, out.shape, static(op.starts), static(op.steps), strict=True)
        for number, (whole, size, start, step) in enumerate(spans):
            if size == whole:
                continue
            outer, moved = (), self._leaves(result[number])
            if start < step and size * step == whole and self._table.sizes[moved[-1]] % step == 0:
                outer, moved = moved[:-1], moved[-1:]
            self._note(out, op.arg, moved)
            result[number] = (*outer, *self._fresh(size // self.elements(frozenset(outer))))
        return tuple(result)

    def _concatenated(self, op: Cat, out: Value) -> tuple[Dimension, ...]:
        """Along its dimension, elements have other places than in the operands."""
        parts = [(arg, [*self._dims[arg]]) for arg in op.args]
        for arg, dims in parts:
            self._note(out, arg, dims[op.dim])
            dims[op.dim] = ()
        return self._joined(out, parts)

    def _gathered(self, op: Gather, out: Value) -> tuple[Dimension, ...]:
        data = list(self._dims[op.arg])
        index = list(self._dims.get(op.index, ()))
        self._note(out, op.arg, data[op.dim])
        match op.mode:
            case "select":
                del data[op.dim]
                return tuple(data)
            case "index_select":
                rank = len(data)
                data[op.dim] = ()
                along = [()] * op.dim + [(index or [()])[0]] + [()] * (rank - op.dim - 1)
                return self._joined(out, [(op.arg, data), (op.index, along)])
            case _:
                for dim, size in enumerate(out.shape):
                    if dim == op.dim:
                        data[dim] = ()
                    elif op.arg.shape[dim] not in (1, size):
                        self._note(out, op.arg, data[dim])
                        data[dim] = ()
                return self._joined(out, [(op.index, index), (op.arg, data)])

    def _viewed(self, arg: Value, out: Value) -> tuple[Dimension, ...]:
        """The atoms of a view, block by block: runs of dimensions with equal numbers of elements.

        Where the factors of a block do not nest, its dimensions get atoms of their own.
        """
        if out.elements == 0:
            return tuple(map(self._fresh, out.shape))
        held = list(zip(arg.shape, self._dims[arg], strict=True))
        wanted = list(out.shape)
        result: list[Dimension] = []
        while wanted:
            have, want = 1, wanted.pop()
            block = [want]
            atoms: list[int] = []
            while have != want:
                if have < want:
                    size, dim = held.pop()
                    have *= size
                    atoms[:0] = self._leaves(dim)
                else:
                    block.insert(0, wanted.pop())
                    want *= block[0]
            dealt = self._table.divide(atoms, block)
            if dealt is None:
                self._note(out, arg, atoms)
            result[:0] = map(self._fresh, block) if dealt is None else dealt
        return tuple(result)
