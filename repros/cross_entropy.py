"""Cross entropy, forward and backward, as torch.compile hands it over: one kernel each.

The forward ends in a gather: the log-probabilities, 1 GB for a large vocabulary, need never be
written where only the loss is wanted. The backward scatters one value into each row of zeros, which
is a comparison.

Beside our plans stand those of the same definitions under nvFuser's rules. nvFuser is not run: a
`segment_set` stands where its rules cut, and our own planner plans what is left.

- The data of a gather must be an input of its segment, so what computes it is cut off before.
- torch's gather, where the index is smaller than the data, is taken by no scheduler: torch runs it
  in a segment of its own, so its index and its result are cut too.
- So it is with a scatter whose index is smaller than the data; even the zeros are written for it.

What these cuts leave is merged as far as our planner can, which is further than nvFuser would go:
it does not put independent chains into one kernel. A segment there may be a kernel or a
call of torch.

Exits with status 1 if the loss alone takes more than 2 kernels or writes more than vectors of one
element a row, or if the backward takes more than 1 kernel.
"""

from __future__ import annotations

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
from torch.nn import functional

from fuser import DataType, FusionDefinition
from fuser.pipeline import Plan

COLUMNS = 32768
IGNORED = -100


# -- the published graphs, operation by operation ------------------------------------------------


def forward(fd: FusionDefinition, cut: Cut = uncut, loss_only: bool = True) -> None:
    primals_1 = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
    primals_2 = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
    amax = fd.ops.max(primals_1, [1], keepdim=True)
    sub = fd.ops.sub(primals_1, amax)
    exp = fd.ops.exp(sub)
    sum_1 = fd.ops.sum(exp, [1], keepdim=True)
    log = fd.ops.log(sum_1)
    sub_1 = cut(fd.ops.sub(sub, log))
    ne = fd.ops.ne(primals_2, IGNORED)
    where = fd.ops.where(ne, primals_2, 0)
    unsqueeze = fd.ops.broadcast(where, [False, True])
    gather = cut(fd.ops.gather(sub_1, cut(unsqueeze), dim=1))
    squeeze = fd.ops.squeeze(gather, [1])
    neg = fd.ops.neg(squeeze)
    where_1 = fd.ops.where(ne, neg, 0.0)
    sum_2 = fd.ops.sum(ne)
    convert_element_type = fd.ops.cast(sum_2, dtype=DataType.Float)
    sum_3 = fd.ops.sum(where_1)
    div = fd.ops.truediv(sum_3, convert_element_type)
    fd.add_output(div)
    if not loss_only:
        for saved in (primals_2, sub_1, convert_element_type):
            fd.add_output(saved)


def backward(fd: FusionDefinition, cut: Cut = uncut) -> None:
    primals_2 = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
    sub_1 = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
    convert_element_type = fd.define_tensor(shape=[], dtype=DataType.Float)
    tangents_1 = fd.define_tensor(shape=[], dtype=DataType.Float)
    div_1 = fd.ops.truediv(tangents_1, convert_element_type)
    unsqueeze_1 = fd.ops.broadcast(primals_2, [False, True])
    ne_3 = fd.ops.ne(unsqueeze_1, IGNORED)
    where_2 = fd.ops.where(ne_3, unsqueeze_1, 0)
    full_like = fd.ops.full(fd.ops.shape(sub_1), 0.0, DataType.Float)
    scatter = cut(fd.ops.scatter(cut(full_like), cut(where_2), -1.0, dim=1))
    where_3 = fd.ops.where(ne_3, div_1, 0.0)
    mul = fd.ops.mul(scatter, where_3)
    exp_1 = fd.ops.exp(sub_1)
    sum_4 = fd.ops.sum(mul, [1], keepdim=True)
    mul_1 = fd.ops.mul(exp_1, sum_4)
    sub_2 = fd.ops.sub(mul, mul_1)
    fd.add_output(sub_2)


# -- torch, operation by operation ---------------------------------------------------------------


