"""Segment -> body: what one point of the iteration domain loads, computes and stores.

Every stored value is followed back to what it reads, with coordinates substituted on the way, so a
view or a permute inside a segment is only another index. Domain axes are split where that removes
a division (`[8192, 3072]` seen as `[64, 128, 3072]`), and merged again where memory allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fuser.ir.dtypes import DataType, of_literal
from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Cast,
    Constant,
    Full,
    Iota,
    Pointwise,
    Statement,
    StrideOrder,
    Value,
)
from fuser.ir.shapes import row_major_strides
from fuser.ir.strided import Strided, is_metadata
from fuser.schedule.coordinates import Coordinates, pull, push
from fuser.schedule.index import Axis, Index, clean_cut, linear, of_axis, total, unravel
from fuser.schedule.loop_tree import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Let,
    Literal,
    Load,
    Ref,
    Store,
)
from fuser.segmenter import Segment

COPIES = ("set", "segment_set")

_SCHEDULED = Pointwise | Cast | StrideOrder | Full | Iota


@dataclass(frozen=True, slots=True)
class Body:
    """Straight-line code over `axes`. `prologue` computes scalars, once."""

    axes: tuple[Axis, ...]
    prologue: tuple[Let, ...]
    loads: tuple[Load, ...]
    lets: tuple[Let, ...]
    stores: tuple[Store, ...]

    def indices(self) -> list[Index]:
        """Every index in the body."""
        found = [access.at for access in (*self.loads, *self.stores)]
        found += [
            let.expression.index for let in self.lets if isinstance(let.expression, IndexValue)
        ]
        return found


def can_schedule(segment: Segment) -> bool:
    """Whether loops can be made for every operation of a segment."""
    return all(
        isinstance(statement.op, _SCHEDULED) or is_metadata(statement.op)
        for statement in segment.fusion.statements
        if statement.outs[0].is_tensor
    )


def trace(segment: Segment) -> Body:
    """The body of a segment, over axes fine enough that views nest where they can."""
    shape = segment.stores[-1].shape
    axes = [[Axis((dim,), size)] for dim, size in enumerate(shape)]
    while True:
        coordinates = tuple(map(_dimension, axes))
        body = _Tracer(segment, coordinates).run(tuple(a for dim in axes for a in dim))
        cut = next(filter(None, map(clean_cut, body.indices())), None)
        if cut is None:
            return body
        axis, inner = cut
        dim = next(dim for dim in axes if axis in dim)
        dim[dim.index(axis) : dim.index(axis) + 1] = axis.split(inner)


def _dimension(axes: list[Axis]) -> Index:
    """A dimension's coordinate from the axes it was split into."""
    parts: list[tuple[Index, int]] = []
    stride = 1
    for axis in reversed(axes):
        parts.append((of_axis(axis), stride))
        stride *= axis.extent
    return total(parts)


