"""What walks over a scatter have in common.

A thread that makes all of a row of the result holds it in a wider type until all points are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fuser.ir.dtypes import DataType
from fuser.ir.neutral import zero_to_add
from fuser.ir.nodes import Scatter, Statement, Value
from fuser.schedule.code.axes import merge_axes, replace_axes
from fuser.schedule.code.row_body import Code, Sweep, indices_of
from fuser.schedule.indices.coordinates import Coordinates
from fuser.schedule.indices.index import Axes, Axis, Index, Variable, index_of
from fuser.schedule.rows.elements import Elements
from fuser.schedule.tree.expressions import Expression, Literal, Ref, convert
from fuser.schedule.tree.folds import is_extreme, neutral
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import CheckedIndex, Let, Store
from fuser.segmenter import Segment
from fuser.segmenter.atoms import AtomSet

_WIDER = {
    DataType.Half: DataType.Float,
    DataType.BFloat16: DataType.Float,
    DataType.Float: DataType.Double,
}
"""What the points of one row are joined in: there may be many, and memory takes longer anyway."""


def scatter_of(segment: Segment) -> tuple[Statement, Scatter]:
    """The scatter of a segment: its statement and its operation."""
    statements = segment.fusion.statements
    (found,) = ((s, s.op) for s in statements if isinstance(s.op, Scatter))
    return found


@dataclass(frozen=True, slots=True)
class ElementCode:
    """What makes an element: code that is done once for all columns, and in each of them."""

    once: tuple[Code, ...]
    each: tuple[Code, ...]
    made: Expression


class ScatterTracer(Elements):
    """The code of a scatter, as it grows."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment, frozenset())
        self._statement, self._op = scatter_of(segment)
        self._out = self._statement.out

    def row_named(self, at: Coordinates) -> Index:
        """The row of the result that the index of a point names; of a single row too, since it may
        name none."""
        variable = Variable(index_name(self._out), self._out.shape[self._op.dim])
        self._gathers[variable] = (self._statement, (self._op.index, at))
        self._make((variable, ()))
        return index_of(variable)

    def source(self, at: Coordinates) -> tuple[Value, Coordinates]:
        return (self._op.src, at if self._op.src.is_tensor else ())

    def element(self, value: Value, at: Coordinates, dtype: DataType) -> ElementCode:
        """Makes an element, of a type, and ends the code for this place of the text."""
        self._make((value, at))
        made = convert(self.get(value, at), dtype)
        code = ElementCode(tuple(self._row_code), tuple(self._sweep_code), made)
        self.restart()
        return code

    def restart(self) -> None:
        """Begin with code for another place of the text."""
        self._row_code, self._sweep_code, self._swept = [], [], {}

    def results(self, kept: Kept, axes: Axes) -> tuple[list[Code], Sweep]:
        """What is done once a row, and at every column, with the finished sum."""
        out, held = self._out, Ref(kept.name, kept.dtype)
        result = Let(out.name, out.dtype, convert(held, out.dtype))
        rounds = held.dtype is not out.dtype
        self._swept[out, self._natural(out)] = Ref(out.name, out.dtype) if rounds else held
        stores: list[Store] = []
        for value in self._segment.stores:
            at = self._natural(value)
            self._make((value, at))
            stores.append(self._store(value, at))
        code = (kept, *((result,) if rounds else ()), *self._sweep_code)
        return self._row_code, Sweep(axes, code, (), tuple(stores))


def axes_of(index: Index) -> Axes:
    """The axes that make up a coordinate, the outermost first."""
    return tuple(
        term for term, _ in sorted(index.terms, key=lambda t: -t[1]) if isinstance(term, Axis)
    )


def atoms_of(at: Iterable[Index]) -> AtomSet:
    """The atoms whose axes indices are made of."""
    return frozenset(axis.path[0] for index in at for axis in axes_of(index))


def held_type(op: Scatter, stored: Iterable[Value]) -> DataType:
    """The type of what one thread holds of a result until all of its points are there: a wider one,
    but float32 where to round what is stored costs as much as to join all points in it."""
    if op.joins is None:
        return op.arg.dtype
    if is_extreme(op.joins):
        return op.arg.dtype.compute
    if op.arg.dtype is DataType.Float:
        lost = op.most_at_one_place * DataType.Float.epsilon
        types = [value.dtype for value in stored]
        if all(each.is_floating and lost <= each.epsilon for each in types):
            return DataType.Float
    return _WIDER.get(op.arg.dtype, op.arg.dtype)


def or_skipped(code: Iterable[Code], out: Value) -> tuple[Code, ...]:
    """`code` of a point of a scatter to `out`, of which nothing is done where its index is out of
    range."""
    return tuple(
        replace(node, skips=True)
        if isinstance(node, CheckedIndex) and node.name == index_name(out)
        else node
        for node in code
    )


def index_name(out: Value) -> str:
    """Of the row of a result that a point goes to."""
    return f"{out}_index"


def starts_from(operation: str, dtype: DataType) -> Literal:
    """What points are joined to where something else is there too: it changes no bit of that."""
    return Literal(zero_to_add(dtype), dtype) if operation == "add" else neutral(operation, dtype)


def at_once(summed: Sweep, last: Sweep) -> Sweep:
    """The only sweep of a row whose sums are made by one: it makes of them what the `last` does."""
    *code, keep = summed.code
    assert isinstance(keep, Keep)
    assert keep.source is not None
    known = {node.name for node in code}
    for node in last.code:
        if isinstance(node, Kept):
            code.append(Let(node.name, node.dtype, keep.source))
        elif node.name not in known:
            code.append(node)
    return replace(last, code=tuple(code))


def merged_over(
    groups: Sequence[Axes], sweeps: Sequence[Sweep], others: Sequence[Index] = ()
) -> tuple[list[Axes], list[Sweep], dict[Axis, Index]]:
    """Groups of axes, with neighbours merged that all indices walk as one: those of sweeps, each
    over one of the groups or done once, and some `others`. Then the sweeps, and what each axis has
    become."""
    indices = [*indices_of(sweeps), *others]
    merged = {axes: merge_axes(axes, indices) for axes in groups}
    replaced = {axis: at for _, places in merged.values() for axis, at in places.items()}
    over = {(): (), **{axes: left for axes, (left, _) in merged.items()}}
    moved = [_over_merged(replace_axes(each, replaced), over[each.axes]) for each in sweeps]
    return [over[axes] for axes in groups], moved, replaced


def _over_merged(sweep: Sweep, axes: Axes) -> Sweep:
    """A sweep over merged axes, which keeps what it keeps along the last of them, or along all."""
    code = (
        replace(node, axes=axes if len(node.axes) > 1 else axes[-1:])
        if isinstance(node, Keep | Kept)
        else node
        for node in sweep.code
    )
    return replace(sweep, axes=axes, code=tuple(code))
