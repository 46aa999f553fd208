"""The graph that is left: partitions as single calls, between what torch runs.

A partition stands right before its first reader, so that what it makes lives no longer than needed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _BoxedCodeGen  # pyright: ignore[reportPrivateUsage]

from fuser.integrations.fx.nodes import is_write
from fuser.integrations.outer.products import product_of
from fuser.integrations.outer.views import merge_views
from fuser.integrations.partitions.partition import Partition
from fuser.integrations.partitions.support import Role, Support
from fuser.integrations.rewrites.readers import base_of, views_of
from fuser.integrations.rewrites.updates import PUT, put

Unit = Node | Partition


def outer_module(
    module: GraphModule,
    parts: Mapping[Partition, Callable[..., Any]],
    roles: Mapping[Node, Support],
    *,
    onednn: bool = False,
    seen: int | None = None,
) -> GraphModule:
    """`module` with its partitions replaced by calls of what they are mapped to, and products by
    what `product_of` says. It takes its inputs as a list, which it empties.

    The first `seen` of its results are those of who calls; None: all are.
    """
    graph, made = Graph(), dict[Node, Node]()
    graph.set_codegen(_BoxedCodeGen())
    torchs = (Role.HOST, Role.PRODUCT, Role.TORCH)
    roots = [
        node
        for node in module.graph.nodes
        if roles[node].role in torchs
        and (node.users or node.op != "call_function" or node.is_impure(impure_random=False))
    ]
    for unit in in_order(roots, list(parts)):
        if isinstance(unit, Partition):
            call = graph.call_function(parts[unit], tuple(made[node] for node in unit.inputs))
            for at, node in enumerate(unit.outputs):
                made[node] = graph.call_function(operator.getitem, (call, at))
                made[node].meta = dict(node.meta)
        else:
            made[unit] = graph.node_copy(unit, made.__getitem__)
            if roles[unit].role is Role.PRODUCT:
                made[unit].target = product_of(unit, onednn=onednn)
            elif unit.target is PUT:
                made[unit].target = put
    merge_views(graph, seen)
    return GraphModule(module, graph)


def in_order(roots: Sequence[Node], parts: Sequence[Partition]) -> Sequence[Unit]:
    """Roots and all that leads to them, after what they read, as late as the first that needs it.

    `roots` are in no partition; they are in the order of their graph.
    """
    unit_of: dict[Node, Unit] = {}
    for part in parts:
        unit_of |= dict.fromkeys((*part.outputs, *part.writes), part)
    reading: dict[Node, list[Partition]] = {}
    for part in parts:
        for node in part.inputs:
            reading.setdefault(node, []).append(part)

    def reads(unit: Unit) -> list[Unit]:
        if isinstance(unit, Partition):
            return [unit_of.get(node, node) for node in unit.inputs]
        before: list[Unit] = [unit_of.get(node, node) for node in unit.all_input_nodes]
        if is_write(unit):  # what reads the old value, or a view of it that torch makes
            shown, new = views_of(base_of(unit.all_input_nodes[0])), views_of(unit)
            old = (node for node in shown if node not in new)
            before += [part for node in old for part in reading.get(node, ())]
        return before

    ordered: dict[Unit, None] = {}
    for node in roots:
        _visit(unit_of.get(node, node), reads, ordered)
    return list(ordered)


def _visit(root: Unit, reads: Callable[[Unit], list[Unit]], ordered: dict[Unit, None]) -> None:
    """Append what `root` reads, then `root`: depth first, without recursion."""
    pending: list[tuple[Unit, bool]] = [(root, False)]
    while pending:
        unit, ready = pending.pop()
        if unit in ordered:
            continue
        if ready:
            ordered[unit] = None
            continue
        pending.append((unit, True))
        pending += [(source, False) for source in reversed(reads(unit)) if source not in ordered]
