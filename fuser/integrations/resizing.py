"""Resized images as one-dimensional interpolations, one dimension after the other.

    interpolate(x, mode="bilinear")   ->   resized along the width, then along the height

torch decomposes these to all products of what each dimension reads: 4 neighbours of a bilinear
image, 16 of a bicubic one, each with both of its weights, and as many sums over places in the
gradient. Weights of a dimension are the same all along the others, so the results are the same,
with 2 and 4 neighbours in each dimension.

Lines that take their nearest elements stay torch's decomposition, whose result would lie as `x`:
torch's kernel writes rows.

This is done to Dynamo's graph: torch decomposes before a table of decompositions is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional

from fuser.integrations.fx_types import is_static

_aten: Any = torch.ops.aten

_MODES = ("linear", "bilinear", "trilinear", "bicubic")
_CUBIC_A = -0.75
"""The free coefficient of the cubic convolution, as torch has it."""

_SIGNATURE = inspect.signature(functional.interpolate)


@dataclass(frozen=True, slots=True)
class Resize:
    """One dimension of an image: `size` becomes `resized`.

    `scale` is the factor that the caller gave, if it decides where elements lie; None where the two
    sizes do. With `align_corners` the first and the last elements of both coincide.
    """

    dim: int
    size: int
    resized: int
    scale: float | None
    align_corners: bool

    @property
    def step(self) -> float:
        """How far apart neighbours of the result lie in the image, in its elements."""
        if self.align_corners:
            return (self.size - 1) / (self.resized - 1) if self.resized > 1 else 0.0
        return 1 / self.scale if self.scale else self.size / self.resized

    @property
    def changes(self) -> bool:
        return self.size != self.resized or self.step != 1

    def places(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """[resized]: where each element of the result lies in the image."""
        numbers = torch.arange(self.resized, device=device).to(dtype)
        return self.step * numbers if self.align_corners else self.step * (numbers + 0.5) - 0.5

    def weight(self, past: torch.Tensor, rank: int) -> torch.Tensor:
        """How far elements are past a neighbour, [resized], as a factor of tensors of `rank`."""
        return past.clamp(0.0, 1.0).reshape(-1, *[1] * (rank - 1 - self.dim))


def separate_resizes(module: GraphModule) -> None:
    """Replace the calls of `interpolate` in a graph of Dynamo whose sizes are known."""
    calls = module.graph.find_nodes(op="call_function", target=functional.interpolate)
    for node in calls:
        resizes = _resizes(node)
        if resizes is not None:
            node.target, node.args, node.kwargs = resized, resizes, {}
        elif _is_nearest_line(node):
            node.target = nearest_line
    if calls:
        module.recompile()


def _is_nearest_line(node: Node) -> bool:
    options = _SIGNATURE.bind(*node.args, **node.kwargs).arguments
    after = node.meta.get("example_value")
    is_line = isinstance(after, torch.Tensor) and after.dim() == 3
    return is_line and options.get("mode", "nearest") in ("nearest", "nearest-exact")


def _resizes(node: Node) -> tuple[Node, str, tuple[Resize, ...]] | None:
    """The image, the mode, and its dimensions, the last one first; None if it is not for us."""
    given = _SIGNATURE.bind(*node.args, **node.kwargs)
    given.apply_defaults()
    options: Mapping[str, Any] = given.arguments
    image, mode = options["input"], options["mode"]
    if mode not in _MODES or options["antialias"] or not isinstance(image, Node):
        return None
    before, after = (each.meta.get("example_value") for each in (image, node))
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return None
    sizes = [*before.shape[2:], *after.shape[2:]]
    if not before.is_floating_point() or not all(map(is_static, sizes)):
        return None
    scales = _scales(options, before.dim() - 2)
    if scales is None:
        return None
    align = bool(options["align_corners"])
    dims = range(before.dim() - 1, 1, -1)
    # Where sizes are open, one that is known is a symbolic number still.
    made = (
        Resize(d, int(before.shape[d]), int(after.shape[d]), scales[d - 2], align) for d in dims
    )
    return image, mode, tuple(made)


def _scales(options: Mapping[str, Any], rank: int) -> Sequence[float | None] | None:
    """The factors that decide where elements lie, by dimension; None if a graph makes them."""
    given = options["scale_factor"]
    if given is None or options["recompute_scale_factor"]:
        return [None] * rank
    factors = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given] * rank)
    if not all(isinstance(factor, float | int) for factor in factors):
        return None
    return [float(factor) for factor in factors]


# -- what is traced ------------------------------------------------------------------------------


def resized(x: torch.Tensor, mode: str, resizes: Sequence[Resize]) -> torch.Tensor:
    """`x` [batch, channels, ...] with other sizes; what has 16 bits is computed in float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    along = _cubic if mode == "bicubic" else _linear
    made = x.to(wide)
    for resize in resizes:
        if resize.changes:
            made = along(made, resize)
    layout = torch.channels_last if _is_channels_last(x) else torch.contiguous_format
    return made.to(x.dtype).contiguous(memory_format=layout)


def nearest_line(*operands: Any, **options: Any) -> torch.Tensor:
    return functional.interpolate(*operands, **options).contiguous()


def _is_channels_last(x: torch.Tensor) -> bool:
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return last and not x.is_contiguous()


def _linear(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    at = resize.places(x.dtype, x.device).clamp(min=0.0)
    lower = at.to(torch.int64)
    one, other = (_taken(x, resize, lower + step) for step in (0, 1))
    return one + (other - one) * resize.weight(at - lower, x.dim())


def _cubic(x: torch.Tensor, resize: Resize) -> torch.Tensor:
    """By the convolution of Keys (1981) with four neighbours."""
    at = resize.places(x.dtype, x.device)
    lower = at.floor().to(torch.int64)
    past = resize.weight(at - lower, x.dim())
    weights = _far(past + 1), _near(past), _near(1 - past), _far(2 - past)
    first, *others = (
        _taken(x, resize, lower + step) * weight
        for step, weight in zip((-1, 0, 1, 2), weights, strict=True)
    )
    for other in others:
        first = first + other
    return first


def _near(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance of up to 1."""
    return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    """The weight of a neighbour at a distance from 1 to 2."""
    return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A


def _taken(x: torch.Tensor, resize: Resize, places: torch.Tensor) -> torch.Tensor:
    """The elements at `places` along a dimension, the nearest where these are out of range."""
    places = places.clamp(0, resize.size - 1)
    return _aten._unsafe_index(x, [*[None] * resize.dim, places])
