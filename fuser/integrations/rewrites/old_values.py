"""What the backward needs of an input's old value is saved for it, where the forward writes to it.

    forward     c = count + 1, y = x / c, count <- c
    backward    dx = dy / c

Saving `count` and adding 1 again would be cheaper, but the backward would find the new value there.
So what the forward makes of an old value is not made again, and of an old value that the backward
reads, the forward saves a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from fuser.integrations.fx.nodes import all_read_by, is_view, is_write
from fuser.integrations.rewrites.readers import base_of

_aten: Any = torch.ops.aten


def save_old_values(graph: Graph, results: int) -> None:
    """Mark what has to be saved in a joint graph, whose forward has so many results, but for what a
    checkpoint is to make again."""
    output = graph.output_node()
    returned = cast("Sequence[Node | None]", output.args[0])
    writes = [node for node in graph.nodes if is_write(node)]
    into = {base_of(write.all_input_nodes[0]) for write in writes}
    # Where an input has a gradient, the graph returns the new value, and the runtime writes it.
    told = {getattr(kind, "mutated_input", None) for kind in output.meta.get("desc", ())} - {None}
    forward = all_read_by((*returned[:results], *writes))
    needed = all_read_by(returned[results:])
    for node in graph.find_nodes(op="placeholder"):
        if node in into or node.meta.get("desc") in told:
            _save(node, forward, needed)


def _save(old: Node, forward: set[Node], needed: set[Node]) -> None:
    """Save what is made of an old value, or that value."""
    readers = _readers(old)
    if not forward.issuperset(readers):
        copy = _copied(old)
        for reader in list(old.users):  # the forward's too: what it does not need is made again
            if reader is not copy and reader.op != "output" and not is_write(reader):
                reader.replace_input_with(old, copy)
        return
    for reader in needed.intersection(readers):
        if not is_view(reader):
            reader.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)


def _readers(node: Node) -> list[Node]:
    """What reads a value, views of it among them, and what reads those."""
    found: list[Node] = []
    pending = [node]
    while pending:
        readers = [user for user in pending.pop().users if user.op != "output"]
        found += readers
        pending += filter(is_view, readers)
    return found


def _copied(old: Node) -> Node:
    after = old
    while after.op == "placeholder" and after.next.op == "placeholder":
        after = after.next
    with old.graph.inserting_after(after):
        copy = old.graph.call_function(_aten.clone.default, (old,))
    copy.meta = {"val": old.meta["val"], "partitioner_tag": "is_forward"}
    copy.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return copy
