"""What is done in a row, sweep by sweep."""

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.statements import CheckedIndex, Store
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import body_of, drawn, loss, segments_of


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def index(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.int64)


SOFTMAX = [
    "load T0; T1 = fold maximum",
    "load T0, sub, exp; T4 = fold add",
    "load T0, sub, exp, truediv; store T5",
]


@pytest.mark.parametrize(
    ("shape", "dim", "rows", "swept"),
    [((8, 6), 1, "8", "6"), ((8, 6), 0, "6", "8"), ((4, 5, 6), 1, "4 x 6", "5")],
)
def test_a_softmax_is_three_sweeps(shape: tuple[int, ...], dim: int, rows: str, swept: str):
    body = body_of(lambda fd, x: softmax(fd, x, dim), empty(*shape))
    assert drawn(body) == [f"rows {rows}", *(f"sweep {swept}: {sweep}" for sweep in SOFTMAX)]


def test_a_layernorm_computes_row_values_once_a_row():
    assert drawn(body_of(layernorm, empty(8, 6))) == [
        "rows 8",
        "sweep 6: load T0; T8 = fold add",
        "once: truediv",
        "sweep 6: load T0, sub, mul; T13 = fold add",
        "once: truediv, add, rsqrt",
        "sweep 6: load T0, sub, mul; store T7",
    ]


def test_folds_of_one_level_share_a_sweep():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.sum(x, [1]), fd.ops.max(x, [1]), fd.ops.any(x, [1])]

    assert drawn(body_of(define, empty(8, 6)))[:2] == [
        "rows 8",
        "sweep 6: load T0, cast; T1 = fold add; T2 = fold maximum; T3 = fold logical_or",
    ]


def test_a_store_shares_the_sweep_of_a_fold():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = fd.ops.exp(x)
        return [y, fd.ops.sum(y, [1])]

    assert drawn(body_of(define, empty(8, 6))) == [
        "rows 8",
        "sweep 6: load T0, exp; T2 = fold add; store T1",
        "once: store T2",
    ]


def test_what_lasts_along_a_row_is_computed_before_it():
    body = body_of(lambda fd, x, y: softmax(fd, x * fd.ops.exp(y)), empty(8, 6), empty(8, 1))
    assert drawn(body)[:3] == [
        "rows 8",
        "once: load T1, exp",
        "sweep 6: load T0, mul; T4 = fold maximum",
    ]


def test_a_total_has_one_row():
    assert drawn(body_of(lambda fd, x: fd.ops.sum(x), empty(8, 6))) == [
        "rows one",
        "sweep 8 x 6: load T0; T1 = fold add",
        "once: store T1",
    ]


def test_a_fold_of_one_element_is_that_element():
    assert drawn(body_of(lambda fd, x: fd.ops.sum(x, [1]), empty(8, 1))) == [
        "rows 8",
        "once: load T0",
        "once: store T1",
    ]


# -- folds over the rows -------------------------------------------------------------------------


def test_folds_over_the_rows_have_a_slot_for_each_result():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.sum(x, dims) for dims in ([0], [1], [0, 1])]

    body = body_of(define, empty(8, 6))
    assert drawn(body) == [
        "rows 8",
        "sweep 6: load T0; T1 = fold add into 6; T2 = fold add; T3 = fold add into 1",
        "once: store T2",
        "at last 6: store T1",
        "at last: store T3",
    ]
    (column, _, total) = body.stages[0].folds
    assert column.at.coefficient(body.stages[0].axes[0]) == 1
    assert not total.at.terms


def test_what_follows_from_a_fold_over_the_rows_is_the_epilogue():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        row = fd.ops.sum(x, [1])
        return [row, fd.ops.sqrt(fd.ops.sum(row)), fd.ops.tanh(fd.ops.max(x, [0]))]

    assert drawn(body_of(define, empty(8, 6)))[2:] == [
        "once: T2 = fold add into 1; store T1",
        "at last: sqrt; store T3",
        "at last 6: tanh; store T5",
    ]


