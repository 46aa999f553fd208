"""Small partitions that nothing relates, as one: a call of a partition takes longer than they do.

    [exp_avg_0, p_0] = partition_0(...)        [exp_avg_0, p_0, exp_avg_1, p_1] = partition_0(...)
    [exp_avg_1, p_1] = partition_1(...)  ->

An optimizer's step has one for every parameter. Only those that read nothing but inputs of the
graph are joined: others would wait for each other, and keep what each reads until all is there.
Equal ones are joined with equal ones, so that what they become is often equal, too, and planned
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.fx import Graph, Node

from fuser.integrations.fx_types import hints, meta_of, nbytes, tensors_of
from fuser.integrations.partition import Partition, device_of

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
    for group in by_device.values():
        for few in _packed(group):
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


def _packed(parts: Iterable[Partition]) -> list[list[Partition]]:
    """As many as one may hold, in their order."""
    packed: list[list[Partition]] = []
    held = _MOST_NODES
    for part in parts:
        held += len(part.nodes)
        if held > _MOST_NODES or not packed:
            packed.append([])
            held = len(part.nodes)
        packed[-1].append(part)
    return packed


def _as_one(parts: Sequence[Partition], place: Mapping[Node, int]) -> Partition:
    def together(lists: Iterable[Sequence[Node]]) -> tuple[Node, ...]:
        return tuple(sorted({node for each in lists for node in each}, key=place.__getitem__))

    return Partition(
        nodes=together(part.nodes for part in parts),
        inputs=together(part.inputs for part in parts),
        outputs=together(part.outputs for part in parts),
        writes=together(part.writes for part in parts),
    )
