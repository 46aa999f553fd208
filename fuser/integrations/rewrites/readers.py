"""Who reads a node's result: partitions, or torch and the graph's caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from fuser.integrations.aten import TABLE, Kind
from fuser.integrations.fx.nodes import ELSEWHERE, is_view, is_write, same_numbers, tensor_of


@dataclass(frozen=True, slots=True)
class Readers:
    """Seen through views."""

    partitions: bool
    torch: bool
    caller: bool


def readers_of(node: Node) -> Readers:
    """By the table alone: of the nodes it covers, a few may be torch's after all."""
    found: set[str] = set()
    pending = list(node.users)
    while pending:
        user = pending.pop()
        row = TABLE.get(user.target)
        if row is not None and row.kind is Kind.VIEW:
            pending += user.users
        elif row is not None:
            found.add("partitions")
        else:
            found.add("caller" if user.op == "output" else "torch")
    return Readers("partitions" in found, "torch" in found, "caller" in found)


def is_returned(node: Node) -> bool:
    """Whether a value, or a view of it, is a result of the graph."""
    return any(each.op == "output" for each in views_of(node))


def needs_memory(node: Node, source: Node) -> bool:
    """Whether what may be a view of `source` has to be a copy: it is a result of the graph, or an
    input is given it, perhaps after `source`, in memory of another input, was written to; or its
    elements are counted from the begin of its memory, which is elsewhere than that of `source`."""
    if is_returned(node):
        return True
    views = views_of(node)
    if any(map(is_write, views)) and _is_written(base_of(source)):
        return True
    counted = any(view.target is ELSEWHERE for view in views if view is not node)
    begins = [[tensor_of(each).storage_offset()] for each in (node, source)]
    return counted and not same_numbers(*begins)


def views_of(node: Node) -> dict[Node, None]:
    """A node, and all that may lie in its memory: views, views of those, writes of any of them, and
    the output."""
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        each = pending.pop()
        if each not in found and (each is node or _may_alias(each)):
            found[each] = None
            pending += each.users
    return found


def base_of(node: Node) -> Node:
    """What a node may be a view of."""
    while node.op == "call_function" and _may_alias(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def views_if(node: Node, tensor: torch.Tensor) -> dict[Node, Any] | None:
    """A node and the views that follow, with what each would make, were the node's result `tensor`;
    None where one would be a copy, or be of other elements."""
    found: dict[Node, Any] = {node: tensor}
    pending = list(node.users)
    while pending:
        user = pending.pop(0)
        row = TABLE.get(user.target)
        if not is_view(user) and (row is None or row.kind is not Kind.VIEW):
            continue
        if user.target is ELSEWHERE:
            return None
        args, kwargs = map_arg((user.args, user.kwargs), lambda n: found.get(n, n.meta.get("val")))
        try:
            found[user] = user.target(*args, **kwargs)  # pyright: ignore[reportCallIssue]
        except (RuntimeError, ValueError):  # torch says so where it would be no view
            return None
        pending += user.users
    return found


def _is_written(node: Node) -> bool:
    found = views_of(node)
    return any(is_write(each) and each.args[0] in found for each in found)


def _may_alias(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)
