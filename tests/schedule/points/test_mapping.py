"""How axes map to loops, threads and lanes."""

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.schedule import (
    CpuParameters,
    CudaParameters,
    CudaRowParameters,
    LoopNest,
    ProcessorParameters,
    schedule_cpu,
    schedule_cuda,
)
from fuser.schedule.points.common import in_turn
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.names import kernel_name
from fuser.schedule.tree.statements import Lanes, Load, Prefetch, Store
from fuser.segmenter import Segment
from tests.mapped_by import PAST_CACHE
from tests.schedule import row_bodies as rows
from tests.schedule.one_thread import OneThread
from tests.schedule.points.test_joined_pieces import X, loops, steps
from tests.seeds import gelu, transpose
from tests.segmented import segment_for

Build = Callable[[FusionDefinition], None]


def segment_of(build: Build, *inputs: torch.Tensor) -> Segment:
    with FusionDefinition() as fd:
        build(fd)
    (segment,) = segment_for(fd.fusion, inputs).segments
    return segment


def cuda(
    build: Build,
    *inputs: torch.Tensor,
    alignment: int = 16,
    parameters: CudaParameters | None = None,
) -> LoopNest:
    segment = segment_of(build, *inputs)
    bases = {lies.base for lies in segment.memory.values()}
    alignments = dict.fromkeys(bases, 64) | {v: alignment for v in bases if v in segment.loads}
    return schedule_cuda(segment, alignments, parameters or CudaParameters(), CudaRowParameters())


def exp_of(given: torch.Tensor) -> Build:
    return lambda fd: fd.add_output(fd.ops.exp(fd.from_pytorch(given)))


def widths(nest: LoopNest) -> list[int]:
    """Lanes of each load and store."""
    return [node.lanes for node in every_node(nest.body) if isinstance(node, Load | Store)]


def bindings(nest: LoopNest) -> list[Binding]:
    return [node.binding for node in every_node(nest.body) if isinstance(node, Loop)]


def test_the_published_gelu_loads_two_vectors_before_it_computes():
    nest = cuda(gelu, torch.empty(8192, 3072, device="meta"))
    assert bindings(nest) == [Binding.TEAM, Binding.TEAM, Binding.LANES]
    assert widths(nest) == [4, 4]
    assert nest.launch.grid == (8192 * 3072 // (4 * 256 * 2), 1, 1)


def test_a_small_tensor_is_one_loop_of_vectors():
    given = torch.empty(64, 3072, device="meta")
    nest = cuda(exp_of(given), given)
    assert bindings(nest) == [Binding.TEAM, Binding.TEAM, Binding.LANES]
    assert widths(nest) == [4, 4]
    assert nest.launch.grid == (64 * 3072 // (2 * 4 * 256), 1, 1)


def test_the_published_transpose_has_four_lanes_on_both_sides():
    nest = cuda(transpose, torch.empty(768, 128, 64, device="meta"))
    assert len(nest.axes) == 4
    assert widths(nest) == [4, 4]


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(torch.float64, 2), (torch.float16, 8), (torch.int8, 16)]
)
def test_vectors_are_sixteen_bytes(dtype: torch.dtype, lanes: int):
    given = torch.empty(4096, device="meta", dtype=dtype)
    nest = cuda(
        lambda fd: fd.add_output(fd.ops.add(fd.from_pytorch(given), fd.from_pytorch(given))),
        given,
        given,
    )
    assert set(widths(nest)) == {lanes}


@pytest.mark.parametrize(("alignment", "piece"), [(16, 0), (8, 2), (4, 1)])
def test_misaligned_buffers_are_read_in_pieces(alignment: int, piece: int):
    given = torch.empty(4096, device="meta")
    nest = cuda(exp_of(given), given, alignment=alignment)
    assert [node.piece for node in every_node(nest.body) if isinstance(node, Load)] == [piece]
    assert widths(nest) == [4, 4]