def test_a_cross_entropy_loss():
    assert drawn(body_of(loss, empty(8, 100), index(8))) == [
        "rows 8",
        "sweep 100: load T0; T2 = fold maximum",
        "sweep 100: load T0, sub, exp; T5 = fold add",
        "once: load T8, check gather < 100, load T0, sub, log, sub, neg; "
        "T13 = fold add into 1; store T11",
        "at last: truediv; store T12",
    ]


# -- gathers -------------------------------------------------------------------------------------


def test_a_gather_alone_is_a_sweep_of_one_row():
    body = body_of(lambda fd, x, i: fd.ops.index_select(x, i, 0) * 2.0, empty(50, 6), index(8))
    assert drawn(body)[0] == "rows one"
    assert drawn(body)[1].endswith(": load T1, check index_select < 50, load T0, mul; store T4")


def test_an_index_of_the_row_is_checked_once_a_row():
    body = body_of(
        lambda fd, x, i: layernorm(fd, fd.ops.index_select(x, i, 0)), empty(50, 6), index(8)
    )
    assert drawn(body)[:3] == [
        "rows 8",
        "once: load T1, check index_select < 50",
        "sweep 6: load T0; T10 = fold add",
    ]


@pytest.mark.parametrize(
    ("mode", "wraps"), [("index_select", False), ("gather", False), ("take_along_axis", True)]
)
def test_some_indices_count_from_the_end(mode: str, wraps: bool):
    at = index(3) if mode == "index_select" else index(8, 3)
    body = body_of(lambda fd, x, i: getattr(fd.ops, mode)(softmax(fd, x), i, 1), empty(8, 6), at)
    (check,) = [node for s in body.stages for node in s.code if isinstance(node, CheckedIndex)]
    assert (check.operation, check.size, check.wraps) == (mode, 6, wraps)


def test_two_gathers_at_one_index_check_it_each():
    def define(fd: FusionDefinition, x: Handle, y: Handle, i: Handle) -> Handle:
        return fd.ops.gather(x, i, 1) + fd.ops.gather(y, i, 1)

    body = body_of(define, empty(8, 6), empty(8, 9), index(8, 3))
    (sweep,) = body.stages
    assert [node.size for node in sweep.code if isinstance(node, CheckedIndex)] == [6, 9]


def test_an_element_read_at_two_places_has_two_names():
    def define(fd: FusionDefinition, x: Handle, i: Handle) -> list[Handle]:
        y = softmax(fd, x)
        return [y, fd.ops.gather(y, i, 1)]

    body = body_of(define, empty(8, 6), index(8, 1))
    names = [node.name for sweep in body.stages for node in sweep.code]
    assert {"T0", "T0_1"} <= set(names)
    assert drawn(body)[-2:] == [
        "once: load T1, check gather < 6, load T0, sub, exp, truediv; store T7",
        "sweep 6: load T0, sub, exp, truediv; store T6",
    ]


# -- addresses and views -------------------------------------------------------------------------


def test_aligned_tensors_are_addressed_by_strides():
    body = body_of(lambda fd, x: softmax(fd, x, 1), empty(4, 5, 6).permute(2, 1, 0))
    (axis,) = body.stages[0].axes
    load, store = body.stages[-1].code[0], body.stages[-1].stores[0]
    assert [load.at.coefficient(a) for a in (*body.rows, axis)] == [1, 30, 6]
    assert isinstance(store, Store)
    assert len(store.at.terms) == 3


def test_a_view_that_splits_rows_splits_the_atoms():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.reshape(softmax(fd, fd.ops.reshape(x, [2, 4, 6])), [8, 6])

    assert drawn(body_of(define, empty(8, 6)))[0] == "rows 2 x 4"


def test_scalars_are_computed_before_all_rows():
    def define(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        return fd.ops.sum(x * fd.ops.exp(scale), [1])

    body = body_of(define, empty(8, 6), 2.5)
    assert [let.name for let in body.prologue] == ["S2"]
    assert drawn(body)[1] == "sweep 6: load T0, mul; T4 = fold add"


def test_every_segment_of_a_chain_has_a_body():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return softmax(fd, softmax(fd, x, 1), 0)

    bodies = [trace_rows(segment) for segment in segments_of(define, empty(8, 6))]
    assert [drawn(body)[0] for body in bodies] == ["rows 8", "rows 6"]
