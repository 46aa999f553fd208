"""Views between partitions, products and what torch runs: one alias of memory, not calls in a row.

    mm -> view -> split -> [1] -> view -> permute    =>    mm -> alias of these sizes and strides

Each view is a call of torch's from Python, and there are more of them than of all else.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from fuser.integrations.fx.nodes import ELSEWHERE, is_static, is_view, meta_of, tensor_of
from fuser.runtime.calls.torch_shortcuts import Reinterpret, reinterpret, strided_view

_DETACH, _DETACHED = torch.ops.aten.detach.default, torch.ops.aten.alias.default
"""Where gradients end, and what tracing makes of that, of which torch would not know it."""


def merge_views(graph: Graph, seen: int | None) -> None:
    """Aliases of memory for what is read through views, where tracing knows how all of it lies.

    Of the results, the first `seen` go to who called; None: all do. What shares memory with another
    result of those, or with an input, is returned as torch's view, which knows when it is written
    to: as one, too. Any other result is a tensor of its own, as `_unsafe_view` makes it.
    """
    for node in graph.find_nodes(op="call_function", target=_DETACHED):
        node.target = _DETACH
    chains = {node: chain for node in graph.nodes if _is_alias(node, chain := _chain(node))}
    kept = _kept_views(graph, seen)
    for node, chain in chains.items():
        read = [user for user in node.users if user not in chains and not _is_view_of_several(user)]
        returned = [user for user in read if user.op == "output" and node in kept]
        _replace(node, Alias(chain), [user for user in read if user not in returned])
        if len(chain) > 1 and not any(map(_is_apart, chain)):
            _replace(node, Alias(chain, noticed=True), returned)
    for node in reversed(graph.nodes):
        if not node.users and (_step(node) or _is_view_of_several(node)):
            graph.erase_node(node)


def _kept_views(graph: Graph, seen: int | None) -> set[Node]:
    """The returned views that stay torch's."""
    results: list[object] = pytree.tree_leaves(graph.output_node().args)
    returned = [result for result in results if isinstance(result, Node)]
    bases = {node: _base(chain) if (chain := _chain(node)) else node for node in returned}
    shared = Counter(bases.values())
    shown = {bases[node] for node in returned[:seen] if shared[bases[node]] > 1}
    return {n for n in returned if bases[n].op == "placeholder" or bases[n] in shown}


def _is_apart(step: Node) -> bool:
    """Whether gradients end at a view."""
    return step.target in (_DETACH, torch.ops.aten.view.dtype)


def _replace(node: Node, alias: Alias, readers: Sequence[Node]) -> None:
    """Have readers of a view read its alias."""
    if readers:
        with node.graph.inserting_before(node):
            made = node.graph.call_function(alias, (alias.base,))
        made.meta = dict(node.meta)
        for reader in readers:
            reader.replace_input_with(node, made)


class Alias:
    """The last of some views, each of the one before, as memory of what the first one views.

    A tensor that does not lie as tracing said is viewed step by step. Where writes are to be
    `noticed`, it is a view of torch's.
    """

    def __init__(self, chain: Sequence[Node], *, noticed: bool = False) -> None:
        self.base, self.noticed = _base(chain), noticed
        self.__name__ = self.__qualname__ = "alias"
        base, last = tensor_of(self.base), tensor_of(chain[-1])
        self._strides = base.stride()
        offset = int(last.storage_offset()) - int(base.storage_offset())
        self._place = tuple(last.shape), last.stride(), offset
        self._steps = [(cast("Any", n.target), n.args[1:], n.kwargs) for n in chain]

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """The view of a tensor."""
        if tensor.stride() == self._strides:
            return self.at(tensor, *self._place)
        for view, args, options in self._steps:
            tensor = view(tensor, *args, **options)
        return tensor

    @property
    def at(self) -> Reinterpret:
        """What makes a view of a tensor's memory."""
        return strided_view if self.noticed else reinterpret


def _chain(node: Node) -> list[Node]:
    """The views that lead to a node, in their order; none if it is no view."""
    chain: list[Node] = []
    while step := _step(node):
        chain = [*step, *chain]
        node = _base(step)
    return chain


def _step(node: Node) -> list[Node]:
    """A view: one node, or two where it is one of several that are made at once."""
    if node.target is operator.getitem:
        source = node.args[0]
        return [source, node] if isinstance(source, Node) and _is_view_of_several(source) else []
    return [node] if is_view(node) and isinstance(meta_of(node), torch.Tensor) else []


def _is_view_of_several(node: Node) -> bool:
    return is_view(node) and isinstance(meta_of(node), list | tuple)


def _is_alias(node: Node, chain: Sequence[Node]) -> bool:
    """Whether sizes, strides and an offset say all about the last view of a chain."""
    if not chain or any(step.target is ELSEWHERE for step in chain):
        return False
    if any(len(step.all_input_nodes) > 1 for step in chain):  # sizes that are known at the call
        return False
    base, last = tensor_of(_base(chain)), tensor_of(node)
    numbers = (*base.shape, *base.stride(), base.storage_offset())
    numbers = (*numbers, *last.shape, *last.stride(), last.storage_offset())
    strided = base.layout is last.layout is torch.strided
    lazy = base.is_complex() or base.is_neg() or last.is_neg()
    alike = base.dtype is last.dtype and not lazy
    return strided and alike and all(map(is_static, numbers))


def _base(chain: Sequence[Node]) -> Node:
    """What the first view of a chain views."""
    return cast("Node", chain[0].args[0])
