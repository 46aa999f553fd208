"""Rows and sweeps: the code of a segment with reductions or gathers, before loops are chosen.

    softmax of T0 [8192, 768]       rows i0 < 8192
      sweep i1 < 768                load T0[i0, i1]; T1 folds it by maximum
      sweep i1 < 768                load T0[i0, i1]; T3 = exp(T0 - T1); T4 folds it by add
      sweep i1 < 768                load T0[i0, i1]; store T5[i0, i1] = exp(T0 - T1) / T4

Axes are the segment's atoms, so every aligned tensor is addressed by strides. Each sweep computes
what its folds and stores need from loads and from row values; a row value is computed once a row,
before the sweep that needs it. Folds over the rows themselves are finished in the epilogue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import ZERO, Axis, Index
from fuser.schedule.tree.counts import arithmetic, point_count
from fuser.schedule.tree.expressions import (
    Expression,
    IndexValue,
    Ref,
    leaves,
    names_of,
    variable_names,
)
from fuser.schedule.tree.row_statements import Accumulate, Keep, KeepAt, Kept, RowTile, Running
from fuser.schedule.tree.statements import CheckedIndex, Let, Load, Prefetch, Store, draws


@dataclass(frozen=True, slots=True)
class Fold:
    """`name` = all that a sweep makes of `value`, joined by `operation` of the pointwise table.

    A fold over the rows has `slots` results, and `at` says to which of them `value` goes. An
    extreme keeps NaN unless something else tells of it: see `rows/cpu/nan.py`.
    """

    name: str
    operation: str
    value: Expression
    dtype: DataType
    slots: int | None = None
    at: Index = ZERO
    keeps_nan: bool = True


Code = Load | Let | CheckedIndex | Keep | KeepAt | Kept | Running
AnyCode = TypeVar("AnyCode", bound=Code)
AnySweep = TypeVar("AnySweep", bound="Sweep")


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is done at every point of `axes`; without axes, once for the row.

    `ahead` is memory that it asks for besides.
    """

    axes: tuple[Axis, ...]
    code: tuple[Code, ...]
    folds: tuple[Fold, ...] = ()
    stores: tuple[Store, ...] = ()
    ahead: tuple[Prefetch, ...] = ()

    @property
    def loads(self) -> tuple[Load, ...]:
        """What it loads, or draws."""
        return tuple(node for node in self.code if isinstance(node, Load))

    @property
    def lets(self) -> tuple[Let, ...]:
        """What it computes."""
        return tuple(node for node in self.code if isinstance(node, Let))

    @property
    def accesses(self) -> tuple[Load | Store, ...]:
        """What it loads, and what it stores."""
        return (*self.loads, *self.stores)

    def indices(self) -> list[Index]:
        """Every index in it, of folds too."""
        of_code = [index for node in self.code for index in indices_in(node)]
        return of_code + [node.at for node in (*self.stores, *self.folds)]

    @property
    def folds_of_row(self) -> tuple[Fold, ...]:
        """The folds of which each row has a result of its own."""
        return tuple(fold for fold in self.folds if not fold.slots)

    @property
    def folds_over_rows(self) -> tuple[Fold, ...]:
        """The folds whose results no row has."""
        return tuple(fold for fold in self.folds if fold.slots)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return draws(self.code)

    @property
    def checks(self) -> bool:
        """Whether it checks an index."""
        return any(isinstance(node, CheckedIndex) for node in self.code)

    @property
    def scans(self) -> tuple[Running, ...]:
        """What is known at a point only after all earlier ones."""
        return tuple(node for node in self.code if isinstance(node, Running))

    @property
    def cost(self) -> int:
        """Instructions at one point, roughly."""
        return arithmetic(self.code) + len(self.code) + len(self.folds) + len(self.stores)


@dataclass(frozen=True, slots=True)
class RowBody:
    """For each row, the stages; then the epilogue, which sweeps results of folds over the rows.

    `tiles` are of all rows along the innermost axis: made before the first of these, or stored
    after the last. So many neighbours along it are a `group`, which shares what they fold to.
    """

    rows: tuple[Axis, ...]
    prologue: tuple[Load | Let, ...]
    stages: tuple[Sweep, ...]
    epilogue: tuple[Sweep, ...]
    tiles: tuple[RowTile, ...] = ()
    group: int = 1

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """The stages and the epilogue."""
        return (*self.stages, *self.epilogue)

    @property
    def swept(self) -> list[Sweep]:
        """The stages that go over points of a row."""
        return [sweep for sweep in self.stages if sweep.axes]

    @property
    def code(self) -> list[Code]:
        """What all stages compute."""
        return [node for sweep in self.stages for node in sweep.code]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of rows and of all sweeps, each once."""
        return tuple(dict.fromkeys((*self.rows, *(a for s in self.sweeps for a in s.axes))))

    @property
    def longest(self) -> int:
        """The points of a row's longest stage; 1 if there is none."""
        return max((point_count(sweep.axes) for sweep in self.stages), default=1)

    @property
    def folds_over_rows(self) -> tuple[Fold, ...]:
        """The folds whose results no row has."""
        return tuple(fold for sweep in self.stages for fold in sweep.folds_over_rows)


