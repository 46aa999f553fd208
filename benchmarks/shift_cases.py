"""XLNet's relative shift and rotary embeddings, forward and backward: elements moved within rows.

A shift's shape is that of the scores by position: [batch, heads, length, 2 * length].
"""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Scratch, Shape, Tensors
from torch.nn import functional

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

END = 2**31
SCALE = 0.125


# -- relative shift, forward ---------------------------------------------------------------------


def define_shift(fd: FusionDefinition, by_content: Handle, by_position: Handle) -> Handle:
    """view, slice, view, index_select by a range; then added and scaled."""
    batch, heads, length, twice = fd.ops.shape(by_position)
    x = fd.ops.reshape(by_position, [batch, heads, twice, length])
    x = fd.ops.slice(x, [0, 0, 1, 0], [END] * 4)
    x = fd.ops.reshape(x, [batch, heads, length, twice - 1])
    x = fd.ops.index_select(x, fd.ops.iota(length, dtype=DataType.Int), dim=3)
    return (by_content + x) * SCALE


def shift(by_content: torch.Tensor, by_position: torch.Tensor) -> torch.Tensor:
    """As in the model."""
    batch, heads, length, twice = by_position.shape
    x = by_position.reshape(batch, heads, twice, length)
    x = x[:, :, 1:, :].reshape(batch, heads, length, twice - 1)
    x = torch.index_select(x, 3, torch.arange(length, device=x.device))
    return (by_content + x) * SCALE


def sliced_shift(by_content: torch.Tensor, by_position: torch.Tensor) -> torch.Tensor:
    """With a slice for the index_select."""
    return (by_content + _shifted(by_position)) * SCALE


def shift_into(outs: Tensors, scratch: Scratch, content: torch.Tensor, at: torch.Tensor) -> None:
    torch.add(content, _shifted(at), out=outs[0])
    outs[0].mul_(SCALE)


def _shifted(by_position: torch.Tensor) -> torch.Tensor:
    batch, heads, length, twice = by_position.shape
    x = by_position.reshape(batch, heads, length * twice)[:, :, length:]
    return x.view(batch, heads, length, twice - 1)[..., :length]


def scores(make: Maker) -> Tensors:
    return [make.normal(*make.shape[:3], make.shape[2]), make.normal()]


SHIFT = Kind(
    name="relative shift",
    define=define_shift,
    inputs=scores,
    written=shift,
    eager={"as written": shift, "sliced": sliced_shift},
    into={"sliced": shift_into},
    exact=shift,
    goals=Goals(cpu=1.5, copied=0.9),
    unread=lambda shape: shape[0] * shape[1] * shape[2] * (shape[3] - shape[2]),
)


# -- relative shift, backward --------------------------------------------------------------------


def define_shift_backward(fd: FusionDefinition, gradient: Handle) -> Handle:
    """The gradient of the scores by position; that by content is only scaled."""
    batch, heads, length, _ = fd.ops.shape(gradient)
    twice = length * 2
    zeros = fd.ops.full([batch, heads, length, twice - 1], 0.0, DataType.Float)
    x = fd.ops.index_add(zeros, fd.ops.iota(length, dtype=DataType.Int), gradient * SCALE, dim=3)
    x = fd.ops.pad(fd.ops.reshape(x, [batch, heads, twice - 1, length]), [0, 0, 1, 0])
    return fd.ops.reshape(x, [batch, heads, length, twice])


def shift_backward(gradient: torch.Tensor) -> torch.Tensor:
    """As autograd runs it."""
    batch, heads, length, _ = gradient.shape
    places = torch.arange(length, device=gradient.device)
    x = gradient.new_zeros(batch, heads, length, 2 * length - 1)
    x = x.index_add(3, places, gradient * SCALE)
    padded = gradient.new_zeros(batch, heads, 2 * length, length)
    padded[:, :, 1:, :] = x.reshape(batch, heads, 2 * length - 1, length)
    return padded.reshape(batch, heads, length, 2 * length)


