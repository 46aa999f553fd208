"""What rows are walked for, and when: levels by folds of the row, stores beside folds."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_goals import goals_of
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import segment_of


def goals(define: Define, *inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    """Level, kind and name of each goal, sweep by sweep, and what is left for the epilogue."""
    segment = segment_of(define, *inputs)
    assert segment.rows is not None
    found = goals_of(segment, segment.rows)
    sweeps = [
        " ".join(
            [str(own[0].level)]
            + [
                f"fold {goal.reduction.op.op}" if goal.reduction else f"store {goal.value}"
                for goal in own
            ]
        )
        for _, own in found.by_sweep()
    ]
    return sweeps, [value.name for value in found.epilogue]


def scaled(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Read at level 0, stored twice: as it is made, and by the largest of its row."""
    y = fd.ops.exp(x)
    return [y, y / fd.ops.max(y, [1], keepdim=True)]


def summed_over_rows(fd: FusionDefinition, x: Handle) -> list[Handle]:
    mean = fd.ops.sum(x, [1], keepdim=True)
    total = fd.ops.sum(x - mean, [0])
    return [fd.ops.sum(mean, [0, 1]) * 2.0, total]


def test_each_fold_of_a_row_is_a_level():
    #   max -> sum of exp -> quotients
    assert goals(softmax, torch.empty(8, 6)) == (["0 fold max", "1 fold sum", "2 store T5"], [])


def test_a_store_goes_with_a_fold_over_the_same_axes():
    #   store exp, fold its max -> store the quotients
    sweeps, epilogue = goals(scaled, torch.empty(8, 6))
    assert [sweep.split()[:3] for sweep in sweeps] == [["0", "fold", "max"], ["1", "store", "T3"]]
    assert sweeps[0].endswith("store T1")
    assert epilogue == []


def test_what_follows_from_folds_over_the_rows_is_the_epilogue():
    #   sum of the row -> sums over rows | store
    sweeps, epilogue = goals(summed_over_rows, torch.empty(8, 6))
    assert sweeps == ["0 fold sum", "1 fold sum", "1 fold sum"]
    assert len(epilogue) == 2


@pytest.mark.parametrize("shape", [(8, 6), (6, 8)])
def test_goals_of_one_sweep_are_over_the_same_atoms(shape: tuple[int, int]):
    segment = segment_of(scaled, torch.empty(shape))
    assert segment.rows is not None
    for swept, own in goals_of(segment, segment.rows).by_sweep():
        assert {goal.swept for goal in own} == {swept}
        assert segment.rows.isdisjoint(swept)