def as_lane(node: Code) -> Load | Let | CheckedIndex:
    """A node whose name is that of an array, of which it makes one lane."""
    assert not isinstance(node, Keep | KeepAt | Kept | Running), "not an array of lanes"
    return dataclasses.replace(node, in_lanes=True)


def indices_of(sweeps: Iterable[Sweep]) -> list[Index]:
    """Every index in some sweeps, of folds too."""
    return [index for sweep in sweeps for index in sweep.indices()]


def contents(sweeps: Iterable[Sweep]) -> list[Code | Fold | Store]:
    """All that sweeps compute, fold and store."""
    return [part for sweep in sweeps for part in (*sweep.code, *sweep.folds, *sweep.stores)]


def indices_in(node: Code | Store) -> list[Index]:
    """Where a node loads or stores, or the index that it computes."""
    match node:
        case Load() | Store():
            return [node.at]
        case Let(expression=IndexValue() as place):
            return [place.index]
        case _:
            return []


def indices_read(node: Load | Let | CheckedIndex) -> list[Index]:
    """Where a node loads, or every index in what it computes."""
    match node:
        case Load(at=at):
            return [at]
        case Let(expression=made) | CheckedIndex(value=made):
            return [leaf.index for leaf in leaves(made) if isinstance(leaf, IndexValue)]


def names_in(nodes: Iterable[Code | Fold | Store | Accumulate]) -> Iterable[str]:
    """Every name that expressions and indices refer to."""
    for node in nodes:
        expression, at = _read_by(node)
        if at.terms:
            yield from variable_names(at)
        if expression is not None:
            yield from names_of(expression)


def nodes_read(
    code: Sequence[AnyCode], needed: set[str], *, reporting: bool = True
) -> tuple[AnyCode, ...]:
    """The nodes that make what is `needed`, and those that keep or report something, if `reporting`
    ones are. What they read is needed then, too."""
    read: list[AnyCode] = []
    for node in reversed(code):
        if node.name in needed or (reporting and _reports(node)):
            needed.update(names_in((node,)))
            read.append(node)
    return tuple(reversed(read))


def without_dead_code(sweep: AnySweep) -> AnySweep:
    """A sweep without what none of its folds and stores needs."""
    needed = set(names_in((*sweep.folds, *sweep.stores)))
    return dataclasses.replace(sweep, code=nodes_read(sweep.code, needed))


def _reports(node: Code) -> bool:
    return isinstance(node, Keep | KeepAt) or (isinstance(node, CheckedIndex) and node.reports)


def rewrite_alike(
    body: RowBody, rewrite: Callable[[Sequence[Code], Iterable[str]], Iterable[Code]]
) -> RowBody:
    """`body` with the code of its sweeps rewritten, given what is read after it; as it is, where
    sweeps would then make a name by two functions. What one of them finds may be compared with what
    another one makes. What is done once a row is left."""
    stages: list[Sweep] = []
    for sweep in body.stages:
        read = names_in((*sweep.folds, *sweep.stores))
        code = tuple(rewrite(sweep.code, read)) if sweep.axes else sweep.code
        stages.append(dataclasses.replace(sweep, code=code))
    before, after = _made_by(body.stages), _made_by(stages)
    changed = (name for name in after if after[name] != before.get(name))
    alike = all(len(after[name]) == 1 for name in changed)
    return dataclasses.replace(body, stages=tuple(stages)) if alike else body


def _made_by(stages: Iterable[Sweep]) -> dict[str, set[Expression]]:
    """By what each name is made, in any of the stages."""
    made: dict[str, set[Expression]] = {}
    for let in (let for sweep in stages for let in sweep.lets):
        made.setdefault(let.name, set()).add(let.expression)
    return made


def _read_by(node: Code | Fold | Store | Accumulate) -> tuple[Expression | None, Index]:
    """The expression that a node computes, and the index at which it reads or writes."""
    match node:
        case Load():
            return None, node.at
        case Let():
            return node.expression, ZERO
        case Store():
            return node.source, node.at
        case Fold() | Accumulate():
            return node.value, node.at
        case CheckedIndex() | Running():
            return node.value, ZERO
        case Keep():
            return node.source or Ref(node.name, node.dtype), ZERO
        case KeepAt():
            return node.source, node.at
        case Kept():
            return None, ZERO
        case _:
            assert_never(node)