def test_rows_of_odd_length_are_read_in_pieces_and_stored_in_vectors():
    # Rows of 6 floats with a gap: 24 of every 28 bytes are read, and 24 written.
    given = torch.empty_strided((64, 6), (7, 1), device="meta")
    nest = cuda(exp_of(given), given)
    assert [node.piece for node in every_node(nest.body) if isinstance(node, Load)] == [1]
    assert widths(nest) == [2, 2]


def test_no_thread_holds_more_of_a_tensor_than_the_parameter_says():
    wide = torch.empty(4096, device="meta", dtype=torch.float64)
    narrow = torch.empty(4096, device="meta", dtype=torch.int8)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.add(fd.from_pytorch(wide), fd.from_pytorch(narrow)))

    assert set(widths(cuda(build, wide, narrow))) == {4}


def test_what_all_lanes_share_is_loaded_once_and_what_is_scattered_lane_by_lane():
    a = torch.empty(64, 1, device="meta")
    b = torch.empty_strided((64, 64), (128, 2), device="meta")
    c = torch.empty(64, 64, device="meta")

    def build(fd: FusionDefinition) -> None:
        total = fd.ops.add(fd.from_pytorch(c), fd.from_pytorch(b))
        fd.add_output(fd.ops.add(total, fd.from_pytorch(a)))

    nest = cuda(build, c, b, a)
    lanes = next(
        n for n in every_node(nest.body) if isinstance(n, Loop) and n.binding is Binding.LANES
    )
    inside = [node.tensor.name for node in lanes.body if isinstance(node, Load)]
    vectors = [n.tensor.name for n in every_node(nest.body) if isinstance(n, Load) and n.lanes > 1]
    assert (inside, vectors) == (["T1"], ["T0"])
    assert [node.name for node in every_node(nest.body) if isinstance(node, Lanes)] == ["T4_lanes"]


@pytest.mark.parametrize(
    ("elements", "index"), [(1 << 20, DataType.Int32), (1 << 32, DataType.Int)]
)
def test_indices_are_as_wide_as_sizes_need(elements: int, index: DataType):
    given = torch.empty(elements, device="meta")
    assert cuda(exp_of(given), given).index_dtype is index


def test_offsets_count_for_the_index_width_too():
    given = torch.empty_strided((4, 4), (1 << 30, 1), device="meta")
    assert cuda(exp_of(given), given).index_dtype is DataType.Int


def test_zero_dimensional_results_are_one_thread():
    given = torch.empty((), device="meta")
    nest = cuda(exp_of(given), given)
    assert (nest.launch.grid, nest.launch.block) == ((1, 1, 1), (1, 1, 1))


def test_parameters_can_be_overridden():
    given = torch.empty(4096, device="meta")
    nest = cuda(exp_of(given), given, parameters=CudaParameters(max_lane_bytes=8, threads=64))
    assert set(widths(nest)) == {2}
    assert nest.launch.block == (64, 1, 1)
    assert nest.parameters == CudaParameters(max_lane_bytes=8, threads=64)
    assert nest.chosen.startswith(f"{nest.mapping}\ngrid 32 x 1 x 1, block 64 x 1 x 1; indices are")
    assert "max_lane_bytes=8" in nest.constants
    assert "max_lane_bytes" not in nest.chosen


def test_cpu_loops_are_parallel_outside_and_vectors_inside():
    given = torch.empty_strided((8, 6, 9), (100, 10, 1), device="meta")
    nest = schedule_cpu(segment_of(exp_of(given), given), CpuParameters())
    assert bindings(nest) == [Binding.PARALLEL, Binding.PARALLEL, Binding.SIMD]
    assert not nest.launch.threaded


def test_cpu_threads_start_where_there_is_work_for_them():
    given = torch.empty(1 << 20, device="meta")
    segment = segment_of(exp_of(given), given)
    assert schedule_cpu(segment, CpuParameters()).launch.threaded
    assert not schedule_cpu(
        segment, CpuParameters(ProcessorParameters(serial_work=1 << 40))
    ).launch.threaded