def padded_shift_backward(gradient: torch.Tensor) -> torch.Tensor:
    """With a pad for the addition at indices."""
    batch, heads, length, _ = gradient.shape
    x = functional.pad(gradient * SCALE, [0, length - 1])
    x = functional.pad(x.view(batch, heads, 2 * length - 1, length), [0, 0, 1, 0])
    return x.view(batch, heads, length, 2 * length)


SHIFT_BACKWARD = Kind(
    name="relative shift backward",
    define=define_shift_backward,
    inputs=lambda make: scores(make)[:1],
    written=shift_backward,
    eager={"as autograd": shift_backward, "padded": padded_shift_backward},
    into={},
    exact=shift_backward,
    goals=Goals(cpu=5.0, copied=0.9),
)


# -- rotary embeddings ---------------------------------------------------------------------------

SIZE = 128
HALF = SIZE // 2


def define_rotary(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    left = fd.ops.slice(x, [0] * 4, [END, END, END, HALF])
    right = fd.ops.slice(x, [0, 0, 0, HALF], [END] * 4)
    return x * cos + fd.ops.cat([-right, left], 3) * sin


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As Llama has it."""
    return x * cos + torch.cat([-x[..., HALF:], x[..., :HALF]], -1) * sin


def rotary_into(outs: Tensors, scratch: Scratch, *inputs: torch.Tensor) -> None:
    x, cos, sin = inputs
    turned = scratch.like(x, "turned")
    torch.mul(x[..., HALF:], sin[..., :HALF], out=turned[..., :HALF]).neg_()
    torch.mul(x[..., :HALF], sin[..., HALF:], out=turned[..., HALF:])
    torch.mul(x, cos, out=outs[0]).add_(turned)


def turns(make: Maker) -> Tensors:
    table = (1, 1, *make.shape[2:])
    return [make.normal(), make.normal(*table), make.normal(*table)]


ROTARY = Kind(
    name="rotary embedding",
    define=define_rotary,
    inputs=turns,
    written=rotary,
    eager={"as written": rotary},
    into={"by halves": rotary_into},
    exact=rotary,
    goals=Goals(cpu=1.5, copied=0.95),
)


def define_rotary_backward(fd: FusionDefinition, g: Handle, cos: Handle, sin: Handle) -> Handle:
    turned = g * sin
    left = fd.ops.slice(turned, [0] * 4, [END, END, END, HALF])
    right = fd.ops.slice(turned, [0, 0, 0, HALF], [END] * 4)
    return g * cos + fd.ops.pad(right, [0, HALF]) + fd.ops.pad(-left, [HALF, 0])


def rotary_backward(g: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As autograd runs it: what comes of each half is written into zeros."""
    turned = g * sin
    left, right = torch.zeros_like(g), torch.zeros_like(g)
    left[..., HALF:] = -turned[..., :HALF]
    right[..., :HALF] = turned[..., HALF:]
    return g * cos + left + right


def rotary_backward_into(outs: Tensors, scratch: Scratch, *inputs: torch.Tensor) -> None:
    g, cos, sin = inputs
    turned = scratch.like(g, "turned")
    torch.mul(g[..., HALF:], sin[..., HALF:], out=turned[..., :HALF])
    torch.mul(g[..., :HALF], sin[..., :HALF], out=turned[..., HALF:]).neg_()
    torch.mul(g, cos, out=outs[0]).add_(turned)


ROTARY_BACKWARD = Kind(
    name="rotary embedding backward",
    define=define_rotary_backward,
    inputs=turns,
    written=rotary_backward,
    eager={"as autograd": rotary_backward},
    into={"by halves": rotary_backward_into},
    exact=rotary_backward,
    goals=Goals(cpu=1.5, copied=0.95),
)

SMALL: dict[str, Shape] = {
    SHIFT.name: (2, 3, 8, 16),
    SHIFT_BACKWARD.name: (2, 3, 8, 16),
    ROTARY.name: (2, 3, 5, SIZE),
    ROTARY_BACKWARD.name: (2, 3, 5, SIZE),
}
"""Shapes that fit, with few elements."""
