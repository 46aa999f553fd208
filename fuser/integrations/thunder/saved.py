"""What the forward keeps for the backward, and what the backward computes again.

A minimum cut: as few bytes as possible are written and read for the backward. What memory holds
anyway (inputs, results of torch's, what one partition makes for another) costs its reading only.
Only elementwise arithmetic and views are computed again.

    forward:  p = log_softmax(x)                forward:  l = logsumexp(x)
    backward: dx = g - exp(p) * sum(g)    ->    backward: p' = x - l; dx = g - exp(p') * sum(g)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import networkx as nx

from fuser.integrations.partitions.support import Role
from fuser.integrations.thunder.forms import Proxy
from fuser.integrations.thunder.library import proxies
from fuser.integrations.thunder.stretches import (
    Step,
    brings_gradients,
    known_form,
    stretch_graphs,
    writes,
)

_networkx: Any = nx
_SOURCE, _SINK = "source", "sink"


def saving_less(steps: Sequence[Step]) -> list[Step]:
    """A trace of forward and backward, where the backward repeats what is not worth keeping.

    New names are those of the current trace.
    """
    places = [at for at, step in enumerate(steps) if brings_gradients(step)]
    if not places:
        return list(steps)
    forward, end = steps[: places[0]], steps[-1]
    backward = steps[places[-1] + 1 : -1]
    kept = _stored_anyway(forward, end)
    copies = _copies(computed_again(forward, backward, kept), backward)
    return [*steps[: places[-1] + 1], *copies, end]


def _stored_anyway(forward: Sequence[Step], end: Step) -> frozenset[str]:
    """Tensors that memory holds though the backward were not to read them, and their views."""
    made = {proxy.name for step in forward for proxy in step.makes}
    inner = {proxy.name for step in forward if step.is_taken for proxy in step.makes}
    found = {p.name for step in forward for p in step.reads} - made | (made - inner)
    for graph in stretch_graphs([*forward, end]):
        for part in graph.partitions():
            found |= {graph.proxies[node].name for node in part.outputs}
    for step in forward:
        if step.role is Role.VIEW and all(p.name in found for p in step.reads):
            found |= {p.name for p in step.makes}
    return frozenset(found)


def _copies(again: Sequence[Step], backward: Sequence[Step]) -> list[Step]:
    """The steps to repeat, whose results have other names, then the backward, which reads them."""
    names = {
        proxies.variableify(proxy): proxy.replace_name(f"bw_{proxy.name}", disambiguate=True)
        for step in again
        for proxy in step.makes
    }
    return [Step(s.bsym.from_bsym_swap_proxies(names), s.trial) for s in (*again, *backward)]


def computed_again(
    forward: Sequence[Step], backward: Sequence[Step], in_memory: frozenset[str]
) -> list[Step]:
    """The steps of the forward that the backward repeats, in their order.

    `in_memory` are the names of the tensors that are stored whatever the backward reads.
    """
    maker = {proxy.name: step for step in forward for proxy in step.makes}
    written = _written(forward)
    needed = {p.name for step in backward for p in step.reads if p.name in maker} - written
    if not needed:
        return []
    by_torch = _read_by_torch(forward, backward)
    repeatable = {step for step in forward if _may_repeat(step, written, by_torch)}
    there = _there_anyway(forward, repeatable, needed, in_memory)
    found = set[Step]()
    pending = list(needed - there)
    while pending:
        step = maker[pending.pop()]
        if step not in found:
            found.add(step)
            pending += {proxy.name for proxy in step.reads} - there
    return [step for step in forward if step in found]


def _there_anyway(
    forward: Sequence[Step],
    repeatable: Collection[Step],
    needed: Collection[str],
    in_memory: frozenset[str],
) -> set[str]:
    """Tensors that need not be computed again to have the `needed` ones: those on the near side of
    the cheapest cut between what cannot be repeated and these."""
    graph = _tensor_graph(forward, in_memory)
    for step in forward:
        sources = [(p.name, 1) for p in step.reads] if step in repeatable else [_SOURCE]
        graph.add_edges_from((s, (proxy.name, 0)) for s in sources for proxy in step.makes)
    graph.add_edges_from(((name, 1), _SINK) for name in needed)
    _, (near, _) = _networkx.minimum_cut(graph, _SOURCE, _SINK)
    return {node[0] for node in near if node != _SOURCE and node[1] == 0}


def _tensor_graph(forward: Sequence[Step], in_memory: frozenset[str]) -> Any:
    """An edge for each tensor, whose capacity is what keeping it costs."""
    graph: Any = _networkx.DiGraph()
    graph.add_nodes_from([_SOURCE, _SINK])
    made = {proxy.name for step in forward for proxy in step.makes}
    for step in forward:
        for proxy in step.reads:
            if proxy.name not in made:
                graph.add_edge(_SOURCE, (proxy.name, 0))
                graph.add_edge((proxy.name, 0), (proxy.name, 1), capacity=_nbytes(proxy))
        for proxy in step.makes:
            times = 1 if proxy.name in in_memory else 2
            # Rather than a view, what it is a view of.
            cost = times * _nbytes(proxy) + (step.role is Role.VIEW)
            graph.add_edge((proxy.name, 0), (proxy.name, 1), capacity=cost)
    return graph


def _read_by_torch(forward: Sequence[Step], backward: Sequence[Step]) -> frozenset[str]:
    """Tensors that torch's steps of the backward read, perhaps through views.

    Computing them again would write them again.
    """
    found, torchs = set[str](), {step for step in backward if not step.is_taken}
    for step in reversed([*forward, *backward]):
        through = step.role is Role.VIEW and any(proxy.name in found for proxy in step.makes)
        if through or step in torchs:
            found |= {proxy.name for proxy in step.reads}
    return frozenset(found)


def _may_repeat(step: Step, written: frozenset[str], by_torch: frozenset[str]) -> bool:
    if not (step.is_taken and step.trial.cheap) or any(p.name in written for p in step.reads):
        return False
    return step.role is not Role.COMPUTE or not any(p.name in by_torch for p in step.makes)


def _nbytes(proxy: Proxy) -> int:
    found = known_form(proxy)
    return 1 if found is None else max(math.prod(found.sizes) * found.dtype.itemsize, 1)


def _written(forward: Sequence[Step]) -> frozenset[str]:
    """Names of the tensors in memory that the forward writes to, and of their views."""
    found = {p.name for step in forward if writes(step) for p in step.reads}
    before = -1
    while before != len(found):
        before = len(found)
        for step in forward:
            names = {p.name for p in (*step.reads, *step.makes)}
            if step.role is Role.VIEW and names & found:
                found |= names
    return frozenset(found)
