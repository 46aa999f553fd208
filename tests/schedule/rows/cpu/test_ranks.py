"""Which extremes are folded as ranks, and what ranks are."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.pointwise import KERNEL_TABLE
from fuser.schedule.rows.cpu.ranks import fold_ranks
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import body_of, drawn

DTYPES = {"half": torch.float16, "bfloat16": torch.bfloat16}


def ranked(define: Define, *inputs: torch.Tensor) -> list[str]:
    return drawn(fold_ranks(body_of(define, *inputs)))


def widened(fd: FusionDefinition, x: Handle) -> Handle:
    return softmax(fd, fd.ops.cast(x, DataType.Float))


def column_maxima(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.max(softmax(fd, x), [0])


def of_absolute(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.max(fd.ops.abs(fd.ops.cast(x, DataType.Float)), [1])


def test_a_maximum_is_folded_before_anything_is_widened():
    x = torch.empty(8, 60, dtype=torch.bfloat16)
    assert ranked(widened, x)[:4] == [
        "rows 8",
        "sweep 60: load T0; T2_rank = fold maximum",
        "once: cast",
        "sweep 60: load T0, cast, sub, exp; T5 = fold add",
    ]


@pytest.mark.parametrize("define", [softmax, column_maxima])
def test_of_float32_nothing_changes(define: Define):
    x = torch.empty(8, 60)
    assert ranked(define, x) == drawn(body_of(define, x))


def test_nor_of_what_is_computed_from_floats_of_16_bits():
    x = torch.empty(8, 60, dtype=torch.float16)
    assert ranked(of_absolute, x) == drawn(body_of(of_absolute, x))


def test_one_sweep_may_be_left():
    body = body_of(widened, torch.empty(8, 60, dtype=torch.bfloat16))
    first = body.stages[0]
    assert drawn(fold_ranks(body, but=first)) == drawn(body)


@pytest.mark.parametrize("end", ["largest", "smallest"])
@pytest.mark.parametrize("name", DTYPES)
def test_ranks_have_the_order_of_numbers_and_nan_is_beyond_them(name: str, end: str):
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    x = bits.view(DTYPES[name])
    ranks = KERNEL_TABLE[f"{end}_rank"].reference(x)
    back = KERNEL_TABLE[f"{name}_of_{end}_rank"].reference(ranks)
    assert torch.equal(back.view(torch.int16), bits)
    in_order = x[ranks.argsort()].double()
    numbers = in_order[~in_order.isnan()]
    assert (numbers.diff() >= 0).all()
    nan = in_order[len(numbers) :] if end == "largest" else in_order[: -len(numbers)]
    assert nan.isnan().all()
