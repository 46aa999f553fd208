"""Segment -> body: what one point of the iteration domain loads, computes and stores.

Every stored value is followed back to what it reads, with coordinates substituted on the way, so a
view or a permute inside a segment is only another index. Domain axes are split where that removes
a division (`[8192, 3072]` seen as `[64, 128, 3072]`), and merged again where memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fuser.ir.nodes import Cat, Pad, Value
from fuser.ir.shapes import row_major_strides
from fuser.schedule.code.emit import Emitter, scalar_operands
from fuser.schedule.code.row_body import Code, Sweep, names_in
from fuser.schedule.indices.coordinates import Coordinates, pull, push
from fuser.schedule.indices.cuts import clean_cut
from fuser.schedule.indices.index import Axis, compose, linear, unravel
from fuser.schedule.tree.expressions import Expression, Ref
from fuser.schedule.tree.statements import Let, Load
from fuser.segmenter import Segment


@dataclass(frozen=True, slots=True)
class Body(Sweep):
    """The only sweep of a kernel, which loads before it computes. `prologue` is done once."""

    prologue: tuple[Load | Let, ...] = ()


def trace(segment: Segment) -> Body:
    """The body of a segment, over axes fine enough that views nest where they can."""
    shape = segment.stores[-1].shape
    axes = [[Axis((dim,), size)] for dim, size in enumerate(shape)]
    while True:
        coordinates = tuple(map(compose, axes))
        body = _Tracer(segment, coordinates).run(tuple(a for dim in axes for a in dim))
        cut = next(filter(None, map(clean_cut, body.indices())), None)
        if cut is None:
            return body
        axis, inner = cut
        dim = next(dim for dim in axes if axis in dim)
        dim[dim.index(axis) : dim.index(axis) + 1] = axis.split(inner)


class _Tracer(Emitter):
    """One walk over a segment for given coordinates of its last stored value."""

    def __init__(self, segment: Segment, coordinates: Coordinates) -> None:
        super().__init__(segment)
        self._uses = segment.fusion.uses()
        self._wanted: dict[Value, dict[Coordinates, Expression | None]] = {}
        self._numbers: dict[Value, dict[Coordinates, int]] = {}
        self._stored_at = self._place_stores(coordinates)
        self._loads: list[Load] = []
        self._lets: list[Let] = []

    def run(self, axes: tuple[Axis, ...]) -> Body:
        self._request()
        self._numbers = {
            value: {at: number for number, at in enumerate(wanted)}
            for value, wanted in self._wanted.items()
        }
        for value in self._fusion.inputs:
            self._bind_input(value)
        for statement in self._fusion.statements:
            for at in self._wanted.get(statement.out, {}):
                self._wanted[statement.out][at] = self.emit(statement, at)
        stores = tuple(self._store(*each) for each in self._stored_at.items())
        kept = tuple(axis for axis in axes if axis.extent != 1)
        code = (*self._loads, *self._lets)
        return Body(kept, code, stores=stores, prologue=tuple(self._prologue))

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
        if definition is not None and not isinstance(definition.op, Pad | Cat):
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
                for operand in scalar_operands(statement):
                    self._wanted.setdefault(operand, {})[()] = None

    def _bind_input(self, value: Value) -> None:
        for at in self._wanted.get(value, {}):
            name = self.name(value, at)
            if value.is_tensor:
                self._loads.append(self._load(value, at))
            self._wanted[value][at] = Ref(name, value.dtype)

    def add(self, let: Let, is_tensor: bool) -> None:
        (self._lets if is_tensor else self._prologue).append(let)

    def add_load(self, load: Load) -> None:
        self._loads.append(load)

    def get(self, value: Value, at: Coordinates) -> Expression:
        found = self._wanted[value][at]
        assert found is not None, f"{value} is read before it is computed"
        return found

    def name(self, value: Value, at: Coordinates) -> str:
        """`T5`, and `T5_1`, `T5_2` where it is computed at further coordinates."""
        number = self._numbers[value][at]
        return f"{value}_{number}" if number else value.name


def rewrite_points(
    body: Body, rewrite: Callable[[Sequence[Code], Iterable[str]], Iterable[Code]]
) -> Body:
    """`body` with its code rewritten, given what is read after it."""
    return replace(body, code=tuple(rewrite(body.code, names_in(body.stores))))


def _alike(value: Value, shape: tuple[int, ...], at: Coordinates) -> Coordinates:
    """The element of `value` that is as far from its start as `at` is in a tensor of `shape`."""
    if value.shape == shape:
        return at
    return unravel(linear(at, row_major_strides(shape)), value.shape)
