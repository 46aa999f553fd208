"""Thunder's traces as graphs that can be divided into partitions.

A trace is one line of bound symbols for forward and backward together. It is cut into *stretches*
where what follows must not be mixed with what comes before: where the gradients come in, and where
memory is written. Each stretch becomes a graph with a node for each symbol, and the partitioner of
the torch.compile backend divides it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from fuser.integrations.outer.graph import Unit, in_order
from fuser.integrations.partitions.partition import Partition, partitions
from fuser.integrations.partitions.support import Role, Support
from fuser.integrations.thunder.forms import (
    WRITES,
    BoundSymbol,
    Proxy,
    RefusedError,
    TensorForm,
    Trial,
    results_of,
    tensor_form,
    trial,
)
from fuser.integrations.thunder.library import prims, proxies


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A bound symbol, and what it is to the partitioner."""

    bsym: BoundSymbol
    trial: Trial

    @property
    def role(self) -> Role:
        return self.trial.support.role

    @property
    def is_taken(self) -> bool:
        """Whether a definition can hold it."""
        return self.role in (Role.COMPUTE, Role.VIEW, Role.FACTORY)

    @property
    def reads(self) -> list[Proxy]:
        """The tensors and numbers it reads."""
        return list(self.bsym.flat_proxy_args)

    @property
    def makes(self) -> list[Proxy]:
        """The tensors and numbers it makes."""
        return list(self.bsym.flat_proxy_outs)


def step_of(bsym: BoundSymbol) -> Step:
    return Step(bsym, trial(bsym))


def known_form(proxy: Proxy) -> TensorForm | None:
    """The form of a tensor; None of a number, and where it is known at the call only."""
    if not isinstance(proxy, proxies.TensorProxy):
        return None
    try:
        return tensor_form(proxy)
    except RefusedError:
        return None


def stretches(steps: Sequence[Step]) -> list[list[Step]]:
    """The stretches of a trace, each up to a step before which what follows must not be done, nor
    together with what is."""
    found: list[list[Step]] = [[]]
    for step in steps:
        found[-1].append(step)
        if brings_gradients(step) or writes(step):
            found.append([])
    return [stretch for stretch in found if stretch]


def writes(step: Step) -> bool:
    """Whether it writes to memory that others read, or says that others do."""
    tags = step.bsym.sym.tags or ()
    return step.bsym.sym.id in WRITES or prims.OpTags.IN_PLACE in tags


def brings_gradients(step: Step) -> bool:
    """Whether it stands for a gradient that the backward is given."""
    return step.bsym.sym.id is prims.PrimIDs.GET_GRAD


# -- graphs --------------------------------------------------------------------------------------


class StretchGraph:
    """The graph of a stretch, and which symbol and which tensor each node is.

    `leaving` are the names of tensors that others read later.
    """

    def __init__(self, steps: Sequence[Step], leaving: frozenset[str]) -> None:
        self.graph = Graph()
        self.roles: dict[Node, Support] = {}
        self.steps: dict[Node, Step] = {}
        self.proxies: dict[Node, Proxy] = {}
        self._nodes: dict[str, Node] = {}
        self._mode = FakeTensorMode()
        for step in steps:
            for proxy in step.reads:
                if proxy.name not in self._nodes:
                    self._add(self.graph.placeholder(proxy.name), proxy, Support(Role.HOST))
            self._call(step)
        self.graph.output([node for name, node in self._nodes.items() if name in leaving])
        self.roles[self.graph.output_node()] = Support(Role.HOST)

    def partitions(self) -> list[Partition]:
        return partitions(self.graph, self.roles)

    def in_order(self, parts: Sequence[Partition]) -> Sequence[Unit]:
        """Partitions and nodes of the rest, each after what it reads."""
        roots = [node for node, step in self.steps.items() if not step.is_taken]
        return in_order([*roots, self.graph.output_node()], parts)

    def _add(self, node: Node, proxy: Proxy, found: Support) -> None:
        self.roles[node], self.proxies[node], self._nodes[proxy.name] = found, proxy, node
        node.meta["val"] = self._fake(proxy)

    def _call(self, step: Step) -> None:
        read = tuple(self._nodes[proxy.name] for proxy in step.reads)
        node = self.graph.call_function(_Named(step.bsym.sym), read)
        self.steps[node], self.roles[node] = step, step.trial.support
        made = results_of(step.bsym) if step.is_taken else step.makes
        new = [None if p is None or p.name in self._nodes else p for p in made]
        if not isinstance(step.bsym.output, list | tuple) and new:
            (proxy,) = new
            if proxy is not None:
                self._add(node, proxy, step.trial.support)
            return
        node.meta["val"] = [None if proxy is None else self._fake(proxy) for proxy in new]
        for at, proxy in enumerate(new):
            if proxy is not None:
                part = self.graph.call_function(operator.getitem, (node, at))
                self._add(part, proxy, step.trial.support)

    def _fake(self, proxy: Proxy) -> torch.Tensor | None:
        found = known_form(proxy)
        with self._mode:
            return None if found is None else found.empty()


@dataclass(frozen=True, slots=True)
class _Named:
    """What a node calls: a symbol, under its name."""

    symbol: Any

    @property
    def __name__(self) -> str:
        return str(self.symbol.name)

    def __call__(self, *_: object) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.__name__


def stretch_graphs(steps: Sequence[Step]) -> list[StretchGraph]:
    """The graphs of a trace's stretches, in order."""
    later: set[str] = set()
    found: list[StretchGraph] = []
    for stretch in reversed(stretches(steps)):
        found.append(StretchGraph(stretch, frozenset(later)))
        later |= {proxy.name for step in stretch for proxy in step.reads}
    return found[::-1]
