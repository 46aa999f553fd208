"""The C++ of row kernels: text without sizes, what is declared where, and checks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import CpuPrinter, CpuRowPrinter, CudaPrinter, IndexCheck, KernelSource
from fuser.codegen.kernel_source import Size
from fuser.frontend.handles import Handle
from fuser.schedule import CpuRowParameters, schedule_rows_cpu
from fuser.schedule.indices.index import Index
from fuser.schedule.tree.bindings import Binding, Team
from fuser.schedule.tree.expressions import Literal
from fuser.schedule.tree.loop_tree import Loop, Node, Region
from fuser.schedule.tree.row_statements import Partial
from fuser.schedule.tree.scatter_nodes import PointOf, WarpElements
from fuser.schedule.tree.statements import Store
from tests.definitions import Define, agrees, defined, only_kernel
from tests.kernels_made import kernels_made
from tests.row_functions import layernorm, softmax
from tests.schedule.row_bodies import loss, segment_of


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def index(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.int64)


def source(define: Define, *inputs: torch.Tensor) -> KernelSource:
    """The text of a definition that is one kernel, with any sizes."""
    (kernel,) = defined(define, *inputs).plan(inputs, target="cpu").kernels
    assert kernel.scheduler == "rows"
    assert kernel.kernel_source is not None
    return kernel.kernel_source


def body(define: Define, *inputs: torch.Tensor) -> str:
    """The function, without the device library."""
    code = source(define, *inputs).code
    return code[code.index('extern "C" void rows') :]


def column_sums(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [1]), fd.ops.sum(x, [0])]


SHORT_AND_LONG = ((512, 32), (640, 32), (512, 40), (512, 768), (512, 800))


def mean(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(x, [1])


def embedding(fd: FusionDefinition, x: Handle, i: Handle) -> Handle:
    return fd.ops.index_select(x, i, 0) * 2.0


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("define", "first", "second"),
    [
        (softmax, (empty(64, 768),), (empty(50, 1001),)),
        (lambda fd, x: softmax(fd, x, 0), (empty(64, 768),), (empty(50, 1001),)),
        (column_sums, (empty(768, 300),), (empty(1001, 257),)),
        (lambda fd, x: fd.ops.sum(x), (empty(640, 768),), (empty(555, 1001),)),
        (embedding, (empty(64, 768), index(9)), (empty(77, 600), index(30))),
        (loss, (empty(64, 768), index(64)), (empty(64, 1001), index(64))),
        (mean, (empty(64, 768),), (empty(50, 1001),)),
        (layernorm, (empty(64, 768),), (empty(50, 1001),)),
        (lambda fd, x: fd.ops.var(x), (empty(640, 768),), (empty(555, 1001),)),
    ],
    ids=["softmax", "across", "columns", "total", "embedding", "loss", "mean", "layernorm", "var"],
)
def test_kernels_of_other_sizes_have_the_same_text(
    define: Define, first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]
):
    a, b = source(define, *first), source(define, *second)
    assert a.arguments != b.arguments
    assert a.code == b.code


def test_a_kernel_is_not_compiled_again_for_other_sizes():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(softmax(fd, x) + 3.25)
    fd.execute([torch.randn(9, 300)])
    before = kernels_made()
    for shape in ((9, 301), (4000, 300), (300, 257), (10, 511)):
        fd.execute([torch.randn(shape)])
    assert kernels_made() == before


def of_one_size(define: Define, *shape: int) -> FusionDefinition:
    with FusionDefinition() as fd:
        made = define(fd, fd.define_tensor(shape=shape, contiguity=[True] * len(shape)))
        fd.add_output(made if isinstance(made, Handle) else made[0])
    return fd


def test_lengths_of_short_rows_are_in_the_text_of_definitions_of_one_size() -> None:
    def text(fd: FusionDefinition, *shape: int) -> str:
        return only_kernel(fd, [empty(*shape)]).code

    any_size = defined(softmax, empty(512, 32))
    assert text(any_size, 512, 32) == text(any_size, 640, 40)
    one_size = {shape: text(of_one_size(softmax, *shape), *shape) for shape in SHORT_AND_LONG}
    assert one_size[512, 32] == one_size[640, 32] != one_size[512, 40]
    assert one_size[512, 768] == one_size[512, 800] == text(any_size, 512, 768)


@pytest.mark.parametrize("length", [5, 16, 31, 32, 49, 64, 100, 128])
@pytest.mark.parametrize("define", [softmax, layernorm, mean], ids=lambda define: define.__name__)
def test_short_rows_of_definitions_of_one_size(define: Define, length: int) -> None:
    agrees(of_one_size(define, 100, length), [torch.randn(100, length)], "cpu")


def test_row_lengths_compile_at_most_one_kernel_for_each_power_of_two():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(softmax(fd, x) - 1.75)
    before, kernels = kernels_made(), list[int]()
    for power in range(3, 15):
        for length in (2**power, 2**power + 1, 2 ** (power + 1) - 1):
            fd.execute([torch.randn(9, length)])
        kernels.append(kernels_made() - before)
    assert all(made <= number + 1 for number, made in enumerate(kernels))


# -- sweeps --------------------------------------------------------------------------------------


def test_a_row_is_swept_in_lanes_and_the_last_ones_are_moved_back():
    text = body(lambda fd, x: fd.ops.sum(x, [1]), empty(64, 768))
    assert "#pragma omp parallel for if (threaded)" in text
    assert "float T1_lanes[32];" in text
    assert "T1_lanes[lane] = T1_lanes[lane] + where(repeated, 0.0f, T0);" in text
    assert "for (; start0 + 32 <= n1; start0 += 32) {" in text
    assert "sweep0(start0 + lane, lane, false);" in text
    assert "const int done = int(start0 + 32 - n1);" in text
    assert "sweep0(n1 - 32 + lane, lane, lane < done);" in text
    assert "join_lanes<32>([](float x, float y) { return x + y; }, T1_lanes);" in text


def test_an_extreme_may_meet_a_value_twice():
    text = body(lambda fd, x: fd.ops.max(x, [1]), empty(64, 768))
    assert "T1_lanes[lane] = where(T1_lanes[lane] > T0, T1_lanes[lane], T0);" in text


def test_rows_shorter_than_the_lanes_are_done_one_by_one():
    text = body(lambda fd, x: fd.ops.sum(x, [1]), empty(12, 3))
    assert "for (int lane = 0; lane < n1 - start0; ++lane) sweep0(start0 + lane, lane);" in text


def test_an_extreme_starts_from_what_any_number_replaces():
    assert "T1_lanes[lane] = -__builtin_inff();" in body(
        lambda fd, x: fd.ops.max(x, [1]), empty(8, 99)
    )
    least = body(lambda fd, x: fd.ops.min(x, [1]), empty(8, 99, dtype=torch.int8))
    assert "T1_lanes[lane] = int8(127);" in least


def test_sixteen_bit_numbers_are_folded_as_float32():
    text = body(lambda fd, x: fd.ops.sum(x, [1]), empty(8, 99, dtype=torch.bfloat16))
    assert "float T1_lanes[" in text
    assert "float* __restrict T1_out" in text


def test_neighbouring_rows_are_lanes():
    text = body(lambda fd, x: fd.ops.sum(x, [0]), empty(768, 64))
    assert "const int strip = strip_rows(n0, 2048, 1, threaded ? thread_count() : 1);" in text
    assert "const int rows = n0 - i0 < strip ? n0 - i0 : strip;" in text
    assert "double T1_lanes[2048];" in text
    assert "for (int lane = 0; lane < rows; ++lane)" in text


@pytest.mark.parametrize("rows", [6, 600])
def test_what_neighbouring_rows_had_in_lanes_is_made_again_for_sums_over_them(rows: int):
    """The gradient of a gate: lanes hold its sigmoid, the epilogue makes it once for each place."""
    given = [torch.randn(2, 5, rows), torch.randn(2), torch.randn(2, rows)]
    with FusionDefinition() as fd:
        x, gate, scale = map(fd.from_pytorch, given)
        opened = fd.ops.sigmoid(gate)
        scaled = scale * fd.ops.broadcast(opened, [False, True])
        row = fd.ops.sum(x * fd.ops.broadcast(scaled, [False, True, False]), [1])
        fd.add_output(row)
        fd.add_output(fd.ops.sum(row * scale, [1]) * (opened * (1.0 - opened)))
    (kernel,) = fd.plan(given, target="cpu").kernels
    assert "lane]" in kernel.source
    agrees(fd, given, "cpu")


def test_kept_values_have_an_array_for_the_row():
    text = body(softmax, empty(64, 768))
    assert "float T3_row[n1];" in text
    assert text.index("T3_row[i1] = T3;") < text.index("const float T3 = T3_row[i1];")


# -- folds over the rows -------------------------------------------------------------------------


def test_every_thread_folds_into_a_part_of_its_own():
    text = body(column_sums, empty(4096, 768))
    assert "T2_part[slot] = T2_part[slot] + double(T2_block[slot]);" in text
    assert text.index("= own_part(T2_parts, T2_slots, threads, 0.0);") > text.index("omp parallel")
    assert text.count("on_own_lines<") == text.count("__builtin_free") == 2
    joined = text.index("#pragma omp parallel for if (threads * T2_slots > 8192)")
    assert text.index("#pragma omp for\n") < joined < text.index("T2_out[i1] = T2;")


@pytest.mark.parametrize(
    ("dtype", "columns", "slots"),
    [
        (torch.float32, 16, 32),  # blocks of 4 bytes each, which are joined to 8 bytes each
        (torch.float32, 33, 64),
        (torch.float32, 768, 768),
        (torch.float64, 16, 16),  # no blocks
        (torch.float64, 17, 32),
    ],
)
def test_no_two_threads_fold_into_neighbouring_lines(dtype: torch.dtype, columns: int, slots: int):
    made = source(column_sums, empty(4096, columns, dtype=dtype))
    (room,) = [a for a in made.arguments if isinstance(a, Size) and a.name.endswith("_slots")]
    assert ("T2_blocks" in made.code) is (dtype is torch.float32)
    assert room.number == slots


def test_what_one_number_is_folded_into_has_lines_of_its_own():
    made = source(loss, empty(64, 768), index(64))
    (room,) = [a for a in made.arguments if isinstance(a, Size) and a.name.endswith("_slots")]
    assert room.number == 16


def test_what_chunks_at_the_ends_of_a_row_share_with_others_is_stored_once():
    text = body(softmax, empty(4096, 1001))
    assert "const index64 moved = i1 - chunk2;" in text
    assert "stream_moved(T5_out + i0 * n1 + i1, T5_lanes, moved, past_cache);" in text


def test_what_one_thread_folds_by_blocks_is_one_number():
    def extremes_and_sum(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.max(x, [1]), fd.ops.min(x, [1]), fd.ops.sum(x, [1])]

    x = torch.randn(16, 5000, generator=torch.Generator().manual_seed(0))
    text = body(extremes_and_sum, x)
    assert "float T1_part[1] = {-__builtin_inff()};" in text
    assert "float T2_part[1] = {__builtin_inff()};" in text
    assert "double T3_part[1] = {0.0};" in text
    fd = defined(extremes_and_sum, x)
    agrees(fd, [x], "cpu")


def test_one_thread_alone_has_no_room_for_more():
    segment = segment_of(mean, empty(16, 5000))
    printer = CpuRowPrinter(segment, schedule_rows_cpu(segment, CpuRowParameters()))
    fill = Literal(0, DataType.Float)
    folds = Partial("T9", DataType.Float, DataType.Float, "add", 2, fill)
    with pytest.raises(AssertionError, match="T9 is 2 numbers"):
        printer.node(Region((folds,), (), (), threaded=False))


def test_no_row_of_a_processor_is_swept_by_threads_of_a_gpu():
    segment = segment_of(mean, empty(16, 5000))
    nest = schedule_rows_cpu(segment, CpuRowParameters())
    with pytest.raises(AssertionError, match="no row of a processor is swept by TEAM"):
        CpuRowPrinter(segment, nest).node(Loop(nest.axes[0], Binding.TEAM, ()))


def test_sums_over_the_rows_are_widened_every_32_rows_and_at_the_end():
    text = body(column_sums, empty(4096, 768))
    rows = text[text.index("#pragma omp for") :]
    assert "T2_block[i1] = T2_block[i1] + where(repeated, 0.0f, T0);" in rows
    assert rows.count("T2_block[slot] = 0.0f;") == 2
    assert rows.index("T2_block[i1]") < rows.index("if (++T2_rows == T2_rows_of_block) {")
    assert "_block" not in body(column_sums, empty(4096, 768).double())


# -- checks --------------------------------------------------------------------------------------


def test_checks_are_numbered_and_say_what_is_allowed():
    def define(fd: FusionDefinition, x: Handle, i: Handle, j: Handle) -> Handle:
        y = softmax(fd, x)
        return fd.ops.gather(y, i, 1) + fd.ops.take_along_axis(y, j, 1)

    made = source(define, empty(8, 60), index(8, 3), index(8, 3))
    assert made.checks == (
        IndexCheck("gather", 60, wraps=False),
        IndexCheck("take_along_axis", 60, wraps=True),
    )
    assert "false, 1, errors)" in made.code
    assert "true, 2, errors)" in made.code
    assert "long long* errors, const bool threaded)" in made.code
    assert "60" not in made.code.partition('extern "C"')[2]


def test_kernels_without_gathers_take_no_errors():
    made = source(softmax, empty(8, 60))
    assert not made.checks
    assert "errors" not in made.code


def test_an_index_of_any_type_is_a_number_of_64_bits():
    text = body(embedding, empty(50, 60), empty(8, dtype=torch.int32))
    assert "checked_index(int64(T1), T2_index_size" in text
    assert DataType.Int.spelling == "int64"


def test_numbers_made_of_sizes_are_no_part_of_the_text():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        rows, columns = fd.ops.size(x, 0), fd.ops.size(x, 1)
        scaled = x * (1.0 / fd.ops.cast(rows, DataType.Float))
        shifted = scaled + fd.ops.cast(fd.ops.mul(rows, columns), DataType.Float)
        return [shifted, fd.ops.sum(shifted + fd.ops.cast(columns, DataType.Float), [1])]

    a, b = source(define, empty(64, 768)), source(define, empty(51, 601))
    assert a.arguments != b.arguments
    assert a.code == b.code
    x = torch.randn(51, 601)
    fd = defined(define, x)
    shifted = x / 51 + 51 * 601
    got = fd.execute([x])
    assert torch.allclose(got[0], shifted)
    assert torch.allclose(got[1], (shifted + 601).sum(1))


# -- nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("printer", [CpuRowPrinter, CpuPrinter, CudaPrinter])
def test_a_printer_names_itself_and_the_node_that_it_does_not_know(
    printer: type[CpuRowPrinter | CpuPrinter | CudaPrinter],
):
    segment = segment_of(mean, empty(16, 50))
    nest = replace(schedule_rows_cpu(segment, CpuRowParameters()), team=Team.WARP)
    store = Store(segment.stores[0], Index(), Literal(0, DataType.Float))
    gpu, processor = WarpElements((), (), store), PointOf("L0", Index(), Index())
    node: Node = processor if printer is CudaPrinter else gpu
    with pytest.raises(AssertionError, match=f"{printer.__name__} has no {type(node).__name__}"):
        printer(segment, nest).node(node)


def test_no_loop_of_a_gpu_is_over_strips_of_a_processor():
    segment = segment_of(mean, empty(16, 50))
    nest = schedule_rows_cpu(segment, CpuRowParameters())
    with pytest.raises(AssertionError, match="no kernel of a GPU has loops that are STRIP"):
        CudaPrinter(segment, nest).node(Loop(nest.axes[0], Binding.STRIP, ()))
