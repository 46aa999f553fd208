"""Which loads go by tiles, and how large these are."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule import (
    CpuParameters,
    CudaParameters,
    CudaRowParameters,
    schedule_cpu,
    schedule_cuda,
)
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.indices.index import Axis
from fuser.schedule.points.tiling import (
    Turned,
    cpu_shape,
    cuda_shape,
    find_turned,
    pitch,
    shared_bytes,
    within_shared,
)
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop, every_node
from fuser.schedule.tree.statements import DrainTile, FillTile, Load, Store, TileLine
from fuser.segmenter import Segment
from tests.definitions import Define, defined
from tests.segmented import segment_for

SIZES = (1, 2, 3, 5, 16, 63, 64, 65, 200, 100_000)


def segment_of(define: Define, *inputs: torch.Tensor) -> Segment:
    (segment,) = segment_for(defined(define, *inputs).fusion, inputs).segments
    return segment


def body_of(define: Define, *inputs: torch.Tensor) -> Body:
    return arrange(trace(segment_of(define, *inputs)))


def matrix(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def transposed(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(fd.ops.permute(x, [1, 0]), [1, 0])


def added(fd: FusionDefinition, x: Handle, *others: Handle) -> Handle:
    """x + the transposition of each other."""
    for other in others:
        x = x + fd.ops.permute(other, [1, 0])
    return x


def turned(define: Define, *inputs: torch.Tensor) -> Turned:
    found = find_turned(body_of(define, *inputs))
    assert found is not None
    return found


def cuda(define: Define, *inputs: torch.Tensor, alignment: int = 64) -> LoopNest:
    segment = segment_of(define, *inputs)
    bases = {lies.base for lies in segment.memory.values()}
    alignments = dict.fromkeys(bases, alignment)
    return schedule_cuda(segment, alignments, CudaParameters(), CudaRowParameters())


# -- what is turned ------------------------------------------------------------------------------


def test_a_transposed_operand_is_turned_and_the_other_is_not():
    found = turned(added, matrix(30, 40), matrix(40, 30))
    (read,), (beside,) = found.loads, found.rest.loads
    assert (read.at.coefficient(found.along), beside.at.coefficient(found.along)) == (1, 40)
    assert (found.along.extent, found.across.extent) == (30, 40)


def test_the_same_tensor_both_ways():
    found = turned(added, matrix(30, 30), matrix(30, 30))
    assert len(found.loads) == len(found.rest.loads) == 1


@pytest.mark.parametrize(
    "define",
    [
        lambda fd, x: fd.ops.exp(x),
        lambda fd, x: fd.ops.flip(x, [1]) * 2.0,
        lambda fd, x: (
            x + fd.ops.broadcast_in_dim(fd.ops.slice(x, [0, 0], [1, 40]), [30, 40], [0, 1])
        ),
        lambda fd, x: fd.ops.slice(x, [0, 0], [30, 40], [1, 2]) + 1.0,
    ],
)
def test_what_is_read_along_the_rows_that_are_stored_is_not_turned(define: Define):
    assert find_turned(body_of(define, matrix(30, 40))) is None


def test_one_row_is_not_turned():
    assert find_turned(body_of(transposed, matrix(1, 40))) is None
    assert find_turned(body_of(lambda fd, x: x + 1.0, matrix())) is None


def test_of_two_axes_the_one_is_taken_along_which_most_is_read():
    def define(fd: FusionDefinition, x: Handle, y: Handle, z: Handle) -> Handle:
        return x + fd.ops.permute(y, [0, 2, 1]) + fd.ops.permute(z, [2, 1, 0])

    cube, wide = matrix(20, 20, 20), matrix(20, 20, 20, dtype=torch.float64)
    of_wide_last = turned(define, cube, cube, wide)
    assert [load.tensor.dtype.itemsize for load in of_wide_last.loads] == [8]
    of_wide_middle = turned(define, cube, wide, cube)
    assert [load.tensor.dtype.itemsize for load in of_wide_middle.loads] == [8]
    assert of_wide_last.along != of_wide_middle.along


def both_ways(fd: FusionDefinition, x: Handle, y: Handle) -> tuple[Handle, Handle]:
    """Of operands that lie both ways."""
    total = x + fd.ops.permute(y, [1, 0])
    return total, transposed(fd, total)


def test_a_store_is_turned_too():
    found = turned(both_ways, matrix(30, 40), matrix(40, 30))
    assert (len(found.loads), len(found.stores), len(found.rest.stores)) == (1, 1, 1)
    assert found.rest.stores[0].at.coefficient(found.across) == 1
    assert found.stores[0].at.coefficient(found.along) == 1


def test_where_there_is_no_room_stores_are_left_before_loads():
    found = turned(both_ways, matrix(30, 40), matrix(40, 30))
    one, none = found.limited(1), found.limited(0)
    assert (len(one.loads), len(one.stores), len(one.rest.stores)) == (1, 0, 2)
    assert (len(none.loads), len(none.rest.loads)) == (0, 2)
    assert one.rest.stores[-1] == none.rest.stores[-1] == found.rest.stores[-1]


def test_an_index_that_is_clamped_across_is_turned():
    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.pad(fd.ops.permute(x, [1, 0]), [3, 2]) * y

    assert len(turned(define, matrix(35, 66), matrix(66, 40)).loads) == 1


def test_a_part_is_turned_whatever_others_are():
    """Queries, keys and values of heads, the keys turned, beside each other: the gradient of what
    an attention projects its input to."""

    def heads_last(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.reshape(fd.ops.permute(x, [0, 2, 1, 3]), [4, 256, 768])

    def define(fd: FusionDefinition, q: Handle, k: Handle, v: Handle) -> Handle:
        keys = fd.ops.permute(k, [0, 1, 3, 2]) * 0.125
        return fd.ops.cat([heads_last(fd, part) for part in (q, keys, v)], 2)

    heads, turned_heads = matrix(4, 12, 256, 64), matrix(4, 12, 64, 256)
    nest = schedule_cpu(segment_of(define, heads, turned_heads, heads), CpuParameters())
    assert nest.mapping == "cpu pointwise, 6 loop(s), 2 piece(s), tiles of 16 x 128"
    fills = [node for node in every_node(nest.body) if isinstance(node, FillTile)]
    assert len(fills) == 1
    # Neighbours are read of neighbours, and nothing is divided.
    loads = [node for node in every_node(nest.body) if isinstance(node, Load)]
    assert all(isinstance(term, Axis) for load in (*loads, *fills) for term, _ in load.at.terms)


# -- how large tiles are -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (torch.int8, (64, 256)),
        (torch.bfloat16, (32, 128)),
        (torch.float32, (16, 64)),
        (torch.float64, (8, 32)),
        (torch.complex128, (4, 16)),
    ],
)
def test_cpu_tiles_have_a_line_of_the_cache_of_each_row(dtype: torch.dtype, shape: tuple[int, int]):
    found = turned(transposed, matrix(8192, 8192, dtype=dtype))
    tile = cpu_shape(found, CpuParameters(), past_cache=True)
    assert (tile.lines, tile.columns) == shape


@pytest.mark.parametrize(
    ("dtype", "columns", "step"),
    [
        *[(torch.float32, 128, 700), (torch.float32, 64, 1024), (torch.float32, 64, 512)],
        *[(torch.int8, 256, 700), (torch.bfloat16, 128, 1024), (torch.float64, 32, 700)],
    ],
)
def test_tiles_are_wider_in_a_cache_but_where_its_sets_are_few(
    dtype: torch.dtype, columns: int, step: int
):
    found = turned(transposed, matrix(700, step, dtype=dtype))
    assert cpu_shape(found, CpuParameters(), past_cache=False).columns == columns


@pytest.mark.parametrize("past_cache", [False, True])
@pytest.mark.parametrize("rows", SIZES[1:])
@pytest.mark.parametrize("columns", SIZES[1:])
def test_cpu_tiles_fit_their_axes(rows: int, columns: int, past_cache: bool):
    found = turned(transposed, matrix(rows, columns))
    tile = cpu_shape(found, CpuParameters(), past_cache=past_cache)
    assert 2 <= tile.lines <= found.along.extent
    assert 2 <= tile.columns <= found.across.extent


@pytest.mark.parametrize("rows", SIZES[1:])
@pytest.mark.parametrize("columns", SIZES[1:])
def test_cuda_tiles_are_as_long_as_the_other_side_is_short(rows: int, columns: int):
    tile = cuda_shape(turned(transposed, matrix(rows, columns)), CudaParameters())
    assert tile.lines * tile.columns <= 4096
    assert tile.columns < 2 * rows
    assert tile.lines < 2 * columns
    if rows * columns > 4 * 4096 and min(rows, columns) > 2:
        assert tile.lines * tile.columns == 4096


@pytest.mark.parametrize("count", [1, 2, 3, 8, 24, 40])
def test_tiles_of_a_block_fit_its_shared_memory(count: int):
    others = [matrix(512, 512) for _ in range(count)]
    found = turned(added, matrix(512, 512), *others)
    shape = cuda_shape(found, CudaParameters())
    fitting = within_shared(found, shape, CudaParameters())
    assert shared_bytes(fitting, shape) <= CudaParameters().tile_bytes
    assert len(fitting.loads) == min(count, 33)
    assert len(fitting.rest.loads) == count + 1 - len(fitting.loads)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.float16, torch.float32, torch.float64, torch.complex128]
)
def test_columns_begin_in_different_banks(dtype: torch.dtype):
    found, size = turned(transposed, matrix(512, 512, dtype=dtype)), dtype.itemsize
    between = pitch(cuda_shape(found, CudaParameters()).lines, size) * size
    assert between // max(size, 4) % 2 == 1
    assert between % 4 == 0


# -- loops ---------------------------------------------------------------------------------------


def test_the_loops_of_a_transposition_on_the_processor():
    nest = schedule_cpu(segment_of(transposed, matrix(8192, 8192)), CpuParameters())
    nodes = list(every_node(nest.body))
    bindings = [node.binding for node in nodes if isinstance(node, Loop)]
    assert bindings == [Binding.TILED, Binding.TILED, Binding.TILE_LINES, Binding.SIMD]
    assert [node.lanes for node in nodes if isinstance(node, TileLine | Store)] == [64, 64]
    assert not any(isinstance(node, Load) for node in nodes)


def test_outputs_that_the_cache_holds_are_stored_element_by_element():
    nest = schedule_cpu(segment_of(transposed, matrix(512, 512)), CpuParameters())
    assert [node.lanes for node in every_node(nest.body) if isinstance(node, Store)] == [1]


def test_a_block_has_a_tile():
    nest = cuda(transposed, matrix(8192, 100))
    assert nest.launch.grid == (2, 128, 1)
    assert nest.launch.block == (256, 1, 1)


@pytest.mark.parametrize(("alignment", "moved"), [(64, 4), (8, 2), (4, 1)])
def test_both_sides_are_vectors_where_memory_is_aligned(alignment: int, moved: int):
    nest = cuda(transposed, matrix(512, 512), alignment=alignment)
    tiles = [node.moved for node in every_node(nest.body) if isinstance(node, FillTile)]
    stores = [node.lanes for node in every_node(nest.body) if isinstance(node, Store)]
    assert (tiles, stores) == ([moved], [moved])


def test_rows_of_odd_length_are_stored_one_by_one_and_read_in_vectors():
    nest = cuda(transposed, matrix(511, 512))
    tiles = [node.moved for node in every_node(nest.body) if isinstance(node, FillTile)]
    stores = [node.lanes for node in every_node(nest.body) if isinstance(node, Store)]
    assert (tiles, stores) == ([4], [1])


def test_what_is_kept_for_a_turned_store_is_stored_after_the_lines():
    nest = cuda(both_ways, matrix(512, 512), matrix(512, 512))
    (outer,) = nest.body
    assert isinstance(outer, Loop)
    (inner,) = outer.body
    assert isinstance(inner, Loop)
    *_, lines, drain = inner.body
    assert isinstance(lines, Loop)
    assert isinstance(drain, DrainTile)
    assert drain.moved == 4


def test_small_tiles_have_few_threads():
    assert cuda(transposed, matrix(4, 8)).launch.block == (8, 1, 1)
