"""Where numbers belong in sorted ones, by halves: a gather and choices for each.

    first, last = 0, n
    for each half:     middle = (first + last) / 2
                       ends[middle] < x   ->   first = middle + 1, else last = middle

torch's loop does so for one number after the other, and branches at each half.
"""

from __future__ import annotations

from typing import Any

import torch

from fuser.integrations.fx.nodes import is_static

_aten: Any = torch.ops.aten

MOST_ENDS = 1 << 16
"""Of more, who asks waits for memory."""


def bucketize(
    x: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    """How many boundaries are below each element; with `right`, those that equal it count too."""
    if boundaries.dim() != 1:
        return NotImplemented
    return _searched(boundaries, x, out_int32, right)


def searchsorted(
    sorted_sequence: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same, of one sequence for all elements, or of one for each row of them."""
    if sorter is not None or (right and side == "left"):
        return NotImplemented
    return _searched(sorted_sequence, x, out_int32, right or side == "right")


def _searched(ends: torch.Tensor, x: torch.Tensor, out_int32: bool, right: bool) -> torch.Tensor:
    """By torch's own halves, which decide where ends are in no order, as those that are NaN."""
    count = ends.shape[-1] if ends.dim() else 0
    if not is_static(count) or not 0 < count <= MOST_ENDS or ends.dtype != x.dtype:
        return NotImplemented
    if x.dtype in (torch.bfloat16, torch.float16):  # partitions would not round what they compare
        return NotImplemented
    first = torch.zeros_like(x, dtype=torch.int64, memory_format=torch.contiguous_format)
    last = torch.full_like(first, count)
    for _ in range(int(count).bit_length()):
        middle = (first + last) >> 1
        at = torch.clamp(middle, max=count - 1)
        end = _aten.index.Tensor(ends, [at]) if ends.dim() == 1 else torch.gather(ends, -1, at)
        passes = torch.logical_not(end > x if right else end >= x)
        passes = torch.logical_and(passes, first < last)
        first = torch.where(passes, middle + 1, first)
        last = torch.where(passes, last, middle)
    return first.to(torch.int32) if out_int32 else first


SEARCHES: dict[Any, Any] = {
    _aten.bucketize.Tensor: bucketize,
    _aten.searchsorted.Tensor: searchsorted,
}
"""The decompositions."""
