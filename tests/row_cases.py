"""Definitions with reductions and gathers, one for every shape of row kernel.

case.defined_for(case.inputs(n, torch.float32))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, defined
from tests.row_functions import log_softmax, normalized, softmax

Tensors = list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class RowCase:
    """`define` gets the inputs' handles; `make` gets a length and a dtype."""

    name: str
    define: Define
    make: Callable[[int, torch.dtype], Tensors]

    def __str__(self) -> str:
        return self.name

    def inputs(self, length: int, dtype: torch.dtype) -> Tensors:
        """Inputs whose rows have about `length` elements."""
        torch.manual_seed(length)
        return self.make(length, dtype)

    def defined_for(self, inputs: Tensors) -> FusionDefinition:
        """The definition for inputs of these sizes and layouts."""
        return defined(self.define, *inputs)


def numbers(*shape: int) -> Callable[[int, torch.dtype], Tensors]:
    """One tensor; -1 in `shape` is the length."""
    return lambda n, dtype: [random(tuple(n if size == -1 else size for size in shape), dtype)]


def random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-8, 9, shape).to(dtype)


def _repeated(fd: FusionDefinition, x: Handle) -> Handle:
    """Every row three times: its last sweep is over one more axis than those before."""
    thrice = fd.ops.expand(fd.ops.broadcast(softmax(fd, x, 1), [False, True, False]), [-1, 3, -1])
    return thrice * 1.5


def _cross_entropy(fd: FusionDefinition, x: Handle, labels: Handle) -> tuple[Handle, ...]:
    """The mean over the labels that are not -100."""
    kept = fd.ops.ne(labels, -100)
    safe = fd.ops.where(kept, labels, 0)
    at = fd.ops.broadcast_in_dim(safe, [*safe.shape(), 1], [0])
    losses = fd.ops.squeeze(fd.ops.take_along_axis(log_softmax(fd, x, 1), at, 1), dims=[1])
    total = fd.ops.sum(fd.ops.where(kept, -losses, 0.0), dims=[0])
    count = fd.ops.sum(fd.ops.cast(kept, x.dtype()), dims=[0])
    return total / count, losses


def _labelled(n: int, dtype: torch.dtype) -> Tensors:
    labels = torch.randint(0, n, (37,))
    labels[::5] = -100
    return [random((37, n), dtype), labels]


def _pixel_loss(fd: FusionDefinition, x: Handle, labels: Handle) -> tuple[Handle, ...]:
    """The cross entropy of classes along the second dimension, and its largest part."""
    images, _, *pixels = x.shape()
    at = fd.ops.broadcast_in_dim(labels, [images, 1, *pixels], [0, 2, 3])
    losses = -fd.ops.take_along_axis(log_softmax(fd, x, 1), at, 1)
    return fd.ops.mean(losses, dims=[0, 1, 2, 3]), fd.ops.max(losses), losses


def _labelled_pixels(n: int, dtype: torch.dtype) -> Tensors:
    return [random((2, n, 7, 11), dtype), torch.randint(0, n, (2, 7, 11))]


def _column_extremes(fd: FusionDefinition, x: Handle) -> tuple[Handle, ...]:
    """The least of every column, and what is folded over columns beside it."""
    least = fd.ops.min(x, dims=[1], keepdim=True)
    above = x - least
    return fd.ops.max(above), fd.ops.max(least, dims=[0]), fd.ops.any(fd.ops.gt(above, 3.0))


def _layernorm(fd: FusionDefinition, x: Handle, w: Handle, b: Handle) -> Handle:
    return normalized(fd, x, 1)[0] * w + b


def _layernorm_backward(
    fd: FusionDefinition, g: Handle, x: Handle, w: Handle
) -> tuple[Handle, ...]:
    normal, scale = normalized(fd, x, 1)
    gw = g * w
    mean = fd.ops.mean(gw, dims=[1], keepdim=True)
    along = fd.ops.mean(gw * normal, dims=[1], keepdim=True)
    dx = (gw - mean - normal * along) * scale
    return dx, fd.ops.sum(g * normal, dims=[0]), fd.ops.sum(g, dims=[0])


def _groupnorm_backward(fd: FusionDefinition, g: Handle, x: Handle) -> tuple[Handle, ...]:
    """Groups of channels are rows; the channels' gradients are of a part of each, over images."""
    variance, mean = fd.ops.var_mean(x, dims=[2, 3], correction=0, keepdim=True)
    scale = fd.ops.rsqrt(variance + 1e-5)
    normal = (x - mean) * scale
    along = fd.ops.mean(g * normal, dims=[2, 3], keepdim=True)
    dx = (g - fd.ops.mean(g, dims=[2, 3], keepdim=True) - normal * along) * scale
    return dx, fd.ops.sum(g * normal, dims=[0, 3]), fd.ops.sum(g, dims=[0, 3])


def _of_groups(fd: FusionDefinition, x: Handle, w: Handle) -> tuple[Handle, Handle]:
    """Groups of channels, which come last: a row has its pixels, and in each some neighbours."""
    variance, mean = fd.ops.var_mean(x, dims=[1, 3], correction=0, keepdim=True)
    return (x - mean) * fd.ops.rsqrt(variance + 1e-5) * w, variance


def _of_images(fd: FusionDefinition, x: Handle) -> Handle:
    """A softmax of every channel: its row has its pixels of all images."""
    powers = fd.ops.exp(x - fd.ops.max(x, dims=[0, 2], keepdim=True))
    return powers / fd.ops.sum(powers, dims=[0, 2], keepdim=True)


