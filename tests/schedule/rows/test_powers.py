"""Which powers of a row are those of a softmax, and which folds sum them."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.facts import use_facts
from fuser.schedule.rows.powers import powers_in, powers_pair, sums_in
from fuser.schedule.tree.expressions import Ref
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import body_of


def known_of(define: Define, dtype: torch.dtype = torch.float32) -> RowBody:
    return use_facts(arrange_rows(body_of(define, torch.empty(20, 96, dtype=dtype))))


def test_powers_tell_what_they_are_less() -> None:
    first, second, *_ = (sweep for sweep in known_of(softmax).stages if sweep.axes)
    ((name, power),) = powers_in(second.code).items()
    assert power.value == first.folds[0].value
    assert isinstance(power.largest, Ref)
    assert power.largest.name == first.folds[0].name
    assert sums_in(second, {name}) == {second.folds[0].name: name}
    assert not sums_in(second, ())
    assert not sums_in(first, {name})


def of_something_else(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(fd.ops.exp(x * 0.5 - fd.ops.max(x, [1], keepdim=True)), [1])


def test_powers_that_may_be_above_one_are_none_of_a_softmax() -> None:
    body = known_of(of_something_else)
    assert not any(powers_in(sweep.code) for sweep in body.stages)
    assert powers_pair(body.stages) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_sweeps_are_a_pair(dtype: torch.dtype) -> None:
    """Also where numbers are converted as they are used."""
    body = known_of(softmax, dtype)
    swept = [sweep for sweep in body.stages if sweep.axes]
    assert powers_pair(body.stages) == tuple(swept[:2])
