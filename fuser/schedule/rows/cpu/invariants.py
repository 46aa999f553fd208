"""Indices that are the same in all iterations of a loop are found before it.

    for i0: for i1: T3_index = T2[i0], checked; T4 = T1[T3_index, i1]; store T4 * 2
->  for i0: T3_index = T2[i0], checked; for i1: T4 = T1[T3_index, i1]; store T4 * 2

A compiler moves arithmetic out of loops, but no report; and what is read at such an index is a run
of neighbours then, where it would be gathered. What is the same all along a row is made once a row
anyway: this is for sweeps of several axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from fuser.schedule.code.row_body import indices_read, names_in, nodes_read
from fuser.schedule.indices.index import Axis
from fuser.schedule.indices.rewrites import terms_in, variables_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import IfPastCache, Loop, Node, Region, every_node
from fuser.schedule.tree.row_statements import Accumulate, Carry, Finish, Keep, Kept, Running
from fuser.schedule.tree.statements import (
    CheckedIndex,
    LaneCall,
    Lanes,
    Let,
    Load,
    Prefetch,
    Store,
)

_OUTER = (Binding.PARALLEL, Binding.SERIAL, Binding.JOINED)
"""Loops that have one iteration after the other, with room for what is found before others."""

_INNER = (Binding.SIMD, Binding.ROUNDS, Binding.SWEEP, Binding.CHUNKS, Binding.JOINED)
"""Loops over elements."""

_OF_PARTS = Accumulate | Finish
_FOLLOWED = (
    *(Load, Let, CheckedIndex, Store, Prefetch, Loop, Lanes, LaneCall),
    *(Keep, Kept, Running, Carry, Accumulate, Finish),
)
"""What loops may do of which it is known what they give other values."""

Movable = Load | Let | CheckedIndex


def indices_before_loops(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes of a processor's kernel with such indices found before its innermost loops."""
    return tuple(map(_with_indices_before, nodes))


def _with_indices_before(node: Node) -> Node:
    match node:
        case Loop(body=body, binding=binding):
            inside = indices_before_loops(body)
            moved = _moved_before(inside) if binding in _OUTER else inside
            return node if moved == body else dataclasses.replace(node, body=moved)
        case Region(body=body, epilogue=epilogue):
            inside, after = indices_before_loops(body), indices_before_loops(epilogue)
            return dataclasses.replace(node, body=inside, epilogue=after)
        case IfPastCache(body=body, otherwise=otherwise):
            return IfPastCache(indices_before_loops(body), indices_before_loops(otherwise))
        case _:
            return node


def _moved_before(body: Sequence[Node]) -> tuple[Node, ...]:
    """What is done in an outer loop, with what inner ones have in common before these."""
    nodes: list[Node] = []
    before: dict[str, Movable] = {}
    for node in body:
        found = _indices(node) if isinstance(node, Loop) and node.binding in _INNER else ()
        if all(before.get(each.name, each) == each for each in found):
            nodes += [each for each in found if each.name not in before]
            before |= {each.name: each for each in found}
            nodes += _without([node], found)
        else:
            nodes.append(node)
    return tuple(nodes)


def _indices(loop: Loop) -> tuple[Movable, ...]:
    """The indices that a loop finds anew in each iteration, with what they are made of."""
    if not loop.axis.extent:
        return ()
    inside = list(every_node(loop.body))
    axes = {loop.axis, *(node.axis for node in inside if isinstance(node, Loop))}
    same, changing = dict[str, Movable](), set[str]()

    def is_same(node: Node) -> bool:
        if not isinstance(node, Movable) or changes(node, axes, changing):
            return False
        return same.setdefault(node.name, node) == node

    for node in inside:
        if not isinstance(node, _FOLLOWED):
            return ()
        if not is_same(node) and (name := _made_by(node)) is not None:
            changing.add(name)
            same.pop(name, None)
    read = {
        variable.name
        for node in inside
        if isinstance(node, Load) and node.name in changing
        for variable in variables_of(node.at)
    }
    checked = {name for name, node in same.items() if isinstance(node, CheckedIndex)}
    return nodes_read(tuple(same.values()), read | checked, reporting=False)


def _made_by(node: Node) -> str | None:
    """What a node gives another value."""
    return node.partial.name if isinstance(node, _OF_PARTS) else getattr(node, "name", None)


def changes(node: Movable, axes: set[Axis], changing: set[str]) -> bool:
    """Whether iterations differ in what a node makes."""
    if node.in_lanes or (isinstance(node, Load) and (node.lanes > 1 or node.drawn is not None)):
        return True
    terms = {term for index in indices_read(node) for term in terms_in(index)}
    return not (axes.isdisjoint(terms) and changing.isdisjoint(names_in((node,))))


def _without(nodes: Iterable[Node], found: Sequence[Movable]) -> tuple[Node, ...]:
    """Nodes without those that were found."""
    left: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            left.append(dataclasses.replace(node, body=_without(node.body, found)))
        elif node not in found:
            left.append(node)
    return tuple(left)
