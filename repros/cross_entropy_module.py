"""CrossEntropyLoss under torch.compile: the published script with `backend="fuser"` added.

The graphs are those that Dynamo and AOTAutograd make: a gather at the end of the forward, a scatter
at the start of the backward. Of the log-probabilities, [512, 32768], nothing is written: the
backward computes them again from each row's maximum and logarithm.

Exits with status 1 if the forward takes more than 2 kernels or writes more than a few numbers a
row, if the backward takes more than 1, or if torch computes anything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from common import check, options, report

from fuser.integrations import dynamo
from fuser.pipeline import Plan

COLUMNS = 32768


class MyMod(torch.nn.Module):
    def __init__(self):
        super(MyMod, self).__init__()  # noqa: UP008
        self.loss_fn = torch.nn.CrossEntropyLoss()

    def forward(self, inputs, targets):
        return self.loss_fn(inputs, targets)


def step(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The loss and the gradient of the scores."""
    scores, targets = inputs
    scores.grad = None
    loss = model(scores, targets)
    loss.backward()
    assert scores.grad is not None
    return [loss.detach(), scores.grad]


def verdict(plans: Sequence[Plan], percent: Sequence[float], rows: int) -> list[str]:
    """What is not as it should be; the plans are those of the forward and the backward."""
    wrong = [f"torch computes {100 - covered:.1f} %" for covered in percent if covered < 100]
    if len(plans) != 2:
        return [*wrong, f"there are {len(plans)} partitions, not one for each direction"]
    there, back = plans
    written = sum(found.bytes_written for found in there.steps)
    if len(there.kernels) + len(there.externs) > 2:
        wrong.append(f"the forward takes {len(there.kernels)} kernels")
    if written > 32 * rows + 64:
        wrong.append(f"the forward writes {written} bytes")
    if len(back.kernels) + len(back.externs) > 1:
        wrong.append(f"the backward takes {len(back.kernels)} kernels")
    return wrong


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=512, small=8, unit=1)
    device = given.device
    backend = {"target": given.target} if given.target else {}
    cp_model = torch.compile(MyMod(), backend="fuser", options=backend)

    inputs = [
        torch.randn(given.rows, COLUMNS, device=device, requires_grad=True),
        torch.randint(0, COLUMNS, (given.rows,), device=device),
    ]

    check(step(cp_model, inputs), step(MyMod(), inputs))
    reports = dynamo.reports()
    plans: list[Plan] = []
    for found in reports:
        print(found)
        for call in found.partitions:
            plans.append(call.plan())
            print(plans[-1], "\n")
    report(
        {"fuser": lambda: step(cp_model, inputs), "eager": lambda: step(MyMod(), inputs)},
        device,
        given.rounds,
    )
    wrong = verdict(plans, [found.percent for found in reports], given.rows)
    if wrong:
        sys.exit(f"WRONG: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