def eager_forward(primals_1: torch.Tensor, primals_2: torch.Tensor) -> list[torch.Tensor]:
    """[loss, targets, log-probabilities, how many targets count]."""
    sub = primals_1 - primals_1.amax([1], True)
    sub_1 = sub - sub.exp().sum([1], True).log()
    ne = primals_2 != IGNORED
    where = torch.where(ne, primals_2, 0)
    losses = -sub_1.gather(1, where.unsqueeze(1)).squeeze(1)
    count = ne.sum().float()
    return [torch.where(ne, losses, 0.0).sum() / count, primals_2, sub_1, count]


def eager_backward(
    primals_2: torch.Tensor, sub_1: torch.Tensor, count: torch.Tensor, tangents_1: torch.Tensor
) -> torch.Tensor:
    """The gradient of the logits."""
    target = primals_2.unsqueeze(1)
    ne = target != IGNORED
    scatter = torch.zeros_like(sub_1).scatter(1, torch.where(ne, target, 0), -1.0)
    mul = scatter * torch.where(ne, tangents_1 / count, 0.0)
    return mul - sub_1.exp() * mul.sum([1], True)


# -- plans ---------------------------------------------------------------------------------------


def forward_saving(fd: FusionDefinition, cut: Cut = uncut) -> None:
    forward(fd, cut, loss_only=False)


def verdict(made: dict[str, Plan], rows: int) -> list[str]:
    """What is not as it should be."""
    loss, back = made["forward, loss only"], made["backward"]
    written = sum(step.bytes_written for step in loss.steps)
    most = rows * (4 + 8 + 1) + 64  # losses, indices, which of them count; a few scalars
    wrong: list[str] = []
    if segments(loss) > 2:
        wrong.append(f"the loss takes {segments(loss)} segments")
    if written > most:
        wrong.append(f"the loss writes {written} bytes, more than {most}")
    if segments(back) > 1:
        wrong.append(f"the backward takes {segments(back)} segments")
    return wrong


def main() -> None:
    given = options((__doc__ or "").partition("\n\n")[0], full=512, small=8, unit=1)
    device, target = given.device, given.target
    logits = torch.randn(given.rows, COLUMNS, device=device)
    targets = torch.randint(0, COLUMNS, (given.rows,), device=device)
    targets[::7] = IGNORED
    inputs = [logits, targets]
    expected = eager_forward(*inputs)
    saved = [*expected[1:], torch.ones((), device=device)]

    loss, everything, back = map(define, (forward, forward_saving, backward))
    check(loss.execute(inputs, target=target), expected[:1])
    check(everything.execute(inputs, target=target), expected)
    check(back.execute(saved, target=target), [eager_backward(*saved)])
    graphs: dict[str, tuple[Graph, list[torch.Tensor]]] = {
        "forward, loss only": (forward, inputs),
        "forward, all outputs": (forward_saving, inputs),
        "backward": (backward, saved),
    }
    made: dict[str, Plan] = {}
    for name, (graph, tensors) in graphs.items():
        ours, theirs = (plan_for(graph, cut, tensors, target) for cut in (False, True))
        made |= {name: ours, f"{name}, nvFuser's cuts": theirs}
        print(f"{name}: {ours}\n\nwith nvFuser's cuts:\n{brief(theirs)}\n")
    print(compare_plans(made) + "\n")
    report(
        {
            "fuser, forward": lambda: loss.execute(inputs, target=target),
            "eager, as written": lambda: eager_forward(*inputs)[0],
            "eager, F.cross_entropy": lambda: functional.cross_entropy(*inputs),
        },
        device,
        given.rounds,
    )
    report(
        {
            "fuser, backward": lambda: back.execute(saved, target=target),
            "eager, as written": lambda: eager_backward(*saved),
        },
        device,
        given.rounds,
    )
    wrong = verdict(made, given.rows)
    if wrong:
        sys.exit(f"WRONG: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