class _Tracer:
    """One walk over a segment for given coordinates of its last stored value."""

    def __init__(self, segment: Segment, coordinates: Coordinates) -> None:
        self._segment = segment
        self._fusion = segment.fusion
        self._definitions = segment.fusion.definitions()
        self._uses = segment.fusion.uses()
        self._wanted: dict[Value, dict[Coordinates, Expression | None]] = {}
        self._stored_at = self._place_stores(coordinates)
        self._prologue: list[Let] = []
        self._loads: list[Load] = []
        self._lets: list[Let] = []

    def run(self, axes: tuple[Axis, ...]) -> Body:
        self._request()
        for value in self._fusion.inputs:
            self._bind_input(value)
        for statement in self._fusion.statements:
            for at in self._wanted.get(statement.out, {}):
                self._wanted[statement.out][at] = self._emit(statement, at)
        stores = tuple(
            Store(
                value, _address(self._segment.memory[value], at), self._as(value, at, value.dtype)
            )
            for value, at in self._stored_at.items()
        )
        kept = tuple(axis for axis in axes if axis.extent != 1)
        return Body(kept, tuple(self._prologue), tuple(self._loads), tuple(self._lets), stores)

    def _place_stores(self, coordinates: Coordinates) -> dict[Value, Coordinates]:
        """The coordinates of every stored value at one point of the domain."""
        known = {self._segment.stores[-1]: coordinates}
        pending = [self._segment.stores[-1]]
        unplaced = [value for value in self._segment.stores if value not in known]
        while unplaced or pending:
            while pending:
                for value, at in self._neighbours(pending.pop(), known):
                    if value not in known:
                        known[value] = at
                        pending.append(value)
            unplaced = [value for value in unplaced if value not in known]
            if unplaced:  # an independent chain: any order of its elements will do
                value = unplaced.pop(0)
                known[value] = _alike(value, self._segment.stores[-1].shape, coordinates)
                pending.append(value)
        return {value: known[value] for value in self._segment.stores}

    def _neighbours(
        self, value: Value, known: dict[Value, Coordinates]
    ) -> list[tuple[Value, Coordinates]]:
        """Values whose elements correspond one to one with those of `value`, and which one."""
        found: list[tuple[Value, Coordinates]] = []
        definition = self._definitions.get(value)
        if definition is not None:
            count = value.elements
            pulled = pull(definition, known[value])
            found += [(v, at) for v, at in pulled if v.elements == count]
        for reader in self._uses.get(value, []):
            at = push(reader, value, known[value]) if reader.out.is_tensor else None
            if at is not None:
                found.append((reader.out, at))
        return found

    def _request(self) -> None:
        """Walk backward and note at which coordinates each value is needed."""
        for value, at in self._stored_at.items():
            self._wanted.setdefault(value, {})[at] = None
        for statement in reversed(self._fusion.statements):
            for at in list(self._wanted.get(statement.out, {})):
                for operand, read_at in pull(statement, at):
                    self._wanted.setdefault(operand, {})[read_at] = None
                for operand in _scalar_operands(statement):
                    self._wanted.setdefault(operand, {})[()] = None

    def _bind_input(self, value: Value) -> None:
        for at in self._wanted.get(value, {}):
            name = self._name(value, at)
            if value.is_tensor:
                self._loads.append(Load(name, value, _address(self._segment.memory[value], at)))
            self._wanted[value][at] = Ref(name, value.dtype)

    def _emit(self, statement: Statement, at: Coordinates) -> Expression:
        """The expression that stands for a statement's result at `at`; lets are added for it."""
        op, out = statement.op, statement.out
        if isinstance(op, Constant):
            return Literal(op.value, op.dtype)
        if is_metadata(op) or isinstance(op, StrideOrder):
            ((operand, read_at),) = pull(statement, at)
            return self._get(operand, read_at)
        reads = dict(pull(statement, at))
        if isinstance(op, Pointwise) and op.op in COPIES:
            return self._get(op.args[0], reads.get(op.args[0], ()))
        if isinstance(op, Cast):
            expression = self._as(op.arg, reads.get(op.arg, ()), op.dtype)
        elif isinstance(op, Pointwise):
            expression = self._call(op, statement, at)
        elif isinstance(op, Full):
            return self._as(op.fill, (), op.dtype)
        else:
            assert isinstance(op, Iota), f"{statement} does not run in a kernel"
            expression = self._iota(op, out, at)
        name = self._name(out, at)
        (self._lets if out.is_tensor else self._prologue).append(Let(name, out.dtype, expression))
        return Ref(name, out.dtype)

    def _call(self, op: Pointwise, statement: Statement, at: Coordinates) -> Call:
        types = signature(op)
        places = iter(pull(statement, at))
        reads = [next(places)[1] if arg.is_tensor else () for arg in op.args]
        args = tuple(
            self._as(arg, read_at, dtype)
            for arg, read_at, dtype in zip(op.args, reads, types.args, strict=True)
        )
        return Call(op.op, args, types.result)

    def _iota(self, op: Iota, out: Value, at: Coordinates) -> Expression:
        """start + index * step, in Int or Double as the oracle does, then the result's type."""
        wide = DataType.Int if op.dtype.is_integral else DataType.Double
        name = f"{self._name(out, at)}_index"
        self._lets.append(Let(name, wide, IndexValue(at[0], wide)))
        product = Call("mul", (Ref(name, wide), self._as(op.step, (), wide)), wide)
        return _convert(Call("add", (self._as(op.start, (), wide), product), wide), op.dtype)

    def _get(self, value: Value, at: Coordinates) -> Expression:
        found = self._wanted[value][at]
        assert found is not None, f"{value} is read before it is computed"
        return found

    def _as(self, value: Value, at: Coordinates, dtype: DataType) -> Expression:
        return _convert(self._get(value, at), dtype)

    def _name(self, value: Value, at: Coordinates) -> str:
        """`T5`, and `T5_1`, `T5_2` where it is computed at further coordinates."""
        number = list(self._wanted[value]).index(at)
        return f"{value}_{number}" if number else value.name


def _alike(value: Value, shape: tuple[int, ...], at: Coordinates) -> Coordinates:
    """The element of `value` that is as far from its start as `at` is in a tensor of `shape`."""
    if value.shape == shape:
        return at
    return unravel(linear(at, row_major_strides(shape)), value.shape)


def _address(memory: Strided, at: Coordinates) -> Index:
    return linear(at, memory.strides, memory.offset)


def _scalar_operands(statement: Statement) -> list[Value]:
    op = statement.op
    match op:
        case Pointwise():
            return [arg for arg in op.args if not arg.is_tensor]
        case Cast():
            return [] if op.arg.is_tensor else [op.arg]
        case Full():
            return [op.fill]
        case Iota():
            return [op.start, op.step]
        case _:
            return []


def _convert(expression: Expression, dtype: DataType) -> Expression:
    if expression.dtype is dtype:
        return expression
    if isinstance(expression, Literal) and not isinstance(expression.value, complex):
        return Literal(_number_as(expression.value, dtype), dtype)
    return Convert(expression, dtype)


def _number_as(value: bool | int | float, dtype: DataType) -> bool | int | float | complex:
    """A literal in another type, as torch converts it."""
    return torch.tensor(value, dtype=of_literal(value).torch).to(dtype.torch).item()
