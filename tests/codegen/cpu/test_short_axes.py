"""Short innermost axes and short rows: their neighbours are in vectors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.definitions import Define, defined, only_kernel
from tests.row_functions import layernorm, softmax
from tests.vector_notes import assert_vectorized, needs_notes

ROWS, COLUMNS = 64, 1000


def repeated_in_pairs(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.expand(fd.ops.broadcast(x, [False, False, True]), [-1, -1, 2]) * 1.5


def interleaved(fd: FusionDefinition, x: Handle) -> Handle:
    halves = [fd.ops.broadcast(y, [False, False, True]) for y in (x * 2.0, fd.ops.exp(x))]
    return fd.ops.cat(halves, 2)


def rotated_in_pairs(fd: FusionDefinition, x: Handle) -> Handle:
    even, odd = (fd.ops.slice(x, [0, start], [ROWS, COLUMNS], [1, 2]) for start in (0, 1))
    pairs = [fd.ops.broadcast(y, [False, False, True]) for y in (even - odd, even + odd)]
    return fd.ops.cat(pairs, 2)


def put_side_by_side(fd: FusionDefinition, x: Handle, count: int) -> Handle:
    """`count` functions of each element, neighbours in memory."""
    made = [fd.ops.exp(x * (number / count)) for number in range(count)]
    return fd.ops.cat([fd.ops.broadcast(y, [False, False, True]) for y in made], 2)


def taken_apart(fd: FusionDefinition, x: Handle, count: int) -> list[Handle]:
    """A function of each of `count` neighbours."""
    y = fd.ops.reshape(fd.ops.slice(x, [0, 0], [ROWS // count * count, COLUMNS]), [-1, count])
    ends = [(number, number + 1) for number in range(count)]
    return [
        fd.ops.squeeze(fd.ops.exp(fd.ops.slice(y, [0, a], [y.size(0), b])), [1]) for a, b in ends
    ]


def biased(fd: FusionDefinition, x: Handle) -> Handle:
    bias = fd.ops.slice(x, [0, 0], [1, 8], [1, 1])
    y = fd.ops.reshape(x, [ROWS, -1, 8])
    return y + fd.ops.broadcast(bias, [False, True, False])


def pooled(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(fd.ops.reshape(x, [ROWS // 2, 2, -1, 2]), dims=[1, 3])


def softmax_of(fd: FusionDefinition, x: Handle, shape: list[int], dim: int) -> Handle:
    return softmax(fd, fd.ops.reshape(x, shape), dim)


def normalized(fd: FusionDefinition, x: Handle) -> Handle:
    return layernorm(fd, fd.ops.reshape(x, [-1, 8]))


def dice(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Sums over the rows, some for each place in a row, some for all."""
    p = softmax_of(fd, x, [8, 4, -1], 1)
    return [fd.ops.sum(p, [0, 2]), fd.ops.sum(p * p, [0, 1, 2]), fd.ops.max(p, [2])]