def test_of_rows_with_gaps_the_processor_asks_for_a_later_row():
    given = torch.empty_strided((4096, 512), (1023, 1), device="meta")
    other = torch.empty(4096, 512, device="meta")

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.add(fd.from_pytorch(given), fd.from_pytorch(other)))

    nest = schedule_cpu(segment_of(build, given, other), CpuParameters(PAST_CACHE))
    asked = {n.tensor.name: n for n in every_node(nest.body) if isinstance(n, Prefetch)}
    assert (asked["T0"].there, asked["T0"].at.constant) == (True, 4 * 1023)
    assert (asked["T1"].there, asked["T1"].at.constant) == (False, 0)


def test_a_later_row_is_one_of_those_that_come_next():
    other = torch.empty(8, 128, 12, 64, dtype=torch.bfloat16, device="meta")
    given = torch.empty(8, 12, 128, 64, dtype=torch.bfloat16, device="meta").permute(0, 2, 1, 3)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.add(fd.from_pytorch(other), fd.from_pytorch(given)))

    nest = schedule_cpu(segment_of(build, other, given), CpuParameters(PAST_CACHE))
    asked = {n.tensor.name: n for n in every_node(nest.body) if isinstance(n, Prefetch)}
    # 64 rows of 128 bytes are five times twelve and a few: six steps along the axis outside.
    assert (asked["T1"].there, asked["T1"].at.constant) == (True, 6 * 64)


@pytest.mark.parametrize(("positions", "asked"), [(1024, ["T0"]), (1 << 14, ["T0", "T1"])])
def test_what_is_read_again_from_a_cache_is_not_asked_for(positions: int, asked: list[str]):
    x = torch.empty(16, positions, 512, device="meta")

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.from_pytorch(x) * fd.from_pytorch(x[0]))

    nest = schedule_cpu(segment_of(build, x, x[0]), CpuParameters())
    nodes = (node for node in every_node(nest.body) if isinstance(node, Prefetch))
    assert [node.tensor.name for node in nodes] == asked


def test_short_rows_have_shorter_chunks_where_they_are_whole_lines():
    def chunks(row: int, stride: int) -> list[int]:
        given = torch.empty(40, stride, device="meta")[:, :row]
        bias = torch.empty(row, device="meta")

        def build(fd: FusionDefinition) -> None:
            fd.add_output(fd.ops.add(fd.from_pytorch(given), fd.from_pytorch(bias)))

        nest = schedule_cpu(segment_of(build, given, bias), CpuParameters(PAST_CACHE))
        loops = [node for node in every_node(nest.body) if isinstance(node, Loop)]
        return [loop.step for loop in loops if loop.binding is Binding.CHUNKS]

    assert (chunks(32, 64), chunks(48, 64), chunks(36, 64), chunks(8, 64)) == ([32], [16], [], [])
    assert [chunks(row, 512) for row in (96, 144, 192, 272, 448)] == [[32], [16], [64], [32], [64]]


def test_a_kernel_is_named_after_what_it_computes():
    given = torch.empty(64, device="meta")

    def build(fd: FusionDefinition) -> None:
        y = fd.ops.mul(fd.from_pytorch(given), 2.0)
        for name in ("exp", "exp", "neg", "abs", "sin", "cos"):
            y = getattr(fd.ops, name)(y)
        fd.add_output(y)

    assert kernel_name("pointwise", segment_of(build, given)) == "pointwise_mul_exp_neg_abs_sin"


def test_values_are_loaded_and_stored_in_turn() -> None:
    (part,) = loops(steps, X)
    nodes = in_turn(part)
    assert sorted(map(repr, nodes)) == sorted(map(repr, (*part.code, *part.stores)))
    kinds = [type(node).__name__ for node in nodes]
    assert kinds == ["Load", "Store", *["Let", "Load", "Let", "Store"] * 3]
    thread = OneThread(rows.segment_of(steps, X), [X])
    thread.at_points(part.axes, nodes)
    thread.check()
