"""Code of several points one after the other, each with names of its own."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable

from fuser.ir.dtypes import DataType
from fuser.schedule.code.resolve import replaced
from fuser.schedule.indices.index import Index, Term, Variable, index_of
from fuser.schedule.indices.rewrites import rewrite, variables_of
from fuser.schedule.tree.expressions import Expression, IndexValue, Literal, Ref
from fuser.schedule.tree.statements import CheckedIndex, Let, Load, Store

Line = Load | Let | CheckedIndex


class StraightLine:
    """Loads, lets, checks and stores in order; what several points make is made once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """`taken` are names of others, to which none is given that is made anew."""
        self.code: list[Line] = []
        self.stores: list[Store] = []
        self._known: dict[str, Expression] = {}
        """What stands for a name of the points, at the last of them that made it."""
        self._made: dict[Line, Ref] = {}
        """By what is loaded or computed, whatever its name."""
        self._there = set[str]()
        """The names that `code` makes."""
        self._copies: dict[str, int] = {}
        self._names = set(taken)

    def copy(self) -> StraightLine:
        """The same code, to which more may be added."""
        copied = copy.copy(self)
        for name, kept in vars(self).items():
            setattr(copied, name, copy.copy(kept))
        return copied

    def restart(self) -> None:
        """Begin with code for another place of the text, which makes what it needs itself: under
        the names that it had before, and nothing else under these."""
        self.code, self.stores = [], []
        self._known, self._there = {}, set[str]()

    def add(self, code: Iterable[Line], stores: Iterable[Store]) -> None:
        """Add one more point."""
        for node in code:
            match node:
                case Load():
                    load = dataclasses.replace(node, at=self._place(node.at))
                    self._known[node.name] = self._named(load, node.dtype)
                case CheckedIndex():
                    # A later one of the same value reports nothing that the first does not.
                    check = dataclasses.replace(node, value=self.read(node.value), reports=True)
                    self._known[node.name] = self._named(check, DataType.Int)
                case Let():
                    self.let(node.name, node.dtype, node.expression)
        for store in stores:
            self.stores.append(dataclasses.replace(store, source=self.read(store.source)))

    def let(self, name: str, dtype: DataType, expression: Expression) -> None:
        """From now on, `name` is this expression of the names known so far."""
        made = self.read(expression)
        if isinstance(made, IndexValue):
            index = self._place(made.index)
            made = IndexValue(index, made.dtype)
            made = made if index.terms else Literal(index.constant, made.dtype)
        is_leaf = isinstance(made, Ref | Literal)
        self._known[name] = made if is_leaf else self._named(Let(name, dtype, made), dtype)

    def read(self, expression: Expression) -> Expression:
        """An expression by the names of the last point."""
        return replaced(expression, self._known)

    def _place(self, at: Index) -> Index:
        """An index by the names of the last point."""
        return rewrite(at, self._renamed) if variables_of(at) else at

    def _renamed(self, term: Term) -> Index | None:
        """What stands for a variable; None for another term."""
        known = self._known.get(term.name) if isinstance(term, Variable) else None
        match known:
            case Ref():
                return index_of(dataclasses.replace(term, name=known.name))
            case Literal(int() as place):
                return Index(place)
            case _:
                return None

    def _named(self, node: Line, dtype: DataType) -> Ref:
        nameless = dataclasses.replace(node, name="")
        if nameless not in self._made:
            self._made[nameless] = Ref(self._own_name(node.name), dtype)
        made = self._made[nameless]
        if made.name not in self._there:
            self._there.add(made.name)
            self.code.append(dataclasses.replace(node, name=made.name))
        return made

    def _own_name(self, name: str) -> str:
        """`T5`, then `T5_at_1`, `T5_at_2`."""
        own = name
        while own in self._names:
            number = self._copies[name] = self._copies.get(name, 0) + 1
            own = f"{name}_at_{number}"
        self._names.add(own)
        return own
