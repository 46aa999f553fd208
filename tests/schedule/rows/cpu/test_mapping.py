"""How rows map to a processor's threads and lanes."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, LoopNest, ProcessorParameters, schedule_rows_cpu
from fuser.schedule.code.row_body import Fold
from fuser.schedule.indices.index import ZERO
from fuser.schedule.rows.cpu.folds import wide
from fuser.schedule.rows.cpu.sweeps import lanes_for
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import REPEATED, Ref, refs
from fuser.schedule.tree.folds import neutral
from fuser.schedule.tree.loop_tree import IfPastCache, Loop, Node, Region, every_node
from fuser.schedule.tree.row_statements import (
    Accumulate,
    Combine,
    Finish,
    Keep,
    Kept,
    RowArray,
    ScanLanes,
)
from fuser.schedule.tree.statements import LaneCall, Lanes, Load, Prefetch
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter import PROCESSOR
from tests.definitions import Define
from tests.mapped_by import THREADED
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import segment_of

FLOATS = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)
INTEGERS = (DataType.Int, DataType.Int32, DataType.Int16, DataType.Int8, DataType.UInt8)


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def nest(define: Define, *inputs: torch.Tensor, **changed: int | ProcessorParameters) -> LoopNest:
    segment = segment_of(define, *inputs, machine=PROCESSOR)
    return schedule_rows_cpu(segment, CpuRowParameters(**changed))


def found(nest: LoopNest, *kinds: type[Node]) -> list[Node]:
    return [node for node in every_node(nest.body) if isinstance(node, kinds)]


def loops(nest: LoopNest) -> list[str]:
    """What each loop is bound to, outermost first."""
    return [node.binding.name for node in every_node(nest.body) if isinstance(node, Loop)]


def total(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(x, [-1])


def columns_too(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [1]), fd.ops.sum(x, [0]), fd.ops.max(x)]


# -- folds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, DataType.Bool], ids=repr)
@pytest.mark.parametrize("operation", ["add", "mul", "maximum", "minimum"])
def test_a_neutral_element_changes_nothing(operation: str, dtype: DataType):
    fill = neutral(operation, dtype)
    assert fill.dtype is dtype
    if dtype.is_floating:
        numbers = torch.tensor([0.0, -1.5, torch.inf, -torch.inf, torch.nan], dtype=dtype.torch)
    elif dtype is DataType.Bool:
        numbers = torch.tensor([False, True])
    else:
        limits = torch.iinfo(dtype.torch)
        numbers = torch.tensor([0, 1, limits.min, limits.max], dtype=dtype.torch)
    joined = getattr(torch, operation)(torch.full_like(numbers, fill.value), numbers)
    torch.testing.assert_close(joined, numbers, rtol=0, atol=0, equal_nan=True)


def test_nothing_is_all_true_and_not_any():
    assert neutral("logical_and", DataType.Bool).value is True
    assert neutral("logical_or", DataType.Bool).value is False


@pytest.mark.parametrize(
    ("operation", "dtype", "kept"),
    [
        ("add", DataType.Float, DataType.Double),
        ("mul", DataType.Float, DataType.Double),
        ("maximum", DataType.Float, DataType.Float),
        ("add", DataType.Double, DataType.Double),
        ("add", DataType.Int, DataType.Int),
        ("logical_or", DataType.Bool, DataType.Bool),
    ],
)
def test_sums_of_float32_are_kept_in_float64(operation: str, dtype: DataType, kept: DataType):
    assert wide(Fold("T1", operation, Ref("T0", dtype), dtype)) is kept


# -- lanes along the row -------------------------------------------------------------------------


def test_threads_take_rows_and_lanes_go_along_them():
    softmaxed = nest(softmax, empty(4096, 768))
    exponentials = ["ROUNDS", "SIMD", "SIMD"]  # and a call between these
    chunks = ["CHUNKS", "SIMD", "SIMD"]
    assert loops(softmaxed) == ["PARALLEL", "ROUNDS", *exponentials, *chunks]
    assert softmaxed.launch.threaded
    assert [(n.dtype, n.count) for n in found(softmaxed, Lanes)] == [
        *[(DataType.Float, 32)] * 4,
        (DataType.Float, 64),
    ]
    assert [(n.arrays, n.operation) for n in found(softmaxed, Combine)] == [
        (("T1_lanes",), "maximum"),
        (("T4_lanes",), "add"),
    ]
    assert "along" in softmaxed.mapping


def test_narrow_results_go_by_chunks_wherever_they_are_stored():
    def halved(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cast(softmax(fd, fd.ops.cast(x, DataType.Float)), DataType.BFloat16)

    assert not found(nest(softmax, empty(4096, 256)), IfPastCache)
    assert len(found(nest(softmax, empty(4096, 768)), IfPastCache)) == 1
    narrow = nest(halved, empty(4096, 768, dtype=torch.bfloat16))
    assert not found(narrow, IfPastCache)
    assert loops(narrow)[-2:] == ["CHUNKS", "SIMD"]


def dropped(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.sum(x * fd.ops.rand_like(x), [1])


@pytest.mark.parametrize(
    ("define", "columns", "moved_back"),
    [(total, 3, False), (dropped, 3, False), (dropped, 1000, True)],
)
def test_what_is_shorter_than_a_round_is_not_moved_back(
    define: Define, columns: int, moved_back: bool
):
    made = nest(define, empty(50, columns), whole_row=0)
    assert ("ROUNDS" in loops(made)) is moved_back
    assert ("SWEEP" in loops(made)) is not moved_back


def test_a_sweep_that_folds_over_the_rows_only_is_a_plain_loop():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = x - fd.ops.mean(x, [1], keepdim=True)
        return [y, fd.ops.sum(y * y, [0])]

    with_columns = nest(define, empty(1, 100).expand(4096, 100))
    assert loops(with_columns)[:3] == ["PARALLEL", "ROUNDS", "SIMD"]
    (added,) = found(with_columns, Accumulate)
    assert isinstance(added, Accumulate)
    assert REPEATED.name not in refs(added.value)


def in_blocks_of_columns(fd: FusionDefinition, x: Handle) -> list[Handle]:
    y = fd.ops.reshape(x, [-1, 10, 300])
    return [fd.ops.sum(y, [1, 2]), fd.ops.sum(y, [0, 2]), fd.ops.max(y, [0, 1, 2])]


def scanned_too(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.cumsum(x, 1), fd.ops.sum(x, [0, 1]), fd.ops.max(x, [0])]


def centred_too(fd: FusionDefinition, x: Handle) -> list[Handle]:
    y = x - fd.ops.mean(x, [1], keepdim=True)
    return [y, fd.ops.sum(y * y, [0, 1])]


@pytest.mark.parametrize(
    ("define", "add_in_lanes"),
    [
        (columns_too, True),
        (scanned_too, True),
        (in_blocks_of_columns, False),
        (centred_too, False),
    ],
)
def test_lanes_of_a_loop_do_not_add_to_one_place(define: Define, add_in_lanes: bool):
    made = nest(define, empty(500, 3000))
    to_one = [n for n in found(made, Accumulate) if isinstance(n, Accumulate) and n.at == ZERO]
    assert to_one
    together = (Binding.SIMD, Binding.SWEEP, Binding.ROUNDS, Binding.SCAN)
    side_by_side = [loop for loop in found(made, Loop) if loop.binding in together]
    assert side_by_side
    added = [
        (node.at, loop.axis)
        for loop in side_by_side
        for node in every_node(loop.body)
        if isinstance(node, Accumulate)
    ]
    assert bool(added) is add_in_lanes
    assert all(step_along(at, axis) for at, axis in added)


def test_where_nothing_else_tells_of_nan_it_has_lanes_of_its_own():
    largest = nest(lambda fd, x: fd.ops.max(x, [1]), empty(4096, 768))
    assert [(n.dtype, n.count) for n in found(largest, Lanes)] == [(DataType.Float, 16)] * 2
    (combined,) = found(largest, Combine)
    assert isinstance(combined, Combine)
    assert combined.arrays == ("T1_lanes", "T1_lanes_nan")


@pytest.mark.parametrize(
    ("extent", "lanes"), [(1, 4), (5, 4), (16, 8), (33, 16), (100, 16), (511, 16), (512, 32)]
)
def test_short_rows_have_fewer_lanes(extent: int, lanes: int):
    assert lanes_for(CpuRowParameters(), extent, 1, extent, narrow=False) == lanes
    if extent > 1:
        (array,) = found(nest(total, empty(50, extent), whole_row=0), Lanes)
        assert array.count == lanes


@pytest.mark.parametrize(("extent", "lanes"), [(255, 16), (256, 32), (512, 32)])
def test_narrow_numbers_are_read_by_more_lanes(extent: int, lanes: int):
    of_halves = nest(softmax, empty(50, extent, dtype=torch.float16), batched_row=0)
    assert {array.count for array in found(of_halves, Lanes)} - {64} == {lanes}


def test_rows_of_narrow_numbers_have_chunks_before_they_are_long():
    def rounded(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.cast(softmax(fd, x), DataType.Half)

    assert "CHUNKS" in loops(nest(rounded, empty(4096, 300)))
    assert "CHUNKS" not in loops(nest(softmax, empty(4096, 300)))


def test_what_no_cache_holds_is_stored_past_it():
    assert nest(softmax, empty(8192, 768)).launch.past_cache
    small = nest(softmax, empty(40, 768))
    assert not small.launch.past_cache
    assert not nest(softmax, empty(4096, 768)).launch.past_cache  # what is read fits beside it
    assert not nest(total, empty(65536, 768)).launch.past_cache
    assert loops(small) == loops(nest(softmax, empty(4096, 768)))
    assert "CHUNKS" not in loops(nest(softmax, empty(4096, 500)))


def test_the_costly_sweep_asks_for_the_next_row():
    (asked,) = found(nest(softmax, empty(4096, 768)), Prefetch)
    (fold,) = [
        node
        for node in found(nest(softmax, empty(4096, 768)), Loop)
        if any(isinstance(inside, Prefetch) for inside in node.body)
    ]
    assert asked.at.constant == 2 * 768
    assert [node.value for node in fold.body if isinstance(node, LaneCall)] == ["T3"]
    (far,) = found(nest(softmax, empty(4096, 64)), Prefetch)
    assert far.at.constant == 16 * 64


def test_a_sweep_that_folds_over_the_rows_asks_for_what_follows():
    def centred(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [x - fd.ops.sum(x, [1], keepdim=True), fd.ops.sum(x, [0])]

    made = nest(centred, empty(4096, 768))
    (asked,) = found(made, Prefetch)
    assert isinstance(asked, Prefetch)
    assert (asked.there, asked.at.constant) == (False, 0)
    first, *_ = (
        node for node in every_node(made.body) if isinstance(node, Loop) and asked in node.body
    )
    assert first.binding is Binding.ROUNDS


def test_a_sum_asks_for_the_words_it_reads_soon_if_these_are_many():
    (asked,) = found(nest(total, empty(4096, 768)), Prefetch)
    assert isinstance(asked, Prefetch)
    assert not asked.there
    assert asked.lanes == 32
    assert asked.pays is False
    (asked,) = found(nest(total, empty(40_960, 768)), Prefetch)
    assert isinstance(asked, Prefetch)
    assert asked.pays is True
    assert not found(nest(lambda fd, x: fd.ops.max(x, [1]), empty(40_960, 768)), Prefetch)
    assert len(found(nest(total, empty(1 << 20)), Prefetch)) == 1
    assert not found(nest(total, empty(4096, 768, dtype=torch.bfloat16)), Prefetch)
    with_gaps = empty(4096, 1536)[:, :768]
    assert not found(nest(total, with_gaps), Prefetch)


def test_what_several_lanes_ask_for_is_asked_for_once():
    # in a loop left to the compiler, every element would ask for it, one by one
    (loop,) = [
        node
        for node in found(nest(layernorm, empty(4096, 384)), Loop)
        if any(isinstance(inside, Prefetch) for inside in node.body)
    ]
    assert loop.binding is Binding.ROUNDS
    assert loop.step == 16


def test_little_work_starts_no_threads():
    assert not nest(softmax, empty(50, 60)).launch.threaded
    assert nest(
        softmax, empty(50, 60), processor=ProcessorParameters(serial_work=100)
    ).launch.threaded


def test_long_rows_are_folded_in_blocks_of_their_own_type():
    long = nest(total, empty(50, 40_000))
    assert loops(long) == ["PARALLEL", "BLOCKS", "ROUNDS"]
    (array,), (kept,) = found(long, Lanes), found(long, Accumulate)
    assert array.dtype is DataType.Float
    assert kept.partial.kept is DataType.Double
    assert loops(nest(total, empty(50, 2048))) == ["PARALLEL", "ROUNDS"]


def test_extremes_need_no_blocks():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.max(x, [1])

    assert loops(nest(define, empty(50, 40_000))) == ["PARALLEL", "ROUNDS"]


def test_many_short_stretches_are_folded_in_a_wider_type():
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.sum(x, [1, 2])

    (array,) = found(nest(define, empty(50, 400, 101)[..., :100]), Lanes)
    assert array.dtype is DataType.Double


def test_costly_values_are_kept_for_the_next_sweep():
    kept = nest(softmax, empty(50, 600))
    assert [node.name for node in found(kept, RowArray, Keep, Kept)] == ["T3"] * 4
    assert not found(nest(softmax, empty(50, 600), kept_bytes=2399), RowArray, Keep, Kept)
    assert not found(nest(layernorm, empty(50, 600)), RowArray, Keep, Kept)


# -- few rows ------------------------------------------------------------------------------------


def test_few_rows_are_shared_out_over_the_threads():
    few = nest(total, empty(4, 1 << 20))
    assert loops(few) == ["SERIAL", "BLOCKS", "ROUNDS"]
    outer, inner = found(few, Region)
    assert not outer.partials
    assert inner.threaded
    assert [partial.slots for partial in inner.partials] == [1]


def test_a_sweep_without_folds_is_shared_out_by_its_loops():
    assert loops(nest(softmax, empty(2, 1 << 20)))[-1] == "SIMD"
    assert loops(nest(softmax, empty(8, 1 << 20)))[0] == "PARALLEL"


@pytest.mark.parametrize("columns", [1000, 16384])
def test_all_threads_of_a_region_share_its_work(columns: int):
    # a sweep that every thread does would be folded as often as there are threads
    few = nest(total, empty(7, columns), processor=THREADED)
    folding = [region for region in found(few, Region) if region.partials and region.threaded]
    assert folding
    for region in folding:
        inside = (node for node in every_node(region.body) if isinstance(node, Loop))
        assert {Binding.PARALLEL, Binding.BLOCKS} & {loop.binding for loop in inside}


# -- lanes across rows ---------------------------------------------------------------------------


def off_the_largest(fd: FusionDefinition, x: Handle) -> Handle:
    """How far the elements of columns are off the largest, and the mean of something costly."""
    off = x - fd.ops.max(x, [0], keepdim=True)
    return off + fd.ops.sum(fd.ops.tanh(off), [0], keepdim=True) / 30.0


def test_neighbouring_rows_are_folded_side_by_side():
    across = nest(off_the_largest, empty(30, 5000))
    folded = ["UNROLLED", "STRIP_LANES"]
    assert loops(across) == ["STRIP", *folded, *folded, "STRIP_LANES", "SERIAL", "STRIP_LANES"]
    assert {node.count for node in found(across, Lanes)} == {2048}
    kept = [node.dtype for node in found(across, Lanes) if node.fill is not None]
    assert kept == [DataType.Float, DataType.Float]
    assert "across" in across.mapping


def test_few_elements_are_folded_at_once_where_each_takes_a_costly_function():
    across = nest(off_the_largest, empty(30, 5000), unrolled=12, unrolled_costly=3)
    rounds = [n.step for n in found(across, Loop) if n.binding is Binding.UNROLLED]
    assert rounds == [12, 3]  # the largest, then the sum


@pytest.mark.parametrize("elements", [17, 18, 19, 20, 70])
def test_costly_elements_that_are_no_whole_rounds_are_folded_too(elements: int):
    x = torch.randn(elements, 300)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(fd.ops.exp(given), [0]))
    assert fd.plan([x]).kernels[0].source.count("sweep0(start0 + ") == 4
    fd.validate([x])


@pytest.mark.parametrize(
    ("elements", "rows"),
    [(64, 2048), (100, 1024), (200, 512), (500, 256), (1000, 2048)],  # the last do not
)
def test_strips_that_are_swept_again_stay_in_the_cache(elements: int, rows: int):
    across = nest(lambda fd, x: softmax(fd, x, 0), empty(elements, 5000))
    assert {node.count for node in found(across, Lanes)} == {rows}


@pytest.mark.parametrize(
    ("window", "words"),
    [(3, "a row a lane"), (7, "lanes across rows"), (100, "lanes along rows")],
)
def test_windows_that_slide_by_one_element_are_lanes_beside_each_other(window: int, words: str):
    """Their elements are next in memory, and so are windows: the longer axis fills more lanes."""
    image = torch.randn(2, 130, 160)
    windows = image.unfold(1, window, 1).unfold(2, window, 1)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.max(fd.from_pytorch(windows), [3, 4]))
    fd.validate([windows])
    assert nest(lambda fd, x: fd.ops.max(x, [3, 4]), windows).mapping == f"cpu rows, {words}"


def test_strips_that_are_swept_once_are_long():
    across = nest(lambda fd, x: fd.ops.sum(x, [0]), empty(1000, 5000))
    assert {node.count for node in found(across, Lanes)} == {2048}


def test_long_columns_are_summed_in_blocks():
    across = nest(off_the_largest, empty(100, 5000))
    folded = ["UNROLLED", "STRIP_LANES"]
    total = ["BLOCKS", *folded, "STRIP_LANES"]
    assert loops(across) == ["STRIP", *folded, *total, "STRIP_LANES", "SERIAL", "STRIP_LANES"]
    kept = [node.dtype for node in found(across, Lanes) if node.fill is not None]
    assert kept == [DataType.Float, DataType.Double, DataType.Float]


def test_batches_of_columns_are_parallel_too():
    across = nest(lambda fd, x: softmax(fd, x, 1), empty(7, 30, 500))
    assert loops(across)[:2] == ["PARALLEL", "STRIP"]


def test_few_columns_are_lanes_of_their_number():
    across = nest(lambda fd, x: softmax(fd, x, 1), empty(7, 30, 50))
    assert loops(across)[:2] == ["PARALLEL", "COLUMNS"]
    assert {node.count for node in found(across, Lanes)} == {50}
    rounds = {n.step for n in found(across, Loop) if n.binding is Binding.UNROLLED}
    assert rounds == {CpuRowParameters().unrolled_short}


def test_neighbouring_rows_are_joined_where_they_fold_to_one_place():
    def normalized(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = softmax(fd, x, 0)
        return [y, fd.ops.sum(y * y), fd.ops.max(y, [1])]

    across = nest(normalized, empty(30, 5000))
    assert "across" in across.mapping
    nodes = (node for node in every_node(across.body) if isinstance(node, Loop))
    last = {node.binding: node.body[-2:] for node in nodes if isinstance(node.body[-1], Accumulate)}
    for binding, slots in ((Binding.SERIAL, 30), (Binding.STRIP, 1)):
        joined, added = last[binding]
        assert isinstance(joined, Combine)
        assert isinstance(added, Accumulate)
        assert added.partial.slots == slots
    assert [node.operation for node in found(across, Combine)] == ["maximum", "add"]


def test_repeated_elements_are_read_again_in_their_order():
    def repeated(fd: FusionDefinition, x: Handle) -> Handle:
        thrice = fd.ops.expand(fd.ops.broadcast(x, [False, True, False]), [-1, 3, -1])
        return fd.ops.max(thrice, [1, 2])

    made = nest(repeated, empty(64, 1000))
    (load,) = found(made, Load)
    assert isinstance(load, Load)
    *_, inner = (node for node in every_node(made.body) if isinstance(node, Loop))
    assert load.at.coefficient(inner.axis) == 1


def test_row_values_between_sweeps_have_an_array_each():
    across = nest(layernorm, empty(30, 5000).T)
    arrays = [node.name for node in found(across, Lanes) if node.fill is None]
    assert len(arrays) == len(set(arrays))


# -- folds over the rows -------------------------------------------------------------------------


def test_folds_over_the_rows_are_joined_at_last():
    folded = nest(columns_too, empty(4096, 100))
    (region,) = folded.body
    assert isinstance(region, Region)
    assert {p.name: (p.slots, p.kept, p.operation) for p in region.partials} == {
        "T2": (100, DataType.Double, "add"),
        "T3": (1, DataType.Float, "maximum"),
    }
    finished = [node for node in every_node(region.epilogue) if isinstance(node, Finish)]
    assert [node.partial.name for node in finished] == ["T2", "T3"]
    assert finished[1].at == ZERO
    assert not any(isinstance(node, Finish) for node in every_node(region.body))


def test_few_rows_with_folds_over_them_are_not_shared_out():
    def parts_of_rows(fd: FusionDefinition, x: Handle) -> list[Handle]:
        parts = x / fd.ops.sum(x, [1], keepdim=True)
        return [parts, fd.ops.max(parts)]

    assert loops(nest(parts_of_rows, empty(3, 1 << 20)))[0] == "PARALLEL"


def test_a_body_without_reductions_has_rows_as_it_is_stored():
    picked = nest(
        lambda fd, x, i: fd.ops.index_select(x, i, 0) * 2.0,
        empty(500, 600),
        empty(700, dtype=torch.int64),
    )
    assert loops(picked) == ["PARALLEL", "CHUNKS", "SIMD", "SIMD"]
    assert picked.name == "rows_index_select_mul"


# -- scans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "in_turn"), [(9, True), (63, True), (64, False)])
def test_rows_shorter_than_a_chunk_are_scanned_point_by_point(columns: int, in_turn: bool):
    made = nest(lambda fd, x: fd.ops.cumsum(x, 1), empty(1000, columns))
    expected = ["PARALLEL", "SERIAL"] if in_turn else ["PARALLEL", "SCAN", "SIMD"]
    assert loops(made) == expected
    assert bool(found(made, ScanLanes)) is not in_turn
