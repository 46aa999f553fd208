"""Segment -> row body: a sweep for each level of goals and each set of axes."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.nodes import Reduce, Scan, Statement, Value
from fuser.ir.pointwise import FOLDS
from fuser.ir.shapes import row_major_strides
from fuser.schedule.code.row_body import Fold, RowBody, Sweep, names_in
from fuser.schedule.code.row_goals import Goal, Swept, goals_of
from fuser.schedule.indices.coordinates import Coordinates
from fuser.schedule.indices.index import Axis, linear
from fuser.schedule.rows.axes import turned_axes
from fuser.schedule.rows.elements import Elements
from fuser.schedule.tree.expressions import Ref, convert
from fuser.schedule.tree.statements import Store
from fuser.segmenter import Segment
from fuser.segmenter.atoms import NONE, AtomSet


def trace_rows(segment: Segment, *, of_store: bool = False) -> RowBody:
    """The row body of a segment, over its atoms.

    Where nothing is reduced or scanned there are no rows to go by. Elements of the last store that
    are next to each other are taken for one if it is to be one `of_store`: what is the same all
    along it is then computed once.
    """
    own = _stored_rows(segment) if of_store else NONE
    rows = own if segment.rows is None else segment.rows
    return _RowTracer(segment, rows).run()


def _stored_rows(segment: Segment) -> AtomSet:
    """All atoms of the last store but the one along which it is consecutive, if there is one. None
    where another store has not all of these: it would be made anew for each row."""
    last, atoms = segment.stores[-1], segment.atoms
    dims = zip(atoms.factors(last), segment.memory[last].strides, strict=True)
    inner = [dim[-1] for dim, stride in dims if dim and stride == 1]
    if not inner or atoms.size(inner[-1]) <= 1:
        return NONE
    rows = atoms.of(last) - {inner[-1]}
    return rows if all(rows <= atoms.of(store) for store in segment.stores) else NONE


class _RowTracer(Elements):
    """One walk over a segment."""

    def run(self) -> RowBody:
        goals = goals_of(self._segment, self._kept)
        stages = [stage for swept, own in goals.by_sweep() for stage in self._stage(own, swept)]
        rows = tuple(map(self._axis, sorted(self._kept)))
        epilogue = self._epilogue(goals.epilogue, self._finished(goals.of_rows, stages))
        body = RowBody(rows, tuple(self._prologue), tuple(stages), epilogue)
        return turned_axes(body, self._scanned_from_the_end())

    def _stage(self, goals: list[Goal], swept: Swept) -> list[Sweep]:
        """The row values that a sweep needs, and the sweep."""
        self._row_code, self._sweep_code, self._swept = [], [], {}
        folds: list[Fold] = []
        stores: list[Store] = []
        for goal in goals:
            at = self._natural(goal.value)
            self._make((goal.value, at))
            if goal.reduction is None:
                stores.append(self._store(goal.value, at))
            elif swept or not self._is_row_fold(goal.reduction.out):
                folds.append(self._fold(goal.reduction, at))
        for goal in goals:
            if goal.reduction is not None and self._is_row_fold(goal.reduction.out):
                self._bind_fold(goal.reduction, self._natural(goal.value))
        axes = tuple(map(self._axis, self._scan_order(swept)))
        row = [Sweep((), tuple(self._row_code))] if self._row_code and axes else []
        code = (*self._row_code, *self._sweep_code) if not axes else tuple(self._sweep_code)
        return [*row, Sweep(axes, code, tuple(folds), tuple(stores))]

    def _scan_order(self, swept: tuple[int, ...]) -> tuple[int, ...]:
        """The atoms of a sweep, from the outermost of a scan along them to its innermost."""
        for statement in self._fusion.statements:
            if isinstance(statement.op, Scan):
                along = self._atoms.factors(statement.out)[statement.op.dim]
                if sorted(along) == list(swept):
                    return along
        return swept

    def _scanned_from_the_end(self) -> list[Axis]:
        scans = [s.op for s in self._fusion.statements if isinstance(s.op, Scan) and s.op.reverse]
        scanned = (self._atoms.factors(op.arg)[op.dim] for op in scans)
        return [self._axis(atom) for atom in dict.fromkeys(a for along in scanned for a in along)]

    def _finished(self, goals: Sequence[Goal], stages: Sequence[Sweep]) -> dict[Value, Fold]:
        """The results of folds over the rows, in the order of their sweeps."""
        outs = {goal.reduction.out.name: goal.reduction.out for goal in goals if goal.reduction}
        return {outs[fold.name]: fold for stage in stages for fold in stage.folds_over_rows}

    def _epilogue(self, stored: Sequence[Value], finished: dict[Value, Fold]) -> tuple[Sweep, ...]:
        """Sweeps over what is stored when all rows are done, and knows no more of them than what
        folds over the rows came to."""
        self._kept = NONE
        scalars = {
            (value, at): known
            for (value, at), known in self._known.items()
            if isinstance(value, Value) and not value.is_tensor
        }
        results = {
            (out, self._natural(out)): Ref(fold.name, fold.dtype) for out, fold in finished.items()
        }
        self._known = {**scalars, **results}
        sweeps: list[Sweep] = []
        for swept in dict.fromkeys(tuple(sorted(self._atoms.of(value))) for value in stored):
            self._row_code, self._sweep_code, self._swept = [], [], {}
            own = [v for v in stored if tuple(sorted(self._atoms.of(v))) == swept]
            for value in own:
                self._make((value, self._natural(value)))
            stores = tuple(self._store(value, self._natural(value)) for value in own)
            code = (*self._row_code, *self._sweep_code)
            used = set(names_in((*code, *stores)))
            needed = tuple(fold for fold in finished.values() if fold.name in used)
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
