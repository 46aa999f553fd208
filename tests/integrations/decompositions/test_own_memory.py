"""Results that are no tensor of the caller's, where nothing is left to compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

_X = torch.arange(24.0).view(1, 2, 3, 4)

NOTHING_LEFT: list[Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]] = [
    lambda x: F.max_pool2d(x, 1),
    lambda x: F.max_pool2d(x, 1, return_indices=True),
    lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    lambda x: torch.channel_shuffle(x, 1),
    lambda x: torch.native_dropout(x, 0.0, True),
    lambda x: F.interpolate(x, size=(3, 4), mode="bilinear"),
    lambda x: F.interpolate(x, size=(3, 4), mode="nearest"),
]


@pytest.mark.parametrize("number", range(len(NOTHING_LEFT)))
def test_a_result_can_be_written_to(number: int) -> None:
    x = _X.clone()
    made = torch.compile(NOTHING_LEFT[number], backend="fuser")(x)
    result = made if isinstance(made, torch.Tensor) else made[0]
    result.zero_()
    assert torch.equal(x, _X)


def test_results_of_one_operation_are_apart() -> None:
    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, F.max_pool2d(y, 1)

    y, pooled = torch.compile(run, backend="fuser")(_X)
    y.zero_()
    assert torch.equal(pooled, _X * 2)


@pytest.mark.parametrize("view", [lambda x: x.view(-1), lambda x: x.unsafe_split(1)[0]])
def test_views_stay_views(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = _X.clone()
    torch.compile(view, backend="fuser")(x).zero_()
    assert not x.any()
