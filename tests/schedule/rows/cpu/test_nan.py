"""Which extremes keep NaN: all but those of which a sum of the row tells as much."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.pointwise import KERNEL_TABLE
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.nan import PASS_NAN_ON, drop_repeated_nan
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.tree.folds import is_extreme
from tests.definitions import Define, Made
from tests.row_functions import log_softmax, powers, softmax
from tests.schedule.row_bodies import body_of, loss


def keeping(define: Define, *inputs: torch.Tensor) -> list[bool]:
    """For each extreme of a row, whether it keeps NaN."""
    body = drop_repeated_nan(use_facts(arrange_rows(body_of(define, *inputs))))
    folds = (fold for stage in body.stages for fold in stage.folds)
    return [fold.keeps_nan for fold in folds if is_extreme(fold.operation)]


def log_of_sum(fd: FusionDefinition, x: Handle) -> Handle:
    largest, _, total = powers(fd, x)
    return largest + fd.ops.log(total)


def widened(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(softmax(fd, fd.ops.cast(x, DataType.Float)), DataType.BFloat16)


def from_the_least(fd: FusionDefinition, x: Handle) -> Handle:
    made = fd.ops.exp(fd.ops.min(x, [1], keepdim=True) - x)
    return made / fd.ops.sum(made, [1], keepdim=True)


def masked_before(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, fd.ops.where(x > 2.0, x, -1e9))


@pytest.mark.parametrize(
    "define", [softmax, log_softmax, log_of_sum, from_the_least, masked_before]
)
def test_a_sum_of_the_row_tells_of_nan(define: Define):
    assert keeping(define, torch.empty(20, 30)) == [False]


@pytest.mark.parametrize("define", [softmax, widened])
def test_it_does_through_casts(define: Define):
    assert keeping(define, torch.empty(20, 30, dtype=torch.bfloat16)) == [False]


def test_it_does_for_losses():
    assert keeping(loss, torch.empty(20, 30), torch.zeros(20, dtype=torch.int64)) == [False]


def stored(fd: FusionDefinition, x: Handle) -> Made:
    largest, made, total = powers(fd, x)
    return [made / total, largest]


def powers_stored(fd: FusionDefinition, x: Handle) -> Made:
    _, made, total = powers(fd, x)
    return [made, total]


def alone(fd: FusionDefinition, x: Handle) -> Made:
    return fd.ops.max(x, [1])


def compared(fd: FusionDefinition, x: Handle) -> Made:
    largest, made, total = powers(fd, x)
    return [made / total, fd.ops.cast(fd.ops.eq(x, largest), DataType.Float)]


def chosen(fd: FusionDefinition, x: Handle) -> Made:
    _, made, total = powers(fd, x)
    return fd.ops.where(x > 0.0, made / total, made)


def masked_after(fd: FusionDefinition, x: Handle) -> Made:
    made = fd.ops.where(x > 0.0, fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True)), 0.0)
    return made / fd.ops.sum(made, [1], keepdim=True)


def of_other_values(fd: FusionDefinition, x: Handle) -> Made:
    made = fd.ops.exp(x * 2.0)
    return made / fd.ops.sum(made, [1], keepdim=True) * fd.ops.max(fd.ops.relu(x), [1], True)


def summed_over_rows(fd: FusionDefinition, x: Handle) -> Made:
    largest, made, total = powers(fd, x)
    return [made / total, fd.ops.sum(largest)]


def in_powers_of_two(fd: FusionDefinition, x: Handle) -> Made:
    """Rows of what is 2^128 as a power of two, NaN, have no NaN in their second sum."""
    scale = fd.ops.cast(fd.ops.cast(x, DataType.Float8_e8m0fnu), DataType.Float)
    largest, _, total = powers(fd, scale)
    return [total, largest + fd.ops.sum(x - largest, [1], keepdim=True)]


def rounded(fd: FusionDefinition, x: Handle) -> Made:
    largest, _, total = powers(fd, x)
    return fd.ops.cast(largest + fd.ops.log(total), DataType.Int)


@pytest.mark.parametrize(
    "define",
    [
        *(stored, powers_stored, alone, compared, chosen, masked_after, of_other_values),
        *(summed_over_rows, in_powers_of_two),
    ],
)
def test_nan_is_kept_where_something_else_tells(define: Define):
    assert keeping(define, torch.empty(20, 30)) == [True]


def test_what_follows_from_the_sum_may_be_cast():
    assert keeping(rounded, torch.empty(20, 30)) == [False]


@pytest.mark.parametrize("name", sorted(PASS_NAN_ON))
def test_operations_that_pass_nan_on_do(name: str):
    row = KERNEL_TABLE[name]
    for place in range(row.arity):
        operands = [torch.tensor(value) for value in (0.0, 1.0, 0.5, 2.0)[: row.arity]]
        operands[place] = torch.tensor(torch.nan)
        assert row.reference(*operands).isnan()
