"""Steps that read their neighbours: simulations, images and recurrences, as eager has them.

They are kernels of a step or a few, whose pieces are loops of their own: none looks for what it
reads element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from step_cases import (
    advantages,
    heat,
    lattice_boltzmann,
    life,
    soft_warping,
    unsharp_mask,
    waves,
)

from fuser.integrations import dynamo
from fuser.ir.nodes import Fusion
from fuser.runtime.plans.plan import Plan
from fuser.runtime.plans.watching import PLANS


def dilated(x: torch.Tensor) -> torch.Tensor:
    """Less what is eroded, by windows of three."""
    windows = F.unfold(x[None], 3, padding=1).view(9, *x.shape[1:])
    return windows.amax(0) - windows.amin(0)


def windows_of_both(x: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.arange(5)[:, None] + torch.arange(20), torch.arange(3)[:, None]
    return x[rows[:, :, None, None], columns + torch.arange(38)].exp()


CASES: dict[str, tuple[Callable[..., torch.Tensor], Sequence[tuple[int, ...]]]] = {
    "heat": (heat, [(24, 40)]),
    "life": (life, [(24, 40)]),
    "lattice": (lattice_boltzmann, [(9, 12, 20)]),
    "waves": (waves, [(24, 40), (24, 40)]),
    "sharpened": (unsharp_mask, [(1, 2, 20, 24)]),
    "recurrence": (advantages, [(64, 33), (64, 33)]),
    "warped": (soft_warping, [(4, 4, 50)]),
    "dilated": (dilated, [(1, 24, 40)]),
    "windows of both": (windows_of_both, [(24, 40)]),
}


FOLDED = ("dilated",)
"""Kernels of rows, whose lanes are read one by one at the edges."""


def weighted(y: torch.Tensor) -> torch.Tensor:
    return y * torch.linspace(0, 1, y.shape[-1])


def drawn(name: str) -> list[torch.Tensor]:
    tensors = [torch.rand(shape) for shape in CASES[name][1]]
    return [x.round() for x in tensors] if name == "life" else tensors


@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_read_in_pieces(name: str) -> None:
    step, given = CASES[name][0], drawn(name)
    dynamo.clear_reports()
    texts: list[str] = []

    def add(_: Fusion, plan: Plan) -> None:
        texts.extend(kernel.source for kernel in plan.kernels)

    with PLANS.watching(add):
        found = torch.compile(step, backend="fuser", dynamic=False)(*given)
    torch.testing.assert_close(found, step(*given), rtol=1e-4, atol=1e-5)
    assert {report.percent for report in dynamo.reports()} == {100.0}
    assert texts
    assert name in FOLDED or not any("clamped" in text for text in texts)


NOT_TRAINED = ("life", "warped", "dilated")


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_TRAINED])
def test_gradients_of_steps_are_eagers(name: str) -> None:
    step, given = CASES[name][0], drawn(name)
    found: list[tuple[torch.Tensor, ...]] = []
    for run in (step, torch.compile(step, backend="fuser", dynamic=False)):
        trained = [x.clone().requires_grad_() for x in given]
        found.append(torch.autograd.grad(weighted(run(*trained)).sum(), trained))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
