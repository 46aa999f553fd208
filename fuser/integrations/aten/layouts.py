"""How results of a definition lie in memory, and how torch says they should.

A definition lays results out as its own operations would in torch. Where those of ATen do
otherwise (a contiguous clone of a transposed tensor), an output needs a stride order. So does one
that would be expanded where ATen's is written out (a copy of a row to all rows): the caller may
write to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from fuser.integrations.fx.nodes import example, hints
from fuser.ir.concretize import concretize, size_inputs
from fuser.ir.nodes import Fusion, Number, Value
from fuser.ir.strided import Strided, ranks
from fuser.ir.types import dense_strides
from fuser.segmenter.bookends import eager_memories


def wanted_orders(
    fusion: Fusion,
    given: Mapping[Value, object],
    results: Sequence[tuple[Value, torch.Tensor]],
) -> list[list[int] | None]:
    """For each result the stride order it must be given to lie as its tensor; None if it does.

    `given` has the tensors and numbers of the inputs, as tracing knows them.
    """
    tensors = {v: t for v, t in given.items() if isinstance(t, torch.Tensor)}
    shapes = {value: hints(tensor.shape) for value, tensor in tensors.items()}
    sized = size_inputs(fusion)
    scalars: dict[Value, Number] = {
        value: example(number) for value, number in given.items() if value in sized
    }
    with unset_fake_temporarily():  # tracing's mode, which scalars would go through
        static = concretize(fusion, shapes, scalars)
    by_id = {value.id: value for value in static.inputs}
    by_id |= {out.id: out for statement in static.statements for out in statement.outs}
    memory = {
        by_id[v.id]: Strided(by_id[v.id], shapes[v], hints(t.stride())) for v, t in tensors.items()
    }
    held = eager_memories(static, memory)
    made = [by_id[value.id] for value, _ in results]
    return [
        _differing(tensor, held[value].strides)
        for (_, tensor), value in zip(results, made, strict=True)
    ]


def _differing(tensor: torch.Tensor, made: Sequence[int]) -> list[int] | None:
    """The stride order of `tensor`, unless strides `made` put its elements in the same places, and
    all of them in places of their own.

    Dimensions of one element have places too, where the tensor is dense: torch tells by their
    strides whether one image has its channels last.
    """
    sizes, strides = hints(tensor.shape), hints(tensor.stride())
    long = [dim for dim, size in enumerate(sizes) if size > 1]
    if any(strides[dim] == 0 for dim in long):
        return None
    by_stride = sorted(long, key=lambda dim: -strides[dim])
    in_places = by_stride == sorted(long, key=lambda dim: -made[dim])
    is_expanded = any(made[dim] == 0 for dim in long)
    wanted = ranks(sizes, strides)
    is_known = tuple(made) == strides or dense_strides(sizes, wanted) != strides
    return None if in_places and not is_expanded and is_known else list(wanted)