def _norm_of_several(fd: FusionDefinition, x: Handle, y: Handle, z: Handle) -> tuple[Handle, ...]:
    """One number of tensors of several sizes; beside it, something is stored of the first."""
    x_sum, y_sum, z_sum = (fd.ops.sum(t * t, [*range(len(t.shape()))]) for t in (x, y, z))
    return fd.ops.sqrt(x_sum + y_sum + z_sum), x * 2.0


def _several(n: int, dtype: torch.dtype) -> Tensors:
    return [random((17, n), dtype), random((n,), dtype), random((5, n + 1, 2), dtype)]


def _grouped(n: int, dtype: torch.dtype) -> Tensors:
    return [random((3, 2, 4, n), dtype), random((3, 2, 4, n), dtype)]


def _embedded(fd: FusionDefinition, table: Handle, at: Handle, x: Handle) -> Handle:
    return fd.ops.tanh(fd.ops.index_select(table, at, 0) * 2.0 + x)


def _vectors(rows: int, count: int) -> Callable[[int, torch.dtype], Tensors]:
    def make(n: int, dtype: torch.dtype) -> Tensors:
        return [random((rows, n), dtype), *(random((n,), dtype) for _ in range(count))]

    return make


def _gradients(n: int, dtype: torch.dtype) -> Tensors:
    return [random((37, n), dtype), random((37, n), dtype), random((n,), dtype)]


def _with_nans(n: int, dtype: torch.dtype) -> Tensors:
    x = random((9, n), dtype)
    if dtype.is_floating_point:
        x[::3, n // 2] = torch.nan
    return [x]


def _extremes(fd: FusionDefinition, x: Handle) -> tuple[Handle, ...]:
    return (
        fd.ops.max(x, dims=[1]),
        fd.ops.min(x, dims=[0]),
        fd.ops.any(fd.ops.gt(x, 2.0), dims=[1]),
        fd.ops.all(fd.ops.lt(x, 3.0), dims=[0, 1]),
    )


def _mixed_slots(fd: FusionDefinition, x: Handle) -> tuple[Handle, ...]:
    """Folds over the rows along every subset of the dimensions, beside one of the rows."""
    centred = x - fd.ops.mean(x, dims=[2, 3], keepdim=True)
    others = ([0, 1], [0, 1, 2], [0, 1, 3], [0, 2, 3], [0, 1, 2, 3])
    return (centred, *(fd.ops.sum(centred * centred, dims=dims) for dims in others))


def _table(n: int, dtype: torch.dtype) -> Tensors:
    return [random((11, n), dtype), torch.randint(0, 11, (37,)), random((37, n), dtype)]


def _permuted(n: int, dtype: torch.dtype) -> Tensors:
    return [random((5, n, 6), dtype).permute(0, 2, 1), random((6, 5, n), dtype).permute(1, 0, 2)]


CASES = (
    RowCase("softmax", lambda fd, x: softmax(fd, x, 1), numbers(9, -1)),
    RowCase("many rows", lambda fd, x: softmax(fd, x, 1), numbers(1100, -1)),
    RowCase("softmax of columns", lambda fd, x: softmax(fd, x, 0), numbers(-1, 37)),
    RowCase("batches of columns", lambda fd, x: softmax(fd, x, 1), numbers(3, -1, 18)),
    RowCase("cross entropy of pixels", _pixel_loss, _labelled_pixels),
    RowCase("extremes of columns", _column_extremes, numbers(3, -1, 45)),
    RowCase("softmax three times", _repeated, numbers(9, -1)),
    RowCase("cross entropy", _cross_entropy, _labelled),
    RowCase("layernorm", _layernorm, _vectors(9, 2)),
    RowCase("layernorm backward", _layernorm_backward, _gradients),
    RowCase("groupnorm backward", _groupnorm_backward, _grouped),
    RowCase(
        "groups of channels, last",
        _of_groups,
        lambda n, dtype: [random((2, n // 6 + 1, 3, 6), dtype), random((3, 6), dtype)],
    ),
    RowCase("channels of images", _of_images, numbers(3, 4, -1)),
    RowCase("column sums", lambda fd, x: fd.ops.sum(x, dims=[0]), numbers(-1, 70)),
    RowCase("long column sums", lambda fd, x: fd.ops.sum(x, dims=[0]), numbers(300, -1)),
    RowCase("norm of several", _norm_of_several, _several),
    RowCase("full sum", lambda fd, x: fd.ops.sum(x, dims=[0, 1]), numbers(40, -1)),
    RowCase(
        "full mean of a flipped",
        lambda fd, x: fd.ops.mean(fd.ops.flip(x, 1), [0, 1]),
        numbers(9, -1),
    ),
    RowCase("embedding", _embedded, _table),
    RowCase("var_mean", lambda fd, x: fd.ops.var_mean(x, dims=[0, 2]), numbers(5, 4, -1)),
    RowCase("full var_mean", lambda fd, x: fd.ops.var_mean(x, dims=[0, 1]), numbers(3, -1)),
    RowCase("extremes", _extremes, _with_nans),
    RowCase("folds along many dimensions", _mixed_slots, numbers(4, 3, 6, -1)),
    RowCase(
        "permuted",
        lambda fd, x, y: softmax(fd, x + y, 2) + fd.ops.sum(x, dims=[2], keepdim=True),
        _permuted,
    ),
)
_OF_INTEGERS = ("column sums", "full sum", "extremes", "long column sums")
INTEGER_CASES = tuple(case for case in CASES if case.name in _OF_INTEGERS)
