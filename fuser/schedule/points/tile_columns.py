"""What is computed along memory before it is turned, so that fewer tiles are.

    tiles  T0, T1                      columns  T2 = T0 + T1
    lines  T2 = T0 + T1                tile     T2
           store T4 = T2 + T3    ->    lines    store T4 = T2 + T3

What is turned is the cheapest cut between the loads along memory and all that reads something else.
What is stored along memory, too, is stored by columns, if it follows from those loads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import networkx as nx

from fuser.ir.dtypes import DataType
from fuser.schedule.code.body import Body
from fuser.schedule.code.row_body import Code, names_in
from fuser.schedule.points.tiling import Turned
from fuser.schedule.tree.expressions import Expression, IndexValue, leaves, refs
from fuser.schedule.tree.statements import Let, Load, Store

_networkx: Any = nx

_MEMORY, _LINES = "memory", "lines"
"""The ends of the graph that is cut. In between, a name is an edge from where it is made to where
it is read."""

_MADE, _READ = 0, 1

_WORD, _NARROW = 4, 6
"""Bytes of an element that is moved to its place as it is, which takes as much as it has bytes; and
what it takes to shift one that has fewer."""

_COMPUTED = 5
"""What it takes besides to turn what was computed, and so had to be left in memory first."""


def with_columns(turned: Turned) -> Turned:
    """The same, with columns that compute what makes tiles fewer; as it is, if nothing does."""
    candidates, stores = _following(turned)
    if len(turned.loads) < 2 and not stores:
        return turned
    drained = tuple(store for store in turned.stores if store not in stores)
    of_lines = (*turned.rest.stores, *drained)
    near = _near_memory(turned.loads, candidates, stores, (*turned.rest.code, *of_lines))
    computing = tuple(let for let in candidates if (let.name, _MADE) in near)
    if not computing and not stores:
        return turned
    rest = tuple(node for node in turned.rest.code if node not in computing)
    by_lines, by_columns = set(names_in((*rest, *of_lines))), set(names_in((*computing, *stores)))
    axes = (*(axis for axis in turned.rest.axes if axis != turned.along), turned.along)
    loads = tuple(load for load in turned.loads if load.name in by_columns)
    return dataclasses.replace(
        turned,
        rest=dataclasses.replace(turned.rest, code=rest),
        filled=tuple(n for n in (*computing, *turned.loads) if n.name in by_lines),
        drained=drained,
        columns=Body(axes, (*loads, *computing), stores=stores),
    )


def _following(turned: Turned) -> tuple[list[Let], tuple[Store, ...]]:
    """What follows from the loads alone, and from numbers that all points share: what is computed,
    and of that, what is stored along memory."""
    known = {load.name for load in turned.loads}
    made = known | {node.name for node in turned.rest.code}

    def follows(expression: Expression) -> bool:
        read = made.intersection(refs(expression))
        placed = any(isinstance(leaf, IndexValue) for leaf in leaves(expression))
        return bool(read) and read <= known and not placed

    found: list[Let] = []
    for let in turned.rest.lets:
        if follows(let.expression):
            known.add(let.name)
            found.append(let)
    return found, tuple(store for store in turned.stores if follows(store.source))


def _near_memory(
    loads: Sequence[Load],
    lets: Sequence[Let],
    stores: Sequence[Store],
    reading: Sequence[Code | Store],
) -> Collection[tuple[str, int]]:
    """The nodes on memory's side of the cheapest cut, the nearest to it of several: `stores` are on
    that side, `reading` that is none of the `lets` on the other."""
    graph: Any = _networkx.DiGraph()  # its edges go from lines to memory
    graph.add_nodes_from((_LINES, _MEMORY))
    costs = {load.name: _cost(load.dtype) for load in loads}
    costs |= {let.name: _cost(let.dtype) + _COMPUTED for let in lets}
    for name, cost in costs.items():
        graph.add_edge((name, _READ), (name, _MADE), capacity=cost)
    for let in lets:
        for name in costs.keys() & set(refs(let.expression)):
            graph.add_edge((let.name, _MADE), (name, _READ))
            graph.add_edge((name, _MADE), (let.name, _MADE))  # columns make what they read
    near = {load.name for load in loads} | set(names_in(stores))
    graph.add_edges_from(((name, _MADE), _MEMORY) for name in costs.keys() & near)
    far = set(names_in(node for node in reading if node not in lets))
    graph.add_edges_from((_LINES, (name, _READ)) for name in costs.keys() & far)
    _, (_, nodes) = _networkx.minimum_cut(graph, _LINES, _MEMORY)
    return nodes


def _cost(dtype: DataType) -> int:
    return dtype.itemsize if dtype.itemsize >= _WORD else _NARROW
