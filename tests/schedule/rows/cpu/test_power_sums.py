"""Sums of powers less a row's largest number, which make each power as they add it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.power_sums import add_powers
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.tree.expressions import Call
from fuser.schedule.tree.statements import Let
from tests.definitions import defined
from tests.schedule.row_bodies import body_of

Define = Callable[[FusionDefinition, Handle], list[Handle]]
FLOAT, NARROW = torch.float32, torch.bfloat16


def with_powers_added(define: Define, dtype: torch.dtype) -> RowBody:
    return add_powers(use_facts(arrange_rows(body_of(define, torch.empty(30, 5000, dtype=dtype)))))


def operations(body: RowBody) -> tuple[list[str], list[str]]:
    """What is called in sweeps over elements, and what in folds."""
    sweeps = [sweep for sweep in body.stages if sweep.axes]
    code = [node.expression for sweep in sweeps for node in sweep.code if isinstance(node, Let)]
    folded = [fold.value for sweep in sweeps for fold in sweep.folds]
    of_code, of_folds = (
        [each.op for each in expressions if isinstance(each, Call)]
        for expressions in (code, folded)
    )
    return of_code, of_folds


def powers(fd: FusionDefinition, x: Handle) -> tuple[Handle, Handle]:
    """Powers of the columns of x less the largest, and their sums, in float32."""
    x = x if x.value.dtype is DataType.Float else fd.ops.cast(x, DataType.Float)
    made = fd.ops.exp(x - fd.ops.max(x, [0], keepdim=True))
    return made, fd.ops.sum(made, [0], keepdim=True)


def in_type_of(fd: FusionDefinition, x: Handle, *made: Handle) -> list[Handle]:
    """What is made of x, in its type."""
    dtype = x.value.dtype
    return [fd.ops.cast(each, dtype) for each in made]


def softmax(fd: FusionDefinition, x: Handle) -> list[Handle]:
    made, total = powers(fd, x)
    return in_type_of(fd, x, made / total)


def log_of_sum(fd: FusionDefinition, x: Handle) -> list[Handle]:
    _, total = powers(fd, x)
    return in_type_of(fd, x, fd.ops.log(total))


def test_a_power_that_is_only_added_is_made_where_it_is():
    assert operations(with_powers_added(log_of_sum, FLOAT)) == (["sub"], ["exp_nonpositive"])


def test_what_is_stored_is_made_by_itself():
    code, folded = operations(with_powers_added(softmax, FLOAT))
    assert code == ["sub", "sub", "exp_nonpositive", "mul"]
    assert folded == ["exp_nonpositive"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_powers_are_narrow_where_all_results_are(dtype: torch.dtype):
    code, folded = operations(with_powers_added(softmax, dtype))
    assert code == ["sub", "sub", "exp_nonpositive_narrow", "mul"]
    assert folded == ["exp_nonpositive_narrow"]
    assert operations(with_powers_added(log_of_sum, dtype))[1] == ["exp_nonpositive_narrow"]


def test_powers_are_not_narrow_where_some_result_is_not():
    def with_wide_sums(fd: FusionDefinition, x: Handle) -> list[Handle]:
        made, total = powers(fd, x)
        return [*in_type_of(fd, x, made / total), total]

    assert operations(with_powers_added(with_wide_sums, NARROW))[1] == ["exp_nonpositive"]


SHOWING: list[Callable[[FusionDefinition, Handle], Handle]] = [
    lambda fd, total: fd.ops.floor(total),
    lambda fd, total: fd.ops.cos(total * 20.0),
    lambda fd, total: fd.ops.log(fd.ops.log(total)),
    lambda fd, total: fd.ops.log(total * 0.125),
    lambda fd, total: (total - 2.0) * 1e3,
    lambda fd, total: fd.ops.cos(fd.ops.log(total)),
]


@pytest.mark.parametrize("made_of", SHOWING)
def test_powers_are_not_narrow_where_it_would_show(
    made_of: Callable[[FusionDefinition, Handle], Handle],
):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return in_type_of(fd, x, made_of(fd, powers(fd, x)[1]))

    assert operations(with_powers_added(define, NARROW))[1] == ["exp_nonpositive"]


def test_losses_are_made_of_narrow_powers():
    def loss(fd: FusionDefinition, x: Handle) -> list[Handle]:
        wide = fd.ops.cast(x, DataType.Float)
        largest = fd.ops.max(wide, [0], keepdim=True)
        _, total = powers(fd, x)
        logs = wide - largest - fd.ops.log(total)
        return in_type_of(fd, x, fd.ops.sum(fd.ops.neg(logs)) * 0.01)

    assert "exp_nonpositive_narrow" in operations(with_powers_added(loss, NARROW))[1]


def test_what_a_sweep_computes_may_be_rounded_otherwise_than_the_largest():
    def of_products(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.log(powers(fd, x * 0.3)[1])]

    code, folded = operations(with_powers_added(of_products, FLOAT))
    assert "exp_nonpositive" in code
    assert not folded


def test_a_power_that_two_sums_read_is_made_once():
    def twice(fd: FusionDefinition, x: Handle) -> list[Handle]:
        made, total = powers(fd, x)
        return [total, fd.ops.sum(made * x, [0])]

    code, _ = operations(with_powers_added(twice, FLOAT))
    assert "exp_nonpositive" in code


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("define", [softmax, log_of_sum])
@pytest.mark.parametrize("elements", [1, 3, 21, 70])
def test_sums_of_powers_are_right(define: Define, dtype: torch.dtype, elements: int):
    x = torch.randn(elements, 300) * 20
    x[:, 0] = -torch.inf  # no number
    x[:, 1] = -3e38
    x[0, 2] = torch.nan
    x[-1, 3] = torch.inf
    x[0, 4:8] = 3e38
    x = x.to(dtype)
    fd = defined(define, x)
    fd.validate([x])