def any_of_pairs(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.any(fd.ops.reshape(x, [-1, 2]) > 1.0, [1])


def one_of_four(fd: FusionDefinition, x: Handle) -> Handle:
    """Each element at a place in a row of its own that follows from it, and zeros."""
    y = fd.ops.reshape(x, [-1, 1])
    place = fd.ops.cast(y > 0.0, DataType.Int) + fd.ops.cast(y > 1.0, DataType.Int)
    zeros = fd.ops.full([ROWS * COLUMNS, 4], 0.0, DataType.Float)
    return fd.ops.scatter(zeros, place, fd.ops.cast(y, DataType.Float), 1)


def chosen_of_four(fd: FusionDefinition, x: Handle) -> Handle:
    y = fd.ops.reshape(x, [-1, 4])
    first = fd.ops.slice(y, [0, 0], [ROWS * COLUMNS // 4, 2], [1, 1])
    return fd.ops.take_along_axis(y, fd.ops.cast(first > 0.0, DataType.Int) + 2, 1) * 2.0


def places_chosen_of_four(fd: FusionDefinition, x: Handle) -> Handle:
    """A gather of what is not memory but computed where it is read."""
    y = fd.ops.reshape(x, [-1, 4])
    places = fd.ops.reshape(fd.ops.iota(ROWS * COLUMNS, 3, 2, DataType.Int), [-1, 4])
    chosen = fd.ops.take_along_axis(places, fd.ops.cast(y > 0.0, DataType.Int) + 2, 1)
    return fd.ops.cast(chosen, DataType.Float) * 2.0


def lines_of_a_table(fd: FusionDefinition, x: Handle) -> Handle:
    table = fd.ops.reshape(fd.ops.slice(x, [0, 0], [1, 32], [1, 1]), [8, 4])
    y = fd.ops.reshape(x, [-1])
    place = fd.ops.cast(y > 0.0, DataType.Int) + fd.ops.cast(y > 1.0, DataType.Int) * 6
    return fd.ops.index_select(table, place, 0) * 2.0


def planes(fd: FusionDefinition, x: Handle) -> Handle:
    """Pixels of four channels, each channel with a bias, as planes."""
    pixels = fd.ops.reshape(x, [16, -1, 4])
    bias = fd.ops.slice(pixels, [0, 0, 0], [1, 1, 4], [1, 1, 1])
    return fd.ops.stride_order(fd.ops.permute(pixels * 0.5 - bias, [0, 2, 1]), [2, 1, 0])


CASES: dict[str, Define] = {
    "planes": planes,
    "repeated in pairs": repeated_in_pairs,
    "interleaved": interleaved,
    "rotated in pairs": rotated_in_pairs,
    "five side by side": lambda fd, x: put_side_by_side(fd, x, 5),
    "six side by side": lambda fd, x: put_side_by_side(fd, x, 6),
    "nine side by side": lambda fd, x: put_side_by_side(fd, x, 9),
    "five taken apart": lambda fd, x: taken_apart(fd, x, 5),
    "six taken apart": lambda fd, x: taken_apart(fd, x, 6),
    "biased": biased,
    "pooled": pooled,
    "softmax of pairs": lambda fd, x: softmax_of(fd, x, [-1, 2], 1),
    "softmax of fours": lambda fd, x: softmax_of(fd, x, [-1, 4], 1),
    "softmax between": lambda fd, x: softmax_of(fd, x, [16, 4, -1], 1),
    "normalized": normalized,
    "any of pairs": any_of_pairs,
    "over the rows too": dice,
    "one of four": one_of_four,
    "chosen of four": chosen_of_four,
    "places chosen of four": places_chosen_of_four,
    "lines of a table": lines_of_a_table,
    "scanned": lambda fd, x: fd.ops.cumsum(fd.ops.reshape(x, [-1, 4]), 1),
    "extremes so far": lambda fd, x: fd.ops.cummax(fd.ops.reshape(x, [16, 8, -1]), 1),
}


@needs_notes
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_every_loop_is_vectorized(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(ROWS, COLUMNS).to(dtype)
    fd = defined(CASES[name], x)
    fd.validate([x])
    assert_vectorized(only_kernel(fd, [x]), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_special_numbers_come_through(name: str) -> None:
    x = torch.randn(ROWS, COLUMNS)
    for place, number in enumerate((torch.nan, torch.inf, -torch.inf, -0.0)):
        x[place::7, place::5] = number
    defined(CASES[name], x).validate([x])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8, 9])
def test_images_become_planes(channels: int, dtype: torch.dtype) -> None:
    """Of any size, large ones past the cache, and with gaps between pixels."""
    for height, width, gap in ((3, 5, 0), (64, 33, 0), (31, 70, 2), (700, 900, 0)):
        given = torch.rand(2, height, width, channels + gap).mul(200).to(dtype)[..., :channels]
        with FusionDefinition() as fd:
            x = fd.ops.cast(fd.from_pytorch(given), DataType.Float)
            bias = fd.from_pytorch(torch.rand(channels, 1, 1))
            made = (fd.ops.permute(x, [0, 3, 1, 2]) / 255.0 - bias) * 4.0
            fd.add_output(fd.ops.stride_order(made, [3, 2, 1, 0]))
        fd.validate([given, torch.rand(channels, 1, 1)])


def test_what_neighbours_share_is_loaded_and_computed_once() -> None:
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.expand(fd.ops.broadcast(y, [False, False, True]), [-1, -1, 3]) * 2.0)
    (kernel,) = fd.plan([x]).kernels
    text = kernel.source[kernel.source.index('extern "C"') :]
    assert text.count("exp(") == text.count("T0_in[") == 1
    assert [f"i0 * 3{place}] = " in text for place in ("", " + 1", " + 2")] == [True] * 3


@pytest.mark.parametrize("function", ["neg", "exp"])
def test_a_number_of_each_row_is_no_reason_for_lanes_over_rows(function: str) -> None:
    """Compilers take seconds over vectors of elements far apart; functions of lanes make up for it.
    The zeros are a loop of their own."""
    x, number = torch.randn(ROWS, 20)[:, :8], torch.randn(ROWS, 1)
    with FusionDefinition() as fd:
        y = fd.from_pytorch(x) * fd.from_pytorch(number)
        fd.add_output(fd.ops.pad(getattr(fd.ops, function)(y), [2, 0, 0, 0]))
    fd.validate([x, number])
    (kernel,) = fd.plan([x, number]).kernels
    assert kernel.source.count("omp for simd") == (2 if function == "exp" else 1)


def test_zeros_of_both_signs_stay_apart() -> None:
    x = torch.randn(ROWS, COLUMNS)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        chosen = [fd.ops.where(given > 0.0, given, zero) for zero in (0.0, -0.0)]
        fd.add_output(fd.ops.cat([fd.ops.broadcast(z, [False, False, True]) for z in chosen], 2))
    (out,) = fd.execute([x])
    (expected,) = interpret(fd.fusion, [x])
    assert torch.equal(out.signbit(), expected.signbit())


@pytest.mark.parametrize("rows", [16, 17, 33, 1000])
@pytest.mark.parametrize("length", [2, 3, 5, 7, 8])
def test_short_rows_of_any_number(rows: int, length: int) -> None:
    x = torch.randn(rows, length, dtype=torch.float64)
    with FusionDefinition() as fd:
        y = fd.from_pytorch(x)
        e = fd.ops.exp(y - fd.ops.max(y, [1], keepdim=True))
        fd.add_output(e / fd.ops.sum(e, [1], keepdim=True))
        fd.add_output(fd.ops.prod(y, [1]))
        fd.add_output(fd.ops.sum(y * y, [0]))
        fd.add_output(fd.ops.min(y, [0, 1]))
    fd.validate([x])
    (kernel,) = fd.plan([x]).kernels
    assert "T0_at_1" in kernel.source


def test_rows_updated_in_place_are_read_before() -> None:
    x = torch.randn(100, 4)
    expected = torch.softmax(x, 1)
    with FusionDefinition() as fd:
        y = fd.from_pytorch(x)
        e = fd.ops.exp(y - fd.ops.max(y, [1], keepdim=True))
        fd.add_output(e / fd.ops.sum(e, [1], keepdim=True), alias_input=y)
    fd.execute([x])
    torch.testing.assert_close(x, expected)


def test_long_code_is_not_repeated_for_each_element() -> None:
    def sines(fd: FusionDefinition, x: torch.Tensor) -> Handle:
        y = given = fd.from_pytorch(x)
        for _ in range(150):
            y = fd.ops.sin(y) + given
        return y

    def turned(fd: FusionDefinition, x: torch.Tensor) -> Handle:
        return fd.ops.stride_order(fd.ops.permute(sines(fd, x), [1, 0, 2]), [2, 1, 0])

    defined = (
        (lambda fd, x: fd.ops.sum(sines(fd, x), [1]), torch.randn(2000, 8)),
        (turned, torch.randn(50, 40, 8)),
    )
    for define, x in defined:
        with FusionDefinition() as fd:
            fd.add_output(define(fd, x))
        (kernel,) = fd.plan([x]).kernels
        assert kernel.source.count("= sin(") == 150


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize("length", [32, 34, 62, 64, 94, 128])
def test_every_second_number_of_short_rows(length: int, dtype: torch.dtype) -> None:
    """Sixteen of them are read at once, and none beyond the last."""
    x = torch.arange(8 * (length + 1)).reshape(8, length + 1).to(dtype)
    mask = x % 3 == 0
    with FusionDefinition() as fd:
        given, chosen = fd.from_pytorch(x), fd.from_pytorch(mask)
        for start in (0, 1):
            even = fd.ops.slice(given, [0, start], [8, length], [1, 2])
            which = fd.ops.slice(chosen, [0, start], [8, length], [1, 2])
            fd.add_output(fd.ops.where(which, even, fd.ops.neg(even)))
    for start, found in zip((0, 1), fd.execute([x, mask]), strict=True):
        part, which = x[:, start:length:2], mask[:, start:length:2]
        assert torch.equal(found, torch.where(which, part, -part))
    if length == 128:
        assert "read_steps<16, 2>" in fd.plan([x, mask]).kernels[0].source
