"""Small partitions that nothing relates, as one: a call of a partition takes longer than they do.

    [exp_avg_0, p_0] = partition_0(...)        [exp_avg_0, p_0, exp_avg_1, p_1] = partition_0(...)
    [exp_avg_1, p_1] = partition_1(...)  ->

An optimizer's step has one for every parameter. Only those that read nothing but inputs of the
graph are joined: others would wait for each other, and keep what each reads until all is there.
What the graph reads of them is there before it is needed, so of that they have no more than a small
one moves: else all checkpointed layers would begin at once. Equal ones are joined with equal ones,
so that what they become is often equal, too, and planned once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx.nodes import hints, meta_of, nbytes, tensors_of
from fuser.integrations.partitions.partition import Partition, device_of

SMALL: Mapping[str, int] = {"cpu": 1 << 20, "cuda": 1 << 25}
"""By kind of device: the bytes that memory moves while a call prepares the next one."""

_MOST_NODES = 256
"""Nodes in one partition: planning takes longer than in proportion to them."""


def joined(graph: Graph, parts: Sequence[Partition]) -> list[Partition]:
    """The partitions of a graph, with small ones joined."""
    place = {node: place for place, node in enumerate(graph.nodes)}
    alike: dict[tuple[torch.device, object], list[Partition]] = {}
    for part in filter(_is_small, parts):
        alike.setdefault((_device(part), _form(part)), []).append(part)
    by_device: dict[torch.device, list[Partition]] = {}
    for (device, _), group in alike.items():
        by_device.setdefault(device, []).extend(group)
    together: dict[Partition, Partition] = {}
    for device, group in by_device.items():
        for few in _packed(group, SMALL[device.type]):
            together |= dict.fromkeys(few, _as_one(few, place))
    return list(dict.fromkeys(together.get(part, part) for part in parts))


def _is_small(part: Partition) -> bool:
    if any(node.op != "placeholder" for node in part.inputs):
        return False
    moved = sum(map(nbytes, (*part.inputs, *part.outputs, *part.writes)))
    return moved <= SMALL[_device(part).type]


def _device(part: Partition) -> torch.device:
    return device_of((*part.outputs, *part.writes)[0])


def _form(part: Partition) -> object:
    """What equal partitions have in common."""
    return tuple(
        (str(node.target), tuple((hints(t.shape), t.dtype) for t in tensors_of(meta_of(node))))
        for node in part.nodes
    )


def _packed(parts: Iterable[Partition], most_waiting: int) -> list[list[Partition]]:
    """As many as one may hold, in their order."""
    packed: list[list[Partition]] = []
    nodes = waiting = 0
    for part in parts:
        nodes, waiting = nodes + len(part.nodes), waiting + _waiting(part)
        if nodes > _MOST_NODES or waiting > most_waiting or not packed:
            packed.append([])
            nodes, waiting = len(part.nodes), _waiting(part)
        packed[-1].append(part)
    return packed


def _waiting(part: Partition) -> int:
    """The bytes of what the graph reads of a partition, and does not return alone."""
    read = (n for n in part.outputs if any(user.op != "output" for user in n.users))
    return sum(map(nbytes, read))


def _as_one(parts: Sequence[Partition], place: Mapping[Node, int]) -> Partition:
    def together(lists: Iterable[Sequence[Node]]) -> tuple[Node, ...]:
        return tuple(sorted({node for each in lists for node in each}, key=place.__getitem__))

    return Partition(
        nodes=together(part.nodes for part in parts),
        inputs=together(part.inputs for part in parts),
        outputs=together(part.outputs for part in parts),
        writes=together(part.writes for part in parts),
    )
