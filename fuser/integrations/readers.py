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
