"""Elements of a row: the code for each, and for all that it needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cast,
    CheckIndex,
    Gather,
    MetadataOperation,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Statement,
    StrideOrder,
    Value,
)
from fuser.schedule.code.emit import Emitter, scalar_operands
from fuser.schedule.code.row_body import Code
from fuser.schedule.indices.coordinates import Coordinates, pull, shrunk
from fuser.schedule.indices.index import ZERO, Axis, Index, Variable, compose, index_of
from fuser.schedule.indices.rewrites import terms_in, variables_of
from fuser.schedule.tree.expressions import Expression, Ref, convert
from fuser.schedule.tree.folds import SCANS
from fuser.schedule.tree.row_statements import Running
from fuser.schedule.tree.statements import CheckedIndex, Let, Load
from fuser.segmenter import Segment
from fuser.segmenter.atoms import AtomSet

Key = tuple[Value | Variable, Coordinates]
"""An element of a value, or an index that a gather computes."""

_NO_PLACE = -1
"""What the index of a scatter is where it is out of range: nothing is written then, also where
places are compared with it."""


_OF_ELEMENTS_ALONE = Pointwise | Cast | StrideOrder | MetadataOperation
"""Operations whose elements are made of the operands' elements alone, wherever they are."""


class Elements(Emitter):
    """The code of a row as it grows: what lasts all along it, and what a sweep does at a point."""

    def __init__(self, segment: Segment, rows: AtomSet) -> None:
        super().__init__(segment)
        self._atoms = segment.atoms
        self._kept = rows
        self._axes: dict[int, Axis] = {}
        self._gathers: dict[Variable, tuple[Statement, Key]] = {}
        self._places: dict[Value, list[Coordinates]] = {}
        self._scanned: Counter[str] = Counter()
        """How many sweeps make a scan."""
        self._reported: set[str] = set()
        """Indices that are reported where they are out of range."""
        self._known: dict[Key, Expression] = {}
        """What every later stage of the row may use."""
        self._swept: dict[Key, Expression] = {}
        """What only the sweep at hand may use."""
        self._row_code: list[Code] = []
        self._sweep_code: list[Code] = []
        self._target = self._sweep_code

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
        needs: list[Key] = [(variable, ()) for index in at for variable in variables_of(index)]
        statement = self._definitions.get(value)
        if statement is None:
            return needs
        assert not isinstance(statement.op, Reduce), f"{value} is read at {at}"
        reads: list[Key] = [*self.reads(statement, at)]
        if isinstance(statement.op, Gather):  # checked even where there is one place to read
            reads.append((self._variable(statement, at), ()))
        return needs + reads + [(scalar, ()) for scalar in scalar_operands(statement)]

    def _bind(self, key: Key) -> None:
        value, at = key
        lasting = self._lasts(key)
        self._target = self._row_code if lasting else self._sweep_code
        made = self._index(value) if isinstance(value, Variable) else self._element(value, at)
        (self._known if lasting else self._swept)[key] = made

    def _element(self, value: Value, at: Coordinates) -> Expression:
        statement = self._definitions.get(value)
        if statement is None:
            name = self.name(value, at)
            if value.is_tensor:
                self._target.append(self._load(value, at))
            return Ref(name, value.dtype)
        match statement.op:
            case CheckIndex(arg, size, operation):
                name = self.name(value, at)
                index = self.get(arg, at)
                return self._checked(
                    CheckedIndex(name, index, size, operation, wraps=False, outside=_NO_PLACE)
                )
            case Scan() as op if at[op.dim].terms:
                return self._scanned_to(value, op, at)
            case _:
                return self.emit(statement, at)

    def _scanned_to(self, value: Value, op: Scan, at: Coordinates) -> Expression:
        """What a scan has come to at the point at hand."""
        assert at == self._natural(value), f"{value} is read at {at}"
        name, dtype = self.name(value, at), value.dtype
        given = self.read_as(op.arg, at, dtype)
        self._target.append(Running(name, SCANS[op.op], given, dtype, self._carry(name)))
        return Ref(name, dtype)

    def _carry(self, name: str) -> str:
        """A name for what a scan has come to; each sweep that makes it again has its own."""
        number = self._scanned[name]
        self._scanned[name] += 1
        return f"{name}_carry_{number}" if number else f"{name}_carry"

    def _index(self, variable: Variable) -> Expression:
        """The index of a gather or a scatter, in range."""
        statement, (index, at) = self._gathers[variable]
        op = statement.op
        assert isinstance(op, Gather | Scatter)
        assert isinstance(index, Value)
        wraps = op.mode in ("select", "take_along_axis", "index_put_accumulate")
        value = self.get(index, at)
        if isinstance(op, Gather) and op.in_range:
            self._target.append(Let(variable.name, DataType.Int, convert(value, DataType.Int)))
            return Ref(variable.name, DataType.Int)
        outside = _NO_PLACE if isinstance(op, Scatter) else 0
        return self._checked(
            CheckedIndex(variable.name, value, variable.extent, op.mode, wraps, outside=outside)
        )

    def _checked(self, check: CheckedIndex) -> Expression:
        """An index in range. Later sweeps that make it again need not report it again."""
        reports = check.name not in self._reported
        self._reported.add(check.name)
        self._target.append(replace(check, reports=reports))
        return Ref(check.name, DataType.Int)

    def _lasts(self, key: Key) -> bool:
        """Whether an element is the same all along the row: by its place, or as all that it is made
        of is."""
        value, at = key
        if isinstance(value, Variable):
            return self._gathers[value][1] in self._known
        return self._is_of_row(at) or self._is_made_of_known(value, at)

    def _is_of_row(self, at: Coordinates) -> bool:
        return all(
            term.path[0] in self._kept
            if isinstance(term, Axis)
            else not isinstance(term, Variable) or (term, ()) in self._known
            for index in at
            for term in terms_in(index)
        )

    def _is_made_of_known(self, value: Value, at: Coordinates) -> bool:
        statement = self._definitions.get(value)
        if statement is None or not isinstance(statement.op, _OF_ELEMENTS_ALONE):
            return False
        reads = self.reads(statement, at)
        return bool(reads) and all(read in self._known for read in reads)

    # -- what emission needs -----------------------------------------------------------------------

    def reads(self, statement: Statement, at: Coordinates) -> list[tuple[Value, Coordinates]]:
        """For each tensor operand, where it is read; a gather computes that."""
        op = statement.op
        if not isinstance(op, Gather):
            return pull(statement, at)
        variable = self._variable(statement, at)
        chosen = ZERO if variable.extent == 1 else index_of(variable)
        place, data = _gathered(op, at, chosen)
        self._gathers[variable] = (statement, (op.index, place))
        return [(op.arg, data)]

    def _variable(self, statement: Statement, at: Coordinates) -> Variable:
        """The index that a gather reads at to make the element `at` of its result."""
        op = statement.op
        assert isinstance(op, Gather)
        return Variable(f"{self.name(statement.out, at)}_index", op.arg.shape[op.dim])

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
        if is_tensor:
            self._target.append(let)
        elif let not in self._prologue:  # each sweep that draws numbers scales them by the same
            self._prologue.append(let)

    def add_load(self, load: Load) -> None:
        self._target.append(load)

    def _natural(self, value: Value) -> Coordinates:
        """Where a value is computed: at the point that its own atoms number."""
        return tuple(compose(tuple(map(self._axis, dim))) for dim in self._atoms.factors(value))

    def _axis(self, atom: int) -> Axis:
        return self._axes.setdefault(atom, Axis((atom,), self._atoms.size(atom)))


def _gathered(op: Gather, at: Coordinates, chosen: Index) -> tuple[Coordinates, Coordinates]:
    """Where a gather reads its index, and its data at what is `chosen` along its dimension."""
    dim = op.dim
    match op.mode:
        case "select":
            return (), (*at[:dim], chosen, *at[dim:])
        case "index_select":
            place = (at[dim],) if op.index.shape else ()
            return place, (*at[:dim], chosen, *at[dim + 1 :])
        case _:  # gather, take_along_axis
            place, data = shrunk(at, op.index.shape), shrunk(at, op.arg.shape)
            return place, (*data[:dim], chosen, *data[dim + 1 :])
