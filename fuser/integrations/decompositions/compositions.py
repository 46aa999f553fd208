"""Operations that torch computes by a loop of its own, as others that partitions hold.

bernoulli(x, p)                   rand() < p
exponential(x, rate)              -log(1 - rand()) / rate
normal(mean, deviation)           randn() * deviation + mean
masked_scatter(x, mask, source)   where(mask, source[how many the mask has chosen before], x)
take(x, i), put(x, i, s)          x as one dimension, read and written at an index
roll(x, n)                        the last n elements, then the others
unfold backward                   the k-th strides of all windows, k strides later
weight norm, and backwards        sums along rows
eye(n, m)                         where a range of n equals one of m
copysign(x, y)                    where(signbit(y), -abs(x), abs(x))
hypot(x, y)                       sqrt(1 + (small / large)^2) large
round(x, decimals=n)              round(x 10^n) / 10^n
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import (
    ELEMENTWISE_TYPE_PROMOTION_KIND,
    elementwise_dtypes,  # pyright: ignore[reportUnknownVariableType]
)

from fuser.integrations.decompositions.image_windows import MOST_ELEMENTS, widened
from fuser.integrations.fx.nodes import is_static

_aten: Any = torch.ops.aten
_TO_FLOAT = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT


def bernoulli(
    x: torch.Tensor, p: float | torch.Tensor, generator: torch.Generator | None = None
) -> torch.Tensor:
    """1 with probability `p`, else 0, as `x` is; of `x` no element is read."""
    if generator is not None:
        return NotImplemented
    return (_uniform(x, torch.float32) < p).to(x.dtype)


def exponential(
    x: torch.Tensor, rate: float = 1.0, *, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Intervals between events of a rate, as `x` is; none is 0, whose logarithm many ask for."""
    if generator is not None or not x.is_floating_point():
        return NotImplemented
    wide = torch.promote_types(x.dtype, torch.float32)
    drawn = -torch.log1p(-_uniform(x, wide))
    return (torch.clamp(drawn, min=torch.finfo(torch.float32).eps / 2) / rate).to(x.dtype)


def normal(
    mean: float | torch.Tensor,
    deviation: float | torch.Tensor = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Normal numbers of a mean and a deviation each, row after row."""
    tensors = [each for each in (mean, deviation) if isinstance(each, torch.Tensor)]
    dtype = tensors[0].dtype
    if generator is not None or not dtype.is_floating_point or tensors[-1].dtype != dtype:
        return NotImplemented
    if isinstance(deviation, float | int) and deviation < 0:
        return NotImplemented  # torch says that there is no such
    shape = _aten.broadcast_tensors(tensors)[0].shape
    drawn = torch.randn(shape, dtype=dtype, device=tensors[0].device)
    return (drawn * deviation + mean).contiguous()


def _uniform(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers that lie as `x`, of which no element is read."""
    if x.is_contiguous():
        return torch.rand(x.shape, dtype=dtype, device=x.device)
    return torch.rand_like(x, dtype=dtype)


def take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Elements of `x` by their row-major number. Of an index without dimensions, torch's
    decomposition asks for the number while it traces."""
    return _aten.index.Tensor(x.reshape(-1), [index])


def put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """`x` with the elements of `source` at their row-major numbers: the gradient of `take`."""
    if not x.is_contiguous():
        return NotImplemented
    places, values = [index.reshape(-1)], source.reshape(-1)
    return _aten.index_put(x.reshape(-1), places, values, accumulate).view(x.shape)


def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """What was at a place of `x` comes `shift` places later in the dimension, or from its begin on.
    By torch's decomposition it is read at an index that is divided for each element."""
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).view(x.shape)
    rolled, stays = x, False
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if is_static(size) and (not size or not shift % size):
            stays = True
            continue
        last = size - shift % size
        parts = [torch.narrow(rolled, dim, last, size - last), torch.narrow(rolled, dim, 0, last)]
        rolled = torch.cat(parts, dim)
    # What stays where it is along a dimension, torch joins to nothing, and that lies in rows.
    return rolled.clone(memory_format=torch.contiguous_format) if stays else rolled


