"""The kernels that are worth measuring on a GPU, as definitions over tensors without memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import from_torch
from tests.row_functions import log_softmax, normalized, softmax

Made = Handle | tuple[Handle, ...]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`define` gets float32 handles of the inputs; what it makes is stored as `shapes` are typed.

    `labels`: an index for each row comes last.
    """

    name: str
    define: Callable[..., Made]
    shapes: tuple[tuple[int, ...], ...]
    labels: bool = False

    def __str__(self) -> str:
        return f"{self.name} {list(self.shapes[0])}"

    def inputs(self, dtype: torch.dtype) -> list[torch.Tensor]:
        """Tensors on the meta device."""
        made = [torch.empty(shape, dtype=dtype, device="meta") for shape in self.shapes]
        rows = self.shapes[0][:1]
        labels = torch.empty(rows, dtype=torch.int64, device="meta")
        return [*made, labels] if self.labels else made

    def defined(self, inputs: Sequence[torch.Tensor]) -> FusionDefinition:
        """The definition, with casts at its ends."""
        with FusionDefinition() as fd:
            given = [fd.from_pytorch(x) for x in inputs]
            wide = [fd.ops.cast(x, DataType.Float) if x.dtype().is_floating else x for x in given]
            made = self.define(fd, *wide)
            for out in made if isinstance(made, tuple) else (made,):
                fd.add_output(fd.ops.cast(out, from_torch(inputs[0].dtype)))
        return fd


def _gelu(fd: FusionDefinition, x: Handle, bias: Handle | None = None) -> Handle:
    x = x if bias is None else x + bias
    return x * 0.5 * (fd.ops.erf(x * 2**-0.5) + 1.0)


