"""What is computed along memory before it is turned, so that fewer tiles are.

    tiles  T0, T1                      columns  T2 = T0 + T1
    lines  T2 = T0 + T1                tile     T2
           store T4 = T2 + T3    ->    lines    store T4 = T2 + T3

What is turned is the cheapest cut between the loads along memory and all that reads something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import networkx as nx

from fuser.ir.dtypes import DataType
from fuser.schedule.body import Body
from fuser.schedule.counts import COSTLY, arithmetic
from fuser.schedule.expressions import IndexValue, leaves, refs
from fuser.schedule.row_body import Code, names_in
from fuser.schedule.statements import Let
from fuser.schedule.tiling import Turned

_networkx: Any = nx

_MEMORY, _LINES = "memory", "lines"
"""The ends of the graph that is cut. In between, a name is an edge from where it is made to where
it is read."""

_MADE, _READ = 0, 1

_WORD = 4
"""Bytes of an element: one that has fewer takes no less to turn."""


def with_columns(turned: Turned) -> Turned:
    """The same, with columns that compute what makes tiles fewer; as it is, if nothing does."""
    if len(turned.loads) < 2:
        return turned
    candidates = _computable(turned)
    near = _near_memory(turned, candidates)
    computing = [let for let in candidates if (let.name, _MADE) in near]
    rest = _without(turned.rest.code, computing)
    read = set(names_in((*rest, *turned.rest.stores, *turned.stores)))
    computed = (let for let in computing if let.name in read)
    needed = {name for let in computing for name in refs(let.expression)}
    code = (*(load for load in turned.loads if load.name in needed), *computing)
    axes = (*(axis for axis in turned.rest.axes if axis != turned.along), turned.along)
    return dataclasses.replace(
        turned,
        rest=dataclasses.replace(turned.rest, code=rest),
        filled=(*computed, *(load for load in turned.loads if load.name in read)),
        columns=Body(axes, code) if computing else None,
    )


def _computable(turned: Turned) -> list[Let]:
    """What follows from the loads alone, and from numbers that all points share. Functions that
    take long are left to lines, where all lanes may be computed at once; so is what lines leave in
    a tile of its own."""
    known = {load.name for load in turned.loads}
    made = known | {node.name for node in turned.rest.code}
    left = {name for store in turned.stores for name in refs(store.source)}
    found: list[Let] = []
    for let in turned.rest.lets:
        read = made.intersection(refs(let.expression))
        placed = any(isinstance(leaf, IndexValue) for leaf in leaves(let.expression))
        cheap = arithmetic([let]) < COSTLY and let.name not in left
        if read and read <= known and cheap and not placed:
            known.add(let.name)
            found.append(let)
    return found


def _near_memory(turned: Turned, candidates: Sequence[Let]) -> Collection[tuple[str, int]]:
    """The nodes on memory's side of the cheapest cut, the nearest to it of several."""
    graph: Any = _networkx.DiGraph()  # its edges go from lines to memory
    types = {node.name: node.dtype for node in (*turned.loads, *candidates)}
    for name, dtype in types.items():
        graph.add_edge((name, _READ), (name, _MADE), capacity=_cost(dtype))
    graph.add_edges_from(((load.name, _MADE), _MEMORY) for load in turned.loads)
    for let in candidates:
        for name in set(refs(let.expression)) & types.keys():
            graph.add_edge((let.name, _MADE), (name, _READ))
            graph.add_edge((name, _MADE), (let.name, _MADE))  # columns make what they read
    others = (*_without(turned.rest.code, candidates), *turned.rest.stores, *turned.stores)
    graph.add_edges_from((_LINES, (name, _READ)) for name in set(names_in(others)) & types.keys())
    _, (_, near) = _networkx.minimum_cut(graph, _LINES, _MEMORY)
    return near


def _without(code: Sequence[Code], left: Sequence[Let]) -> tuple[Code, ...]:
    return tuple(node for node in code if node not in left)


def _cost(dtype: DataType) -> int:
    """What it takes to turn an element."""
    return max(dtype.itemsize, _WORD)
