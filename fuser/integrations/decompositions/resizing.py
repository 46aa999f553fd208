"""Resized images as one-dimensional interpolations, one dimension after the other.

    interpolate(x, mode="bilinear")   ->   resized along the width, then along the height

torch decomposes these to all products of what each dimension reads: 4 neighbours of a bilinear
image, 16 of a bicubic one, each with both of its weights, and as many sums over places in the
gradient. Weights of a dimension are the same all along the others, so the results are the same,
with 2 and 4 neighbours in each dimension.

Of whole numbers and open sizes, lines that take their nearest elements are torch's decomposition,
whose result would lie as `x`: torch's kernel writes rows.

This is done to Dynamo's graph: torch decomposes before a table of decompositions is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.fx import GraphModule, Node
from torch.nn import functional

from fuser.integrations.decompositions.interpolation import Cubic, Line, Linear, Nearest, resized
from fuser.integrations.fx.nodes import is_static

_MODES = {
    **dict.fromkeys(("linear", "bilinear", "trilinear"), Linear),
    **dict.fromkeys(("nearest", "nearest-exact"), Nearest),
    "bicubic": Cubic,
}
_SIGNATURE = inspect.signature(functional.interpolate)


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


def nearest_line(*operands: Any, **options: Any) -> torch.Tensor:
    return functional.interpolate(*operands, **options).contiguous()


def _is_nearest_line(node: Node) -> bool:
    options = _SIGNATURE.bind(*node.args, **node.kwargs).arguments
    after = node.meta.get("example_value")
    is_line = isinstance(after, torch.Tensor) and after.dim() == 3
    return is_line and options.get("mode", "nearest") in ("nearest", "nearest-exact")


def _resizes(node: Node) -> tuple[Node, tuple[Line, ...]] | None:
    """The image, and its dimensions, the last one first; None if it is not for us."""
    given = _SIGNATURE.bind(*node.args, **node.kwargs)
    given.apply_defaults()
    options: Mapping[str, Any] = given.arguments
    image, mode = options["input"], options["mode"]
    if mode not in _MODES or options["antialias"] or not isinstance(image, Node):
        return None
    before, after = (each.meta.get("example_value") for each in (image, node))
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return None
    if is_functorch_wrapped_tensor(before):  # transforms have rules for what torch traces
        return None
    sizes = [*before.shape[2:], *after.shape[2:]]
    if not before.is_floating_point() or not all(map(is_static, sizes)):
        return None
    scales = _scales(options, before.dim() - 2)
    if scales is None:
        return None
    kind, detail = _MODES[mode], bool(options["align_corners"] or mode == "nearest-exact")
    lines: list[Line] = []
    for dim in range(before.dim() - 1, 1, -1):
        # Where sizes are open, one that is known is a symbolic number still.
        size, new = int(before.shape[dim]), int(after.shape[dim])
        step = _step(size, new, scales[dim - 2], align_corners=bool(options["align_corners"]))
        lines.append(kind(dim, size, new, step, detail))
    return image, tuple(lines)


def _step(size: int, new: int, scale: float | None, *, align_corners: bool) -> float:
    """How far apart `new` elements lie among those of `size`: by the factor that the caller gave,
    or else by the sizes."""
    if align_corners:
        return (size - 1) / (new - 1) if new > 1 else 0.0
    return 1 / scale if scale else size / new


def _scales(options: Mapping[str, Any], rank: int) -> Sequence[float | None] | None:
    """The factors that decide where elements lie, by dimension; None if a graph makes them."""
    given = options["scale_factor"]
    if given is None or options["recompute_scale_factor"]:
        return [None] * rank
    factors = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given] * rank)
    if not all(isinstance(factor, float | int) for factor in factors):
        return None
    return [float(factor) for factor in factors]