def unfold_backward(
    grad: torch.Tensor, sizes: Sequence[int], dim: int, size: int, step: int
) -> torch.Tensor:
    """The gradient of what windows of `size` were taken from, `step` apart along `dim`: an element
    has a few of them, and what is its gradient in the k-th before the last lies k steps later. By
    torch's decomposition it is added up at an index for each element of each window."""
    if not sizes or not all(map(is_static, (size, step))):
        return NotImplemented
    dim %= len(sizes)
    windows, others = grad.shape[dim], [0, 0] * (len(sizes) - 1 - dim)
    step = size if is_static(windows) and windows == 1 else step
    strides = -(-size // step)
    if strides > MOST_ELEMENTS:
        return NotImplemented
    wide = widened(grad).movedim(-1, dim + 1)
    wide = _aten.constant_pad_nd(wide, [*others, 0, strides * step - size])
    parts: list[torch.Tensor] = []
    for number in range(strides):
        part = torch.narrow(wide, dim + 1, number * step, step).flatten(dim, dim + 1)
        behind = sizes[dim] - (number + windows) * step
        parts.append(_aten.constant_pad_nd(part, [*others, number * step, behind]))
    return sum(parts[1:], parts[0]).to(grad.dtype).contiguous()


# -- masks ---------------------------------------------------------------------------------------


def masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`x` with the elements of `source`, in their order, where the mask says so."""
    if not all(is_static(size) and size for size in source.shape):
        return NotImplemented
    x, mask = _aten.broadcast_tensors([x, mask])
    number, width = _numbered(mask, source.numel())
    taken = torch.index_select(source.reshape(-1, width), 0, number)
    return torch.where(mask, taken.view(mask.shape), x)


def masked_scatter_backward(
    grad: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]
) -> torch.Tensor:
    """The gradient of `source`: each of its elements was read once, or not at all."""
    if not all(is_static(size) and size for size in sizes):
        return NotImplemented
    count = math.prod(sizes)
    grad, mask = _aten.broadcast_tensors([grad, mask])
    number, width = _numbered(mask, count)
    zeros = torch.full([count // width, width], 0, dtype=grad.dtype, device=grad.device)
    given = torch.where(mask, grad, 0).reshape(-1, width)
    return torch.index_add(zeros, 0, number, given).view(sizes)


def _numbered(mask: torch.Tensor, count: int) -> tuple[torch.Tensor, int]:
    """Which row of the source each row of a mask gets, and the width of rows: that of the last
    dimensions along which the mask is expanded, so that whole rows of `count` elements are read."""
    rows, width = mask, 1
    while rows.dim() and rows.stride(-1) == 0 and is_static(rows.shape[-1]) and rows.shape[-1]:
        width *= rows.shape[-1]
        rows = rows.select(-1, 0)
    if count % width:
        rows, width = mask, 1
    return torch.clamp(torch.cumsum(rows.reshape(-1), 0) - 1, min=0), width


# -- complex numbers -----------------------------------------------------------------------------


def angle(z: torch.Tensor) -> torch.Tensor:
    """By its parts: tracing would have it lie as the numbers, torch's kernel writes rows."""
    return torch.atan2(z.imag, z.real) if z.is_complex() else NotImplemented


# -- norms ---------------------------------------------------------------------------------------


def weight_norm(
    v: torch.Tensor, g: torch.Tensor, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """g * v / |v|, and the norms, one for each place of `dim`; also where `v` has no other
    dimension, of which torch's decomposition takes one norm."""
    dtype = torch.float32 if g.dtype is torch.bfloat16 else g.dtype
    others = _others(v, dim)
    norms: torch.Tensor = v.abs().to(dtype)
    if others:
        norms = _aten.linalg_vector_norm(v, 2, others, keepdim=True, dtype=dtype)
    return v * (g / norms.to(g.dtype)), norms


def weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of v and g, of g * v / |v|, with a norm for each place of `dim`."""
    others = _others(v, dim)
    norms, along = norms.view(g.shape), grad * v
    along = (torch.sum(along, others, keepdim=True) if others else along) / norms
    return (g / norms) * (grad - v * (along / norms)), along.to(g.dtype)


def _others(x: torch.Tensor, dim: int) -> list[int]:
    return [each for each in range(x.dim()) if each != dim % x.dim()]


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **placed: Any,
) -> torch.Tensor:
    """Ones where a row has the number of its column. By torch's decomposition the numbers of 256 to
    65535 rows are of a type in which torch itself has no ranges."""
    rows = torch.arange(n, device=device).unsqueeze(-1)
    return (rows == torch.arange(n if m is None else m, device=device)).to(
        dtype or torch.get_default_dtype()
    )


# -- elements ------------------------------------------------------------------------------------


def copysign(x: torch.Tensor, y: torch.Tensor | float) -> torch.Tensor:
    """`x` with the sign of `y`, which zeros and NaN have, too. In torch's decomposition, a sign bit
    is a number."""
    _, dtype = elementwise_dtypes(x, y, type_promotion_kind=_TO_FLOAT)
    if dtype.is_complex:
        return NotImplemented
    size = torch.abs(x.to(dtype))
    if not isinstance(y, torch.Tensor):
        return -size if math.copysign(1, y) < 0 else size
    return torch.where(torch.signbit(y), -size, size)


def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The length of [x, y]; no square overflows. It is infinite where either is, beside NaN too."""
    if not torch.promote_types(x.dtype, y.dtype).is_floating_point:
        return NotImplemented
    x, y = torch.abs(x), torch.abs(y)
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = small / torch.where(large == 0, 1, large)
    length = torch.sqrt(1 + ratio * ratio) * large
    return torch.where(torch.isinf(x) | torch.isinf(y), torch.inf, length)


_MOST_DECIMALS = 22
"""Powers of ten up to this are exact in float64."""


def round_decimals(x: torch.Tensor, *, decimals: int) -> torch.Tensor:
    """Numbers rounded to so many decimals, as torch's kernel does it; of 16 bits, it rounds each
    step of that."""
    if x.dtype not in (torch.float32, torch.float64) or abs(decimals) > _MOST_DECIMALS:
        return NotImplemented
    power = 10.0 ** abs(decimals)
    return torch.round(x * power) / power if decimals >= 0 else torch.round(x / power) * power


COMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.bernoulli.p: bernoulli,
    _aten.bernoulli.Tensor: bernoulli,
    _aten.exponential.default: exponential,
    _aten.normal.Tensor_float: normal,
    _aten.normal.float_Tensor: normal,
    _aten.normal.Tensor_Tensor: normal,
    _aten.take.default: take,
    _aten.put.default: put,
    _aten.roll.default: roll,
    _aten.unfold_backward.default: unfold_backward,
    _aten.masked_scatter.default: masked_scatter,
    _aten.masked_scatter_backward.default: masked_scatter_backward,
    _aten.angle.default: angle,
    _aten._weight_norm_interface.default: weight_norm,
    _aten._weight_norm_interface_backward.default: weight_norm_backward,
    _aten.eye.default: eye,
    _aten.eye.m: eye,
    _aten.copysign.Tensor: copysign,
    _aten.copysign.Scalar: copysign,
    _aten.hypot.default: hypot,
    _aten.round.decimals: round_decimals,
}
"""The decompositions."""
