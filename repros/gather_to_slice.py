"""XLNet's relative shift: an index_select by a range is a slice, and its gradient no addition.

    x = torch.index_select(x, 3, torch.arange(klen, device=x.device, dtype=torch.long))

Around it are a view, a slice and a view, and after it the two halves of the attention score are
added and scaled. In the backward, a gradient of full size is zeroed and added to at the indices;
ONNX Runtime, which found this, took 46.1 ms for it and 0.68 ms once it was a slice.

Beside our plans stand those of the same definitions under nvFuser's rules. nvFuser is not run: a
`segment_set` stands where its rules cut, and our own planner plans what is left.

- The range is an index like any other: its `segment_set` keeps it from being taken for a slice. In
  nvFuser an index_select need not have it in memory; here its few bytes are written, so that one
  more segment is counted than nvFuser would have. The forward moves the same in both.
- The data of an index_select must be an input of its segment. The view, slice and view before it
  are metadata of an input, and free in both.
- Adding at indices is run by torch, in a segment of its own, with its operands in memory: zeros of
  the gradient's size, too.

Exits with status 1 if the forward or the backward is not one kernel.
"""

from __future__ import annotations

import math
import sys

import torch
from common import (
    Cut,
    Graph,
    brief,
    check,
    compare_plans,
    define,
    options,
    plan_for,
    report,
    segments,
    uncut,
)

from fuser import DataType, FusionDefinition
from fuser.pipeline import Plan
from fuser.segmenter import byte_count

HEADS, LENGTH = 12, 128
SCALE = 0.125


def shapes(batch: int) -> list[list[int]]:
    """Of the scores by position, as they come, with rows shifted, and of what is kept of them."""
    return [
        [batch, HEADS, LENGTH, 2 * LENGTH],
        [batch, HEADS, 2 * LENGTH, LENGTH],
        [batch, HEADS, LENGTH, 2 * LENGTH - 1],
        [batch, HEADS, LENGTH, LENGTH],
    ]


def forward(batch: int) -> Graph:
    """(scores by content, scores by position) -> scores."""
    whole, turned, shifted, kept = shapes(batch)

    def build(fd: FusionDefinition, cut: Cut = uncut) -> None:
        ac = fd.define_tensor(shape=kept, contiguity=True)
        bd = fd.define_tensor(shape=whole, contiguity=True)
        x = fd.ops.reshape(bd, turned)
        x = fd.ops.slice(x, [0, 0, 1, 0], turned)
        x = fd.ops.reshape(x, shifted)
        indices = cut(fd.ops.iota(LENGTH, dtype=DataType.Int))
        x = fd.ops.index_select(x, indices, dim=3)
        fd.add_output(fd.ops.mul(fd.ops.add(ac, x), SCALE))

    return build


def backward(batch: int) -> Graph:
    """Gradient of the scores -> gradient of those by position; by content it is only scaled."""
    whole, _, shifted, kept = shapes(batch)

    def build(fd: FusionDefinition, cut: Cut = uncut) -> None:
        gradient = fd.define_tensor(shape=kept, contiguity=True)
        scaled = cut(fd.ops.mul(gradient, SCALE))
        zeros = cut(fd.ops.full(shifted, 0.0, DataType.Float))
        indices = cut(fd.ops.iota(LENGTH, dtype=DataType.Int))
        x = fd.ops.index_add(zeros, indices, scaled, dim=3)
        x = fd.ops.reshape(x, [batch, HEADS, 2 * LENGTH - 1, LENGTH])
        x = fd.ops.pad(x, [0, 0, 1, 0])
        fd.add_output(fd.ops.reshape(x, whole))

    return build


def eager_forward(ac: torch.Tensor, bd: torch.Tensor) -> torch.Tensor:
    """As in the model."""
    _, turned, shifted, kept = shapes(len(bd))
    x = bd.reshape(turned)
    x = x[:, :, 1:, :].reshape(shifted)
    x = torch.index_select(x, 3, torch.arange(kept[3], device=x.device, dtype=torch.long))
    return (ac + x) * SCALE


def eager_backward(gradient: torch.Tensor) -> torch.Tensor:
    """As autograd runs it."""
    whole, turned, shifted, kept = shapes(len(gradient))
    indices = torch.arange(kept[3], device=gradient.device, dtype=torch.long)
    x = gradient.new_zeros(shifted).index_add(3, indices, gradient * SCALE)
    padded = gradient.new_zeros(turned)
    padded[:, :, 1:, :] = x.reshape([*turned[:2], turned[2] - 1, turned[3]])
    return padded.reshape(whole)


def summary(name: str, plan: Plan, ratio: float) -> str:
    """What a plan takes, and what eager torch took beside it in this run."""
    moved = f"{byte_count(plan.bytes_moved)} moved"
    beside = "" if math.isnan(ratio) else f", eager torch takes {ratio:.1f} times as long"
    return f"{name}: {segments(plan)} kernel(s), {moved}{beside}"


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=32, small=1, unit=1)
    batch, device, target = given.rows, given.device, given.target
    whole, _, _, kept = shapes(batch)
    scores = [torch.randn(shape, device=device) for shape in (kept, whole)]
    gradient = [torch.randn(kept, device=device)]
    there, back = define(forward(batch)), define(backward(batch))
    check(there.execute(scores, target=target), [eager_forward(*scores)])
    check(back.execute(gradient, target=target), [eager_backward(*gradient)])

    made: dict[str, Plan] = {}
    cases = {"forward": (forward(batch), scores), "backward": (backward(batch), gradient)}
    for name, (graph, inputs) in cases.items():
        ours, theirs = (plan_for(graph, cut, inputs, target) for cut in (False, True))
        made |= {name: ours, f"{name}, nvFuser's cuts": theirs}
        print(f"{name}: {ours}\n\nwith nvFuser's cuts:\n{brief(theirs)}\n")
    print(compare_plans(made) + "\n")
    calls = {
        "forward": (lambda: there.execute(scores, target=target), lambda: eager_forward(*scores)),
        "backward": (
            lambda: back.execute(gradient, target=target),
            lambda: eager_backward(*gradient),
        ),
    }
    measured: dict[str, float] = {}
    for name, (ours, eager) in calls.items():
        candidates = {f"fuser, {name}": ours, f"eager, {name}": eager}
        measured[name] = report(candidates, device, given.rounds).get(f"eager, {name}", math.nan)
    print()
    for name in cases:
        print(summary(name, made[name], measured[name]))
    wrong = [name for name in cases if segments(made[name]) != 1]
    if wrong:
        sys.exit(f"WRONG: not one kernel: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
