"""Short axes: elements one after the other, their neighbours in lanes, and the same results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.axes import arrange
from fuser.schedule.code.body import Body, trace
from fuser.schedule.code.pieces import pieces
from fuser.schedule.cpu_parameters import CpuParameters
from fuser.schedule.points.interleave import interleaved
from tests.schedule.one_thread import run_bodies
from tests.schedule.row_bodies import segment_of

Define = Callable[..., Handle]
X, Y = torch.randn(64), torch.randn(64)


def together(define: Define, *inputs: torch.Tensor, most: int = 8) -> list[Body]:
    """What becomes of the pieces of a definition; they store what the oracle says."""
    segment = segment_of(define, *inputs)
    parts = interleaved(pieces(arrange(trace(segment)), 24), CpuParameters(interleaved=most))
    run_bodies(segment, parts, inputs).check()
    return parts


def shape(part: Body) -> tuple[list[int], int, int]:
    """Extents, loads and stores."""
    return [axis.extent for axis in part.axes], len(part.loads), len(part.stores)


def repeated(fd: FusionDefinition, x: Handle) -> Handle:
    pairs = fd.ops.broadcast(x, [False, True])
    return fd.ops.neg(fd.ops.expand(pairs, [64, 2]))


def stacked(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    last = [False, True]
    return fd.ops.cat([fd.ops.broadcast(part, last) for part in (fd.ops.exp(x), y)], 1)


def test_elements_of_a_short_axis_are_one_body_that_loads_once() -> None:
    # for i < 64: for j < 2: out[2 i + j]   ->   for i < 64: out[2 i], out[2 i + 1]
    (part,) = together(repeated, X)
    assert shape(part) == ([64], 1, 2)
    first, second = (store.at for store in part.stores)
    assert (first.constant, second.constant) == (0, 1)
    assert len(part.lets) == 1


def test_pieces_of_one_element_are_interleaved() -> None:
    (part,) = together(stacked, X, Y)
    assert shape(part) == ([64], 2, 2)


def first_turned(fd: FusionDefinition, x: Handle) -> Handle:
    """The first half of each row, its quarters swapped, one of them negated; the rest as it is."""
    rows, quarter, columns = 48, 8, 32

    def part(first: int, end: int) -> Handle:
        return fd.ops.slice(x, [0, first], [rows, end])

    turned = [fd.ops.neg(part(quarter, 2 * quarter)), part(0, quarter)]
    return fd.ops.cat([*turned, part(2 * quarter, columns)], 1)


def test_a_whole_vector_far_from_the_next_is_a_loop_of_its_own() -> None:
    parts = together(first_turned, torch.randn(48, 32))
    assert [shape(part) for part in parts] == [([48, 8], 1, 1), ([48, 8], 1, 1), ([48, 16], 1, 1)]


def test_no_more_elements_than_may_be() -> None:
    (part,) = together(repeated, X, most=1)
    assert shape(part) == ([64, 2], 1, 1)
    assert [shape(part) for part in together(stacked, X, Y, most=1)] == [([64], 1, 1)] * 2


@pytest.mark.parametrize(("functions", "extents"), [(1, [64]), (4, [64, 8])])
def test_many_costly_functions_are_not_repeated(functions: int, extents: list[int]) -> None:
    def angles(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        result = fd.ops.add(fd.ops.broadcast(x, [False, True]), fd.ops.broadcast(y, [True, False]))
        for _ in range(functions):
            result = fd.ops.sin(result)
        return result

    (part,) = together(angles, X, torch.randn(8))
    assert [axis.extent for axis in part.axes] == extents


def test_pieces_that_do_not_store_over_each_other_stay_apart() -> None:
    def above(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        first = [True, False]
        return fd.ops.cat([fd.ops.broadcast(part, first) for part in (fd.ops.exp(x), y)], 0)

    assert [shape(part) for part in together(above, X, Y)] == [([64], 1, 1)] * 2


def test_pieces_of_other_extents_stay_apart() -> None:
    def define(fd: FusionDefinition, x: Handle, y: Handle, z: Handle) -> Handle:
        return fd.ops.cat([stacked(fd, x, y), stacked(fd, z, z)], 0)

    parts = together(define, X, Y, torch.randn(32))
    assert [shape(part) for part in parts] == [([64], 2, 2), ([32], 1, 2)]


def test_several_short_axes_are_cut_as_far_as_all_of_their_elements_are_few() -> None:
    def define(fd: FusionDefinition, x: Handle, bias: Handle) -> Handle:
        """A bias, whose rows are neither a row of x nor all of it."""
        return x + fd.ops.broadcast_in_dim(bias, [8, 3, 2], [2])

    x, bias = torch.randn(8, 3, 2), torch.randn(2)
    assert [shape(part) for part in together(define, x, bias)] == [([24], 4, 2)]
    assert [shape(part) for part in together(define, x, bias, most=1)] == [([24, 2], 2, 1)]


@pytest.mark.parametrize("most", [2, 4])
def test_random_numbers_are_not_cut_from_their_blocks(most: int) -> None:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        state = {"rng_seed": 3, "rng_offset": 0}
        pairs = fd.ops.expand(fd.ops.broadcast(x, [False, True]), [64, 2])
        return pairs + fd.ops.uniform(1.0, 2.0, [64, 2], **state)

    (part,) = together(define, X, most=most)
    assert [axis.extent for axis in part.axes] == [64, 2]


def patches(side: int, channels: int, compute: Callable[[Handle], Handle]) -> str:
    """How patches are made of an image: of [channels, rows, their pixels, columns, theirs], the
    channels become the innermost."""
    image = torch.randn(channels, 6, 2, 3, side)
    with FusionDefinition() as fd:
        turned = fd.ops.permute(compute(fd.from_pytorch(image)), [1, 3, 2, 4, 0])
        fd.add_output(fd.ops.reshape(turned, [18, 2 * side * channels]))
    fd.validate([image])
    (kernel,) = fd.plan([image], target="cpu").kernels
    return kernel.mapping


@pytest.mark.parametrize(
    ("side", "channels", "in_turn"),
    [(4, 3, True), (2, 2, True), (16, 3, True), (16, 4, True), (17, 4, False), (7, 7, False)],
)
def test_pixels_of_patches_are_done_in_turn(side: int, channels: int, in_turn: bool) -> None:
    """The gain is of few channels; of more elements, or of two axes that are not as short, tiles
    are made."""
    mapping = patches(side, channels, lambda x: x * 2.0)
    assert ("tiles of" in mapping) == (not in_turn)


@pytest.mark.parametrize("side", [7, 8, 14, 16])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_patches_are_taken_apart_to_planes_over_neighbouring_pixels(
    side: int, channels: int
) -> None:
    patch = torch.randn(18, 2 * side * channels)
    with FusionDefinition() as fd:
        pixels = fd.ops.reshape(fd.from_pytorch(patch) * 2.0, [6, 3, 2, side, channels])
        planes = fd.ops.permute(pixels, [4, 0, 2, 1, 3])
        fd.add_output(fd.ops.reshape(planes, [channels, 12, 3 * side]))
    fd.validate([patch])
    (kernel,) = fd.plan([patch], target="cpu").kernels
    code = kernel.source[kernel.source.index('extern "C" void pointwise') :]
    assert code.count("T0_in[") == channels


def test_of_long_bodies_tiles_are_made() -> None:
    def long(x: Handle) -> Handle:
        for number in range(10):
            x = x * 1.5 + (x - float(number)) * x
        return x

    assert "tiles of" in patches(16, 4, long)
