"""Steps that read their neighbours: simulations, images and recurrences, as eager has them.

They are kernels of a step or a few, whose pieces are loops of their own: none looks for what it
reads element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo
from fuser.ir.nodes import Fusion
from fuser.runtime.plan import Plan
from fuser.runtime.watching import PLANS

DIRECTIONS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


def heat(u: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        beside = [u.roll(by, dim) for by in (-1, 1) for dim in (0, 1)]
        u = u + 0.1 * (sum(beside) - 4 * u)
    return u


def life(u: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        count = sum(u.roll(by, (0, 1)) for by in DIRECTIONS[1:])
        u = ((count == 3) | ((count == 2) & (u == 1))).to(u.dtype)
    return u


def lattice(f: torch.Tensor) -> torch.Tensor:
    """Two steps of Boltzmann's equation, of nine directions."""
    for _ in range(2):
        f = torch.stack([f[n].roll(by, (0, 1)) for n, by in enumerate(DIRECTIONS)])
        total = f.sum(0)
        along = [sum(by[d] * f[n] for n, by in enumerate(DIRECTIONS)) / total for d in (0, 1)]
        ahead = [by[0] * along[0] + by[1] * along[1] for by in DIRECTIONS]
        f = f - 0.5 * (f - torch.stack([total / 9 * (1 + 3 * a + 4.5 * a * a) for a in ahead]))
    return f


def waves(u: torch.Tensor) -> torch.Tensor:
    v = torch.zeros_like(u)
    for _ in range(3):
        p = F.pad(u, (1, 1, 1, 1))
        v = v + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
        u = u + 0.1 * v
    return u


def sharpened(image: torch.Tensor) -> torch.Tensor:
    p = F.pad(image[None], (2, 2, 2, 2), mode="reflect")[0]
    rows = sum(w * p[:, n : n + 24] for n, w in enumerate((1, 4, 6, 4, 1))) / 16
    both = sum(w * rows[n : n + 20] for n, w in enumerate((1, 4, 6, 4, 1))) / 16
    return (image + 0.5 * (image - both)).clamp(0, 1)


def recurrence(x: torch.Tensor) -> torch.Tensor:
    """More steps side by side than a kernel may be cut into pieces by one pad after the other."""
    state, states = torch.zeros_like(x[0]), list[torch.Tensor]()
    for step in x:
        state = 0.9 * state + step.sigmoid()
        states.append(state)
    return torch.stack(states)


def warped(x: torch.Tensor) -> torch.Tensor:
    """The cost of the cheapest way through a table, cell after cell."""
    cells: dict[tuple[int, int], torch.Tensor] = {}
    far = torch.full_like(x[0, 0], 1e8)
    for i in range(4):
        for j in range(4):
            before = [cells.get(at, far) for at in ((i - 1, j), (i, j - 1), (i - 1, j - 1))]
            least = (
                torch.zeros_like(far) if i == j == 0 else -torch.stack(before).neg().logsumexp(0)
            )
            cells[i, j] = x[i, j] + least
    return cells[3, 3]


def dilated(x: torch.Tensor) -> torch.Tensor:
    """Less what is eroded, by windows of three."""
    windows = F.unfold(x[None], 3, padding=1).view(9, *x.shape[1:])
    return windows.amax(0) - windows.amin(0)


def windows_of_both(x: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.arange(5)[:, None] + torch.arange(20), torch.arange(3)[:, None]
    return x[rows[:, :, None, None], columns + torch.arange(38)].exp()


CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Sequence[int]]] = {
    "heat": (heat, (24, 40)),
    "life": (life, (24, 40)),
    "lattice": (lattice, (9, 12, 20)),
    "waves": (waves, (24, 40)),
    "sharpened": (sharpened, (20, 24)),
    "recurrence": (recurrence, (40, 33)),
    "warped": (warped, (4, 4, 50)),
    "dilated": (dilated, (1, 24, 40)),
    "windows of both": (windows_of_both, (24, 40)),
}


FOLDED = ("dilated",)
"""Kernels of rows, whose lanes are read one by one at the edges."""


def weighted(y: torch.Tensor) -> torch.Tensor:
    return y * torch.linspace(0, 1, y.shape[-1])


@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_read_in_pieces(name: str) -> None:
    step, shape = CASES[name]
    x = torch.rand(shape)
    if name == "life":
        x = x.round()
    dynamo.clear_reports()
    texts: list[str] = []

    def add(_: Fusion, plan: Plan) -> None:
        texts.extend(kernel.source for kernel in plan.kernels)

    with PLANS.watching(add):
        found = torch.compile(step, backend="fuser", dynamic=False)(x)
    torch.testing.assert_close(found, step(x), rtol=1e-4, atol=1e-5)
    assert {report.percent for report in dynamo.reports()} == {100.0}
    assert texts
    assert name in FOLDED or not any("clamped(" in text for text in texts)


NOT_TRAINED = ("life", "warped", "dilated")


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_TRAINED])
def test_gradients_of_steps_are_eagers(name: str) -> None:
    step, shape = CASES[name]
    x = torch.rand(shape)
    grads = []
    for run in (step, torch.compile(step, backend="fuser", dynamic=False)):
        given = x.clone().requires_grad_()
        grads += torch.autograd.grad(weighted(run(given)).sum(), given)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)
