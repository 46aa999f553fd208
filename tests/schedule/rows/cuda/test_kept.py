"""Loads that several sweeps make, made once before the first of them."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cuda.kept import keep_loads, keep_values, loads_to_keep
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.counts import point_count
from tests.definitions import Define, agrees, defined
from tests.row_functions import softmax
from tests.schedule.row_bodies import drawn, loss, segment_of


def kept(define: Define, *inputs: torch.Tensor, lanes: int = 1) -> list[str]:
    """The stages of a row, with what its longest axis is loaded for kept."""
    body = arrange_rows(trace_rows(segment_of(define, *inputs)))
    axes = max((sweep.axes for sweep in body.stages if len(sweep.axes) == 1), key=point_count)
    sweeps = [sweep for sweep in body.stages if sweep.axes == axes]
    loads = loads_to_keep(sweeps, body.rows, lanes)
    return drawn(dataclasses.replace(body, stages=tuple(keep_loads(body.stages, axes, loads))))


def test_softmax_loads_its_row_once():
    assert kept(softmax, torch.empty(8, 6)) == [
        "rows 8",
        "sweep 6: load T0, keep T0",
        "sweep 6: kept T0; T1 = fold maximum",
        "sweep 6: kept T0, sub, exp; T4 = fold add",
        "sweep 6: kept T0, sub, exp, truediv; store T5",
    ]


def test_what_all_rows_share_is_left_to_the_cache():
    def scaled(fd, x, w):
        moved = x * w
        return moved - fd.ops.max(moved, [1], keepdim=True)

    lines = kept(scaled, torch.empty(8, 6), torch.empty(6))
    assert [line.count("load T1") for line in lines[1:]] == [0, 1, 1]
    assert [line.count("kept T0") for line in lines[1:]] == [0, 1, 1]


def test_what_one_sweep_loads_is_not_kept():
    def first_sum(fd, x, y):
        return fd.ops.sum(x, [1], keepdim=True) + y

    assert "keep" not in "".join(kept(first_sum, torch.empty(8, 6), torch.empty(8, 6)))


def test_elements_picked_by_an_index_are_loaded_where_they_are_needed():
    lines = kept(loss, torch.empty(8, 6), torch.empty(8, dtype=torch.int64))
    assert sum(line.count("keep T0") for line in lines) == 1
    assert sum(line.count("load T0") for line in lines) == 2


def test_what_waits_for_no_fold_is_loaded_before_them():
    """Else it would be waited for after them, again."""
    lines = kept(loss, torch.empty(8, 6), torch.empty(8, dtype=torch.int64))
    assert lines[1:5] == [
        "sweep 6: load T0, keep T0",
        "once: load T8, check gather < 6, load T0",
        "sweep 6: kept T0; T2 = fold maximum",
        "sweep 6: kept T0, sub, exp; T5 = fold add",
    ]
    assert "load" not in lines[5]


def test_what_says_where_a_row_lies_is_loaded_first():
    def chosen(fd, x, rows):
        return softmax(fd, fd.ops.index_select(x, rows, 0))

    lines = kept(chosen, torch.empty(9, 6), torch.empty(8, dtype=torch.int64))
    assert lines[1].startswith("once: load T1, check")
    assert lines[2].startswith("sweep 6: load T0")


def test_strided_elements_are_kept_one_by_one_only():
    x = torch.empty(8, 12)[:, ::2]
    assert "keep T0" in "".join(kept(softmax, x, lanes=1))
    assert "keep" not in "".join(kept(softmax, x, lanes=4))


def test_a_costly_value_takes_the_place_of_what_it_was_made_of():
    body = arrange_rows(trace_rows(segment_of(softmax, torch.empty(8, 6))))
    axes = body.stages[0].axes
    loads = loads_to_keep(body.stages, body.rows, 1)
    stages, values = keep_values(body, keep_loads(body.stages, axes, loads), axes)
    assert drawn(dataclasses.replace(body, stages=tuple(stages)))[3:] == [
        "sweep 6: kept T0, sub, exp, keep T3; T4 = fold add",
        "sweep 6: kept T3, truediv; store T5",
    ]
    assert [value.name for value in values] == ["T3"]


@pytest.mark.parametrize("length", [7, 130, 512, 513, 4093, 4096])
def test_exponentials_are_computed_once_where_registers_hold_them(length: int):
    x = torch.randn(70, length)  # too many rows for clusters, whose threads keep no powers
    fd = defined(softmax, x)
    (kernel,) = fd.plan([x], target="emulator").kernels
    assert "T3_kept" in kernel.source
    agrees(fd, [x], "emulator")


@pytest.mark.parametrize(("width", "length"), [(2, 1024), (4, 300)])
def test_what_is_read_along_other_axes_is_not_kept_beside_the_longest(width: int, length: int):
    inputs = [
        torch.randn(4, length),
        torch.randint(0, 4, (4, width, 50), dtype=torch.uint8),
        torch.randint(0, 50, (4, width, length)),
    ]
    with FusionDefinition() as fd:
        x, table, index = map(fd.from_pytorch, inputs)
        chosen = fd.ops.cast(fd.ops.gather(table, index, 2), DataType.Float)
        scaled = chosen * fd.ops.broadcast(x, [False, True, False])
        fd.add_output(x - fd.ops.mean(x, [1], keepdim=True))
        fd.add_output(scaled - fd.ops.sum(scaled, [1, 2], keepdim=True))
    (kernel,) = fd.plan(inputs, target="emulator").kernels
    assert "T2_kept" in kernel.source
    assert "T0_kept" not in kernel.source
    agrees(fd, inputs, "emulator")


def test_registers_of_rows_that_are_many_words_hold_no_values_beside_them():
    x = torch.empty(8192, 768, device="meta", dtype=torch.bfloat16)
    fd = defined(softmax, x)
    (kernel,) = fd.plan([x], target="cuda:sm_90").kernels
    assert "T0_kept" in kernel.source
    assert "T3_kept" not in kernel.source
