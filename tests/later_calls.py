"""Calls of a fusion after its first, with tensors that have fewer elements, or lie otherwise.

    first:    T0: Float[8, 6], T1: Float[6]      later:    T0: Float[8, 3], T1: Float[3]

Their numbers are those of the first call, so what is known of its results holds for later ones.
Inputs may not fit: not how a definition declares them, nor a number of its own that is a size.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fuser.ir.nodes import Number
from tests.random_values import overlaps_itself
from tests.smaller import Inputs


def later_calls(inputs: Inputs) -> Iterator[Inputs]:
    """Other inputs, which may fit a definition, for which these do."""
    yield from _of_fewer_elements(inputs)
    yield [_turned(given) if isinstance(given, torch.Tensor) else given for given in inputs]


def _turned(given: torch.Tensor) -> torch.Tensor:
    """A tensor of which the fastest dimension is the first."""
    if given.dtype is torch.float4_e2m1fn_x2:  # torch copies none
        return given
    dims = list(reversed(range(given.dim())))
    return given.permute(dims).clone(memory_format=torch.contiguous_format).permute(dims)


def _of_fewer_elements(inputs: Inputs) -> Iterator[Inputs]:
    """Inputs of which dimensions of one size have another one, for a few sizes."""
    sizes = {n for given in inputs if isinstance(given, torch.Tensor) for n in given.shape}
    for size in sorted(sizes - {0, 1}, reverse=True)[:2]:
        for fewer in {size - 1, (size + 1) // 2}:
            yield [_with(given, size, fewer) for given in inputs]


def _with(given: torch.Tensor | Number, size: int, fewer: int) -> torch.Tensor | Number:
    """The first elements along dimensions of a size, which lie in the same order of strides."""
    if not isinstance(given, torch.Tensor) or size not in given.shape:
        return given
    if given.dtype is torch.float4_e2m1fn_x2:
        return given
    shape = [fewer if n == size else n for n in given.shape]
    part = given[tuple(map(slice, shape))]
    if 0 in part.shape or (overlaps_itself(given) and 0 not in given.stride()):
        return part
    once = part[tuple(slice(1) if s == 0 else slice(None) for s in part.stride())]
    order = sorted(range(once.dim()), key=lambda dim: -once.stride(dim))
    dense = once.permute(order).contiguous().permute([order.index(d) for d in range(once.dim())])
    return dense.expand(shape)
