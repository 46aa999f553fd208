"""XLNet's relative shift under torch.compile, forward and backward.

    x = torch.index_select(x, 3, torch.arange(klen, device=x.device, dtype=torch.long))

is a line of the model. AOTAutograd saves the range for the backward, where it is a tensor like any
other, added to at its elements. On the joint graph it is still seen to be a range: the line becomes
a slice, its gradient a pad.

The backward has two results of different sizes, which are a kernel each: a kernel stores over one
domain. Exits with status 1 if there are more, if an index is read, or if torch computes anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from common import check, options, report

from fuser.integrations import dynamo
from fuser.integrations.partitions.partition_call import PartitionCall

HEADS, LENGTH, SCALE = 12, 128, 0.125


def rel_shift_bnij(x: torch.Tensor, klen: int = -1) -> torch.Tensor:
    """As in transformers."""
    x_size = x.shape
    x = x.reshape(x_size[0], x_size[1], x_size[3], x_size[2])
    x = x[:, :, 1:, :]
    x = x.reshape(x_size[0], x_size[1], x_size[2], x_size[3] - 1)
    return torch.index_select(x, 3, torch.arange(klen, device=x.device, dtype=torch.long))


def scores(ac: torch.Tensor, bd: torch.Tensor) -> torch.Tensor:
    """Scores by content and by position -> scaled scores."""
    return (ac + rel_shift_bnij(bd, ac.shape[3])) * SCALE


def step(function: object, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The scores and both gradients."""
    ac, bd, gradient = inputs
    ac.grad = bd.grad = None
    result = function(ac, bd)  # pyright: ignore
    result.backward(gradient)
    return [result.detach(), ac.grad, bd.grad]  # pyright: ignore


def verdict(calls: Sequence[PartitionCall], percent: Sequence[float]) -> list[str]:
    """What is not as it should be; the partitions are those of the forward and the backward."""
    wrong = [f"torch computes {100 - covered:.1f} %" for covered in percent if covered < 100]
    if len(calls) != 2:
        wrong.append(f"there are {len(calls)} partitions, not one for each direction")
    for call in calls:
        plan, stored = call.plan(), len(call.module.graph.output_node().args[0])  # pyright: ignore
        if plan.externs or len(plan.kernels) > stored:
            wrong.append(f"{call.__name__} takes {len(plan.kernels)} kernels and torch")
        if "Int" in str(call.definition).partition("ops")[0]:
            wrong.append(f"{call.__name__} reads an index")
    return wrong


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=32, small=1, unit=1)
    backend = {"target": given.target} if given.target else {}
    compiled = torch.compile(scores, backend="fuser", options=backend)
    kept = [given.rows, HEADS, LENGTH, LENGTH]
    ac, bd = torch.randn(kept), torch.randn([*kept[:3], 2 * LENGTH])
    inputs = [x.to(given.device).requires_grad_() for x in (ac, bd)]
    inputs.append(torch.randn(kept, device=given.device))

    check(step(compiled, inputs), step(scores, inputs))
    reports = dynamo.reports()
    calls = [call for found in reports for call in found.partitions]
    for found in reports:
        print(found)
    for call in calls:
        print(f"{call.__name__}: {call.plan()}\n")
    report(
        {"fuser": lambda: step(compiled, inputs), "eager": lambda: step(scores, inputs)},
        given.device,
        given.rounds,
    )
    wrong = verdict(calls, [found.percent for found in reports])
    if wrong:
        sys.exit(f"WRONG: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
