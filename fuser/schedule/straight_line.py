"""Code of several points one after the other, each with names of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fuser.ir.dtypes import DataType
from fuser.schedule.loop_tree import Expression, Let, Literal, Load, Ref, Store
from fuser.schedule.resolve import replaced

MOST_STATEMENTS = 1000
"""More than that in an iteration take long to compile, and are kept in no registers."""


class StraightLine:
    """Loads, lets and stores in order; what several points load or compute is made once."""

    def __init__(self) -> None:
        self.code: list[Load | Let] = []
        self.stores: list[Store] = []
        self._known: dict[str, Expression] = {}
        """What stands for a name of the points, at the last of them that made it."""
        self._made: dict[Load | Let, Ref] = {}
        """By what is loaded or computed, whatever its name."""
        self._copies: dict[str, int] = {}

    def add(self, code: Iterable[Load | Let], stores: Iterable[Store]) -> None:
        """Add one more point."""
        for node in code:
            if isinstance(node, Load):
                self._known[node.name] = self._named(node, node.tensor.dtype)
            else:
                self.let(node.name, node.dtype, node.expression)
        for store in stores:
            self.stores.append(dataclasses.replace(store, source=self.read(store.source)))

    def let(self, name: str, dtype: DataType, expression: Expression) -> None:
        """From now on, `name` is this expression of the names known so far."""
        made = self.read(expression)
        is_leaf = isinstance(made, Ref | Literal)
        self._known[name] = made if is_leaf else self._named(Let(name, dtype, made), dtype)

    def read(self, expression: Expression) -> Expression:
        """An expression by the names of the last point."""
        return replaced(expression, self._known)

    def _named(self, node: Load | Let, dtype: DataType) -> Ref:
        nameless = dataclasses.replace(node, name="")
        if nameless not in self._made:
            self._made[nameless] = Ref(self._own_name(node.name), dtype)
            self.code.append(dataclasses.replace(node, name=self._made[nameless].name))
        return self._made[nameless]

    def _own_name(self, name: str) -> str:
        """`T5`, then `T5_at_1`, `T5_at_2`."""
        number = self._copies.get(name, 0)
        self._copies[name] = number + 1
        return f"{name}_at_{number}" if number else name