def _permute(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(fd.ops.permute(x, [1, 2, 0]), [2, 1, 0])


def _transpose(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(fd.ops.permute(x, [1, 0]), [1, 0])


def _symmetric(fd: FusionDefinition, x: Handle) -> Handle:
    return x + fd.ops.permute(x, [1, 0])


def _rotary(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    left = fd.ops.slice(x, [0] * 4, [4, 32, 2048, 64])
    right = fd.ops.slice(x, [0, 0, 0, 64], [4, 32, 2048, 128])
    return x * cos + fd.ops.cat([-right, left], 3) * sin


def _shift(fd: FusionDefinition, by_content: Handle, by_position: Handle) -> Handle:
    x = fd.ops.reshape(by_position, [4, 16, 1024, 512])
    x = fd.ops.reshape(fd.ops.slice(x, [0, 0, 1, 0], [4, 16, 1024, 512]), [4, 16, 512, 1023])
    return (by_content + fd.ops.slice(x, [0] * 4, [4, 16, 512, 512])) * 0.125


def _shift_backward(fd: FusionDefinition, gradient: Handle) -> Handle:
    x = fd.ops.reshape(fd.ops.pad(gradient * 0.125, [0, 511]), [4, 16, 1023, 512])
    return fd.ops.reshape(fd.ops.pad(x, [0, 0, 1, 0]), [4, 16, 512, 1024])


def _softmax_backward(fd: FusionDefinition, g: Handle, y: Handle) -> Handle:
    return (g - fd.ops.sum(g * y, [1], keepdim=True)) * y


def layernorm(fd: FusionDefinition, x: Handle, w: Handle, b: Handle) -> Handle:
    return normalized(fd, x)[0] * w + b


def _add_layernorm(fd: FusionDefinition, x: Handle, r: Handle, w: Handle, b: Handle) -> Made:
    total = x + r
    return layernorm(fd, total, w, b), total


def _layernorm_backward(fd: FusionDefinition, g: Handle, x: Handle, w: Handle) -> Made:
    normal, scale = normalized(fd, x)
    gw = g * w
    along = fd.ops.mean(gw * normal, [1], keepdim=True)
    dx = (gw - fd.ops.mean(gw, [1], keepdim=True) - normal * along) * scale
    return dx, fd.ops.sum(g * normal, [0]), fd.ops.sum(g, [0])


def rmsnorm(fd: FusionDefinition, x: Handle, w: Handle) -> Handle:
    return x * fd.ops.rsqrt(fd.ops.mean(x * x, [1], keepdim=True) + 1e-5) * w


def _rmsnorm_backward(fd: FusionDefinition, g: Handle, x: Handle, w: Handle) -> Made:
    scale = fd.ops.rsqrt(fd.ops.mean(x * x, [1], keepdim=True) + 1e-5)
    normal, gw = x * scale, g * w
    dx = (gw - normal * fd.ops.mean(gw * normal, [1], keepdim=True)) * scale
    return dx, fd.ops.sum(g * normal, [0])


def cross_entropy(fd: FusionDefinition, x: Handle, labels: Handle) -> Handle:
    """The mean loss."""
    at = fd.ops.broadcast_in_dim(labels, [*labels.shape(), 1], [0])
    return -fd.ops.mean(fd.ops.take_along_axis(log_softmax(fd, x, 1), at, 1), [0, 1])


def _cross_entropy_backward(fd: FusionDefinition, x: Handle, labels: Handle) -> Handle:
    """The gradient of the logits."""
    rows, columns = x.shape()
    places = fd.ops.broadcast_in_dim(fd.ops.iota(columns, 0, 1, DataType.Int), [rows, columns], [1])
    at = fd.ops.broadcast_in_dim(labels, [rows, columns], [0])
    hit = fd.ops.cast(fd.ops.eq(places, at), DataType.Float)
    return (softmax(fd, x, 1) - hit) / fd.ops.cast(rows, DataType.Float)


def _cross_entropy_both(fd: FusionDefinition, x: Handle, labels: Handle) -> Made:
    return cross_entropy(fd, x, labels), _cross_entropy_backward(fd, x, labels)


def _sum(*dims: int) -> Callable[[FusionDefinition, Handle], Handle]:
    return lambda fd, x: fd.ops.sum(x, list(dims))


def _rows(
    name: str, define: Callable[..., Made], sizes: Sequence[tuple[int, int]], large: int, small: int
) -> list[Benchmark]:
    """`large` operands of each size, and `small` ones of its columns."""
    return [Benchmark(name, define, (size,) * large + (size[1:],) * small) for size in sizes]


_NORMED = ((8192, 768), (8192, 4096))
_LONG = ((8192, 768), (4096, 32768), (2048, 131072))
_LABELLED = ((512, 32768), (8192, 30522), (4096, 128256))
_SUMMED = ((8192, 3072),)

BENCHMARKS = (
    Benchmark("gelu", _gelu, ((8192, 3072),)),
    Benchmark("bias gelu", _gelu, ((8192, 3072), (3072,))),
    Benchmark("permute", _permute, ((768, 128, 64),)),
    Benchmark("transpose", _transpose, ((8192, 8192),)),
    Benchmark("x + x.T", _symmetric, ((4096, 4096),)),
    Benchmark("rotary", _rotary, ((4, 32, 2048, 128), (1, 1, 2048, 128), (1, 1, 2048, 128))),
    Benchmark("shift", _shift, ((4, 16, 512, 512), (4, 16, 512, 1024))),
    Benchmark("shift backward", _shift_backward, ((4, 16, 512, 512),)),
    *_rows("softmax", softmax, _LONG, 1, 0),
    *_rows("log_softmax", log_softmax, _LONG, 1, 0),
    *_rows("softmax backward", _softmax_backward, _LONG, 2, 0),
    *_rows("layernorm", layernorm, _NORMED, 1, 2),
    *_rows("layernorm backward", _layernorm_backward, _NORMED, 2, 1),
    *_rows("rmsnorm", rmsnorm, _NORMED, 1, 1),
    *_rows("rmsnorm backward", _rmsnorm_backward, _NORMED, 2, 1),
    *_rows("add layernorm", _add_layernorm, ((16384, 4096),), 2, 2),
    *(Benchmark("cross entropy", cross_entropy, (s,), labels=True) for s in _LABELLED),
    *(
        Benchmark("cross entropy backward", _cross_entropy_backward, (s,), labels=True)
        for s in _LABELLED
    ),
    *(Benchmark("cross entropy both", _cross_entropy_both, (s,), labels=True) for s in _LABELLED),
    *_rows("inner sum", _sum(1), _SUMMED, 1, 0),
    *_rows("outer sum", _sum(0), _SUMMED, 1, 0),
    *_rows("full sum", _sum(0, 1), _SUMMED, 1, 0),
)
