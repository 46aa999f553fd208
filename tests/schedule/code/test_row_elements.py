"""The code of a row as it grows: what lasts all along it, what is checked, what is made once."""

from __future__ import annotations

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.tree.row_statements import Running
from fuser.schedule.tree.statements import CheckedIndex, Let, Load
from tests.row_functions import softmax
from tests.schedule.row_bodies import body_of, drawn

X = torch.randn(8, 6)
PLACES = torch.arange(8) % 6


def checks(body: RowBody) -> list[CheckedIndex]:
    return [node for sweep in body.sweeps for node in sweep.code if isinstance(node, CheckedIndex)]


def test_what_is_the_same_all_along_a_row_is_made_before_its_sweep() -> None:
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        once = fd.ops.broadcast(fd.ops.exp(scale), [False, True])
        return fd.ops.max(x * once, [1])

    assert drawn(body_of(define, X, torch.randn(8))) == [
        "rows 8",
        "once: load T1, exp",
        "sweep 6: load T0, mul; T5 = fold maximum",
        "once: store T5",
    ]


def test_what_is_made_of_what_lasts_lasts_too() -> None:
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        wide = fd.ops.broadcast_in_dim(fd.ops.neg(scale), [8, 6], [0])
        return fd.ops.max(x * fd.ops.exp(wide), [1])

    assert drawn(body_of(define, X, torch.randn(8))) == [
        "rows 8",
        "once: load T1, neg, exp",
        "sweep 6: load T0, mul; T7 = fold maximum",
        "once: store T7",
    ]


def test_an_index_that_is_the_same_all_along_a_row_is_checked_once() -> None:
    def define(fd: FusionDefinition, x: Handle, places: Handle) -> Handle:
        row = fd.ops.broadcast_in_dim(fd.ops.neg(places), [8, 6], [0])
        return fd.ops.max(fd.ops.gather(x, row, 0), [1])

    once, sweep, _ = body_of(define, X, PLACES).sweeps
    assert [type(node) for node in once.code] == [Load, Let, CheckedIndex]
    assert [type(node) for node in sweep.code] == [Load]


def test_a_later_sweep_makes_again_what_a_point_needs_but_not_what_the_row_has() -> None:
    stages = drawn(body_of(softmax, X))
    assert stages[1:] == [
        "sweep 6: load T0; T1 = fold maximum",
        "sweep 6: load T0, sub, exp; T4 = fold add",
        "sweep 6: load T0, sub, exp, truediv; store T5",
    ]


def test_scalars_are_made_once_before_all_rows() -> None:
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        return softmax(fd, x * fd.ops.exp(scale))

    body = body_of(define, X, 0.5)
    (once,) = body.prologue
    made = [node.name for sweep in body.sweeps for node in sweep.code]
    assert once.name not in made
    assert made.count("T0") == 3


def test_sweeps_that_draw_the_same_numbers_scale_them_by_one_factor() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, x * fd.ops.uniform(1.0, 3.0, [8, 6], rng_seed=3, rng_offset=0))

    factor, most = body_of(define, X).prologue
    assert factor.name.endswith("_factor")
    assert most.name.endswith("_most")


def test_a_value_that_is_read_elsewhere_too_has_a_name_for_each_place() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.max(fd.ops.exp(x) - fd.ops.exp(fd.ops.flip(x, [1])), [1])

    sweep = body_of(define, X).stages[0]
    loads = [node for node in sweep.code if isinstance(node, Load)]
    assert len({load.name for load in loads}) == len({load.at for load in loads}) == 2
    (axis,) = sweep.axes
    assert sorted(load.at.coefficient(axis) for load in loads) == [-1, 1]


def picked(fd: FusionDefinition, x: Handle, places: Handle) -> Handle:
    return fd.ops.take_along_axis(x, fd.ops.broadcast(places, [False, True]), 1)


def test_a_gather_reads_where_an_index_that_was_checked_says() -> None:
    body = body_of(lambda fd, x, places: fd.ops.exp(picked(fd, x, places)), X, PLACES)
    (check,) = checks(body)
    assert (check.operation, check.size, check.wraps) == ("take_along_axis", 6, True)
    loads = [n for sweep in body.sweeps for n in sweep.code if isinstance(n, Load)]
    (at,) = [load.at for load in loads if load.tensor.name == "T0"]
    assert [str(term.name) for term, _ in at.terms if hasattr(term, "name")] == [check.name]


def test_an_index_is_reported_by_the_first_sweep_that_has_it() -> None:
    def define(fd: FusionDefinition, x: Handle, places: Handle) -> Handle:
        return softmax(fd, fd.ops.index_select(x, places, 1))

    found = checks(body_of(define, X, PLACES))
    assert len(found) == 3
    assert [check.reports for check in found] == [True, False, False]
    assert not any(check.wraps for check in found)


def test_each_sweep_that_makes_a_scan_again_has_a_carry_of_its_own() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        sums = fd.ops.cumsum(x, 1)
        return sums - fd.ops.max(sums, [1], keepdim=True)

    sweeps = body_of(define, X).stages
    scans = [node for sweep in sweeps for node in sweep.code if isinstance(node, Running)]
    assert [scan.operation for scan in scans] == ["add", "add"]
    assert [scan.carry for scan in scans] == ["T1_carry", "T1_carry_1"]


def test_what_neither_folds_nor_stores_need_is_not_made() -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        wide = fd.ops.cast(x, DataType.Double)
        return fd.ops.max(fd.ops.slice(wide, [0, 0], [8, 3]), [1])

    assert drawn(body_of(define, X))[1] == "sweep 3: load T0, cast; T3 = fold maximum"
