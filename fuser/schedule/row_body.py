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

from collections.abc import Iterable
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import CheckIndex, Fusion, Gather, Reduce, Statement, Value, operands
from fuser.ir.shapes import row_major_strides
from fuser.schedule.coordinates import Coordinates, pull
from fuser.schedule.emit import Emitter, convert, scalar_operands
from fuser.schedule.index import ZERO, Axis, Index, Variable, affine_parts, compose, linear
from fuser.schedule.loop_tree import (
    Call,
    CheckedIndex,
    Convert,
    Expression,
    IndexValue,
    Keep,
    Kept,
    Let,
    Load,
    Ref,
    Store,
)
from fuser.schedule.lowering import FOLDS, lower_reductions
from fuser.segmenter import Segment
from fuser.segmenter.atoms import Atoms, AtomSet
from fuser.segmenter.graph import build_graph
from fuser.segmenter.rows import Refusal, find_rows


@dataclass(frozen=True, slots=True)
class Fold:
    """`name` = all that a sweep makes of `value`, joined by `operation` of the pointwise table.

    A fold over the rows has `slots` results, and `at` says to which of them `value` goes.
    """

    name: str
    operation: str
    value: Expression
    dtype: DataType
    slots: int | None = None
    at: Index = ZERO


Code = Load | Let | CheckedIndex | Keep | Kept


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is done at every point of `axes`; without axes, once for the row."""

    axes: tuple[Axis, ...]
    code: tuple[Code, ...]
    folds: tuple[Fold, ...]
    stores: tuple[Store, ...]

    def indices(self) -> list[Index]:
        """Every index in it, of folds too."""
        found = [node.at for node in (*self.code, *self.stores) if isinstance(node, Load | Store)]
        lets = [node.expression for node in self.code if isinstance(node, Let)]
        found += [value.index for value in lets if isinstance(value, IndexValue)]
        return found + [fold.at for fold in self.folds]


@dataclass(frozen=True, slots=True)
class RowBody:
    """For each row, the stages; then the epilogue, which sweeps results of folds over the rows."""

    rows: tuple[Axis, ...]
    prologue: tuple[Let, ...]
    stages: tuple[Sweep, ...]
    epilogue: tuple[Sweep, ...]


def trace_rows(segment: Segment) -> RowBody:
    """The row body of a segment, over its atoms."""
    fusion = lower_reductions(segment.fusion)
    inputs = {value: segment.memory[value] for value in segment.loads}
    operations = build_graph(fusion, inputs, segment.stores)
    rows = find_rows(operations, range(len(operations.nodes)), segment.stores)
    assert not isinstance(rows, Refusal), f"{segment.name} has no rows: {rows.reason}"
    kept = frozenset[int]() if rows is None else rows.kept
    return _RowTracer(segment, fusion, operations.atoms, kept).run()


@dataclass(frozen=True, slots=True)
class _Goal:
    """Something that a sweep is for: a reduction to fold, or a value to store."""

    level: int
    swept: AtomSet
    value: Value
    """What is computed at every point: the operand of `reduction`, or what is stored."""

    reduction: Statement | None = None


Key = tuple[Value | Variable, Coordinates]
"""An element of a value, or an index that a gather computes."""


class _RowTracer(Emitter):
    """One walk over a lowered segment."""

    def __init__(self, segment: Segment, fusion: Fusion, atoms: Atoms, kept: AtomSet) -> None:
        self._segment = segment
        self._fusion = fusion
        self._atoms = atoms
        self._kept: AtomSet = kept
        self._definitions = fusion.definitions()
        self._axes: dict[int, Axis] = {}
        self._gathers: dict[Variable, tuple[Statement, Key]] = {}
        self._places: dict[Value, list[Coordinates]] = {}
        self._prologue: list[Let] = []
        self._known: dict[Key, Expression] = {}
        """What every later stage of the row may use."""
        self._swept: dict[Key, Expression] = {}
        """What only the sweep at hand may use."""
        self._row_code: list[Code] = []
        self._sweep_code: list[Code] = []
        self._target = self._sweep_code

    def run(self) -> RowBody:
        goals, final = self._goals()
        stages: list[Sweep] = []
        for key in sorted({(g.level, tuple(sorted(g.swept))) for g in goals}):
            own = [g for g in goals if (g.level, tuple(sorted(g.swept))) == key]
            stages += self._stage(own, key[1])
        for fold in (fold for stage in stages for fold in stage.folds if fold.slots is not None):
            self._known[self._final[fold.name]] = Ref(fold.name, fold.dtype)
        rows = tuple(map(self._axis, sorted(self._kept)))
        epilogue = self._epilogue(final, {f.name: f for stage in stages for f in stage.folds})
        return RowBody(rows, tuple(self._prologue), tuple(stages), epilogue)

    def _goals(self) -> tuple[list[_Goal], list[Value]]:
        """What the rows are walked for, by level, and the stores left for the epilogue.

        The level of a value is how many folds of a row come one after the other before it.
        """
        level = dict.fromkeys(self._fusion.inputs, 0)
        self._final: dict[str, Key] = {}
        after: set[Value] = set()
        goals: list[_Goal] = []
        for statement in self._fusion.statements:
            reads = [v for v in operands(statement.op) if v.is_tensor]
            here = max((level[v] for v in reads), default=0)
            if not after.isdisjoint(reads):
                after.update(statement.outs)
            if isinstance(statement.op, Reduce):
                (out,), arg = statement.outs, statement.op.arg
                goals.append(_Goal(here, self._atoms.of(arg) - self._kept, arg, statement))
                if self._atoms.of(out) == self._kept:
                    here += 1
                else:
                    after.add(out)
                    self._final[out.name] = (out, self._natural(out))
            level.update((out, here) for out in statement.outs)
        for value in self._segment.stores:
            if value not in after:
                swept = self._atoms.of(value) - self._kept
                with_fold = [g.level for g in goals if g.swept == swept and g.level >= level[value]]
                goals.append(_Goal(min(with_fold, default=level[value]), swept, value))
        return goals, [value for value in self._segment.stores if value in after]

    def _stage(self, goals: list[_Goal], swept: tuple[int, ...]) -> list[Sweep]:
        """The row values that a sweep needs, and the sweep."""
        self._row_code, self._sweep_code, self._swept = [], [], {}
        folds: list[Fold] = []
        stores: list[Store] = []
        for goal in goals:
            at = self._natural(goal.value)
            self._make((goal.value, at))
            if goal.reduction is None:
                stores.append(self._store(goal.value, at))
            elif goal.swept or not self._is_row_fold(goal.reduction.out):
                folds.append(self._fold(goal.reduction, at))
        for goal in goals:
            if goal.reduction is not None and self._is_row_fold(goal.reduction.out):
                self._bind_fold(goal.reduction, self._natural(goal.value))
        axes = tuple(map(self._axis, swept))
        row = [Sweep((), tuple(self._row_code), (), ())] if self._row_code and axes else []
        code = (*self._row_code, *self._sweep_code) if not axes else tuple(self._sweep_code)
        return [*row, Sweep(axes, code, tuple(folds), tuple(stores))]

    def _epilogue(self, final: list[Value], folds: dict[str, Fold]) -> tuple[Sweep, ...]:
        """Sweeps over what is stored when all rows are done."""
        self._kept = frozenset()
        finished = {self._final[name] for name in folds if name in self._final}
        self._known = {
            key: known
            for key, known in self._known.items()
            if key in finished or (isinstance(key[0], Value) and not key[0].is_tensor)
        }
        sweeps: list[Sweep] = []
        for swept in dict.fromkeys(tuple(sorted(self._atoms.of(value))) for value in final):
            self._row_code, self._sweep_code, self._swept = [], [], {}
            own = [v for v in final if tuple(sorted(self._atoms.of(v))) == swept]
            for value in own:
                self._make((value, self._natural(value)))
            stores = tuple(self._store(value, self._natural(value)) for value in own)
            code = (*self._row_code, *self._sweep_code)
            used = set(names_in((*code, *stores)))
            needed = tuple(fold for name, fold in folds.items() if name in used and fold.slots)
            sweeps.append(Sweep(tuple(map(self._axis, swept)), code, needed, stores))
        return tuple(sweeps)

    def _fold(self, statement: Statement, at: Coordinates) -> Fold:
        op, out = statement.op, statement.out
        assert isinstance(op, Reduce)
        value = self.get(op.arg, at)
        if self._is_row_fold(out):
            return Fold(out.name, FOLDS[op.op], value, op.arg.dtype)
        slot = linear(self._natural(out), row_major_strides(out.shape))
        return Fold(out.name, FOLDS[op.op], value, op.arg.dtype, out.elements, slot)

    def _bind_fold(self, statement: Statement, at: Coordinates) -> None:
        """Let later stages of the row use the result of a fold."""
        op, out = statement.op, statement.out
        assert isinstance(op, Reduce)
        swept = self._atoms.of(op.arg) - self._kept
        result = Ref(out.name, op.arg.dtype) if swept else self.get(op.arg, at)
        self._known[out, self._natural(out)] = convert(result, out.dtype)

    def _is_row_fold(self, out: Value) -> bool:
        return self._atoms.of(out) == self._kept

    def _store(self, value: Value, at: Coordinates) -> Store:
        return Store(value, self._address(value, at), self.read_as(value, at, value.dtype))

    # -- one element after the other ---------------------------------------------------------------

    def _make(self, wanted: Key) -> None:
        """Add the code for an element and for all that it needs, each once."""
        pending: list[tuple[Key, bool]] = [(wanted, False)]
        while pending:
            key, ready = pending.pop()
            if key in self._known or key in self._swept:
                continue
            if ready:
                self._bind(key)
                continue
            pending.append((key, True))
            pending += [(need, False) for need in reversed(self._needs(key))]

    def _needs(self, key: Key) -> list[Key]:
        value, at = key
        if isinstance(value, Variable):
            return [self._gathers[value][1]]
        needs: list[Key] = [(variable, ()) for variable in _variables(at)]
        statement = self._definitions.get(value)
        if statement is None:
            return needs
        assert not isinstance(statement.op, Reduce), f"{value} is read at {at}"
        reads: list[Key] = [*self.reads(statement, at)]
        return needs + reads + [(scalar, ()) for scalar in scalar_operands(statement)]

    def _bind(self, key: Key) -> None:
        value, at = key
        lasting = self._lasts(key)
        self._target = self._row_code if lasting else self._sweep_code
        made = self._index(value) if isinstance(value, Variable) else self._element(value, at)
        (self._known if lasting else self._swept)[key] = made

    def _element(self, value: Value, at: Coordinates) -> Expression:
        statement = self._definitions.get(value)
        if statement is not None and isinstance(statement.op, CheckIndex):
            op, name = statement.op, self.name(value, at)
            checked = CheckedIndex(name, self.get(op.arg, at), op.size, op.operation, wraps=False)
            self._target.append(checked)
            return Ref(name, DataType.Int)
        if statement is not None:
            return self.emit(statement, at)
        name = self.name(value, at)
        if value.is_tensor:
            self._target.append(Load(name, value, self._address(value, at)))
        return Ref(name, value.dtype)

    def _index(self, variable: Variable) -> Expression:
        """The index of a gather, in range."""
        statement, (index, at) = self._gathers[variable]
        op = statement.op
        assert isinstance(op, Gather)
        assert isinstance(index, Value)
        wraps = op.mode in ("select", "take_along_axis")
        value = self.get(index, at)
        self._target.append(CheckedIndex(variable.name, value, variable.extent, op.mode, wraps))
        return Ref(variable.name, DataType.Int)

    def _lasts(self, key: Key) -> bool:
        """Whether an element is the same all along the row."""
        value, at = key
        if isinstance(value, Variable):
            return self._gathers[value][1] in self._known
        axes = (t for index in at for part in affine_parts(index) for t, _ in part.terms)
        return all(
            term.path[0] in self._kept
            if isinstance(term, Axis)
            else not isinstance(term, Variable) or (term, ()) in self._known
            for term in axes
        )

    # -- what emission needs -----------------------------------------------------------------------

    def reads(self, statement: Statement, at: Coordinates) -> list[tuple[Value, Coordinates]]:
        """For each tensor operand, where it is read; a gather computes that."""
        op = statement.op
        if not isinstance(op, Gather):
            return pull(statement, at)
        name = f"{self.name(statement.out, at)}_index"
        variable = Variable(name, op.arg.shape[op.dim])
        data = list(at)
        if op.mode == "select":
            data.insert(op.dim, Index(0, ((variable, 1),)))
            place: Coordinates = ()
        elif op.mode == "index_select":
            place = (at[op.dim],) if op.index.shape else ()
            data[op.dim] = Index(0, ((variable, 1),))
        else:
            sizes = zip(op.index.shape, at, strict=True)
            place = tuple(ZERO if size == 1 else index for size, index in sizes)
            sizes = zip(op.arg.shape, at, strict=True)
            data = [ZERO if size == 1 else index for size, index in sizes]
            data[op.dim] = Index(0, ((variable, 1),))
        self._gathers[variable] = (statement, (op.index, place))
        return [(op.arg, tuple(data))]

    def get(self, value: Value, at: Coordinates) -> Expression:
        key = (value, at)
        return self._known[key] if key in self._known else self._swept[key]

    def name(self, value: Value, at: Coordinates) -> str:
        places = self._places.setdefault(value, [])
        if at not in places:
            places.append(at)
        number = places.index(at)
        return f"{value}_{number}" if number else value.name

    def add(self, let: Let, is_tensor: bool) -> None:
        (self._target if is_tensor else self._prologue).append(let)

    def _natural(self, value: Value) -> Coordinates:
        """Where a value is computed: at the point that its own atoms number."""
        return tuple(compose(tuple(map(self._axis, dim))) for dim in self._atoms.factors(value))

    def _axis(self, atom: int) -> Axis:
        return self._axes.setdefault(atom, Axis((atom,), self._atoms.size(atom)))

    def _address(self, value: Value, at: Coordinates) -> Index:
        memory = self._segment.memory[value]
        return linear(at, memory.strides, memory.offset)


def _variables(at: Coordinates) -> list[Variable]:
    parts = (part for index in at for part in affine_parts(index))
    return [term for part in parts for term, _ in part.terms if isinstance(term, Variable)]


def names_in(nodes: Iterable[Code | Fold | Store]) -> Iterable[str]:
    """Every name that expressions and indices refer to."""
    for node in nodes:
        match node:
            case Load():
                pending, at = list[Expression](), node.at
            case Let():
                pending, at = [node.expression], ZERO
            case Store():
                pending, at = [node.source], node.at
            case Fold():
                pending, at = [node.value], node.at
            case CheckedIndex():
                pending, at = [node.value], ZERO
            case Keep() | Kept():
                pending, at = list[Expression](), ZERO
        yield from (variable.name for variable in _variables((at,)))
        while pending:
            expression = pending.pop()
            if isinstance(expression, Ref):
                yield expression.name
            elif isinstance(expression, Call):
                pending += expression.args
            elif isinstance(expression, Convert):
                pending.append(expression.of)
