"""Who reads a node's result: partitions, or torch and the graph's caller."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fuser.integrations.aten import TABLE, Kind


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
    pending = [node]
    while pending:
        found = pending.pop()
        if found.op == "output":
            return True
        if found is node or _may_alias(found):
            pending += found.users
    return False


def _may_alias(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)
