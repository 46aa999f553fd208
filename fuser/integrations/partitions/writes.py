"""Writes into a graph's inputs, by the partitions that make what is written.

    add = partition_0(p, g)          [add] = partition_0(p, g), which stores `add` in p
    copy_(p, add)              ->

So an optimizer's step reads and writes every parameter and moment once; a copy of each moved as
many bytes again. What reads the old value has to be in the same partition, where its kernels see to
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx.nodes import is_static, is_view, tensor_of
from fuser.integrations.partitions.partition import Partition

_COPY: Any = torch.ops.aten.copy_.default


def with_writes(graph: Graph, parts: Sequence[Partition]) -> list[Partition]:
    """The partitions of a graph, each with the writes that it can make itself."""
    made = {node: part for part in parts for node in part.outputs}
    found: dict[Partition, list[Node]] = {}
    for write in graph.find_nodes(op="call_function", target=_COPY):
        part = made.get(write.all_input_nodes[-1])
        if part is not None and _is_alike(write) and _is_within(write, part):
            found.setdefault(part, []).append(write)
    return [_writing(part, found[part]) if part in found else part for part in parts]


def _writing(part: Partition, writes: Sequence[Node]) -> Partition:
    into, written = zip(*(write.all_input_nodes for write in writes), strict=True)
    return replace(
        part,
        inputs=tuple(dict.fromkeys((*part.inputs, *into))),
        outputs=tuple(node for node in part.outputs if node not in written),
        writes=tuple(writes),
    )


def _is_alike(write: Node) -> bool:
    """Whether an input is given a value of its sizes and type."""
    into, value = write.args[:2]
    if not isinstance(into, Node) or not isinstance(value, Node) or into.op != "placeholder":
        return False
    old, new = tensor_of(into), tensor_of(value)
    alike = (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device)
    return alike and all(map(is_static, old.shape)) and not (old.is_complex() or old.is_neg())


def _is_within(write: Node, part: Partition) -> bool:
    """Whether this partition alone reads the new value, the old one, and views of them."""
    into, value = write.all_input_nodes
    own, pending = {*part.nodes, write}, [into, value]
    while pending:
        node = pending.pop()
        if not own.issuperset(node.users):
            return False
        pending += filter(is_view, node.users)
    return not write.users
