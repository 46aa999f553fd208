"""Reads along another axis than the one stored along: every element, whatever the sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule import CpuParameters
from tests.mapped_by import PAST_CACHE, map_by

TARGETS = ("cpu", "emulator")
DTYPES = (torch.bool, torch.int8, torch.bfloat16, torch.float32, torch.int64, torch.complex128)
EDGES = ((16, 64), (17, 65), (3, 200), (130, 2), (67, 131))


def permuted(fd: FusionDefinition, x: Handle, order: Sequence[int]) -> Handle:
    """A copy with the dimensions in another order, and that order in memory."""
    return fd.ops.stride_order(fd.ops.permute(x, list(order)), list(range(len(order)))[::-1])


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    counted = torch.arange(torch.Size(shape).numel()).remainder(97)
    return (counted.remainder(2) if dtype is torch.bool else counted).reshape(shape).to(dtype)


def check_copy(x: torch.Tensor, order: Sequence[int], target: str) -> str:
    """Permutes on a target; the kernel's text."""
    with FusionDefinition() as fd:
        fd.add_output(permuted(fd, fd.from_pytorch(x), order))
    (kernel,) = fd.plan([x], target=target).kernels
    (got,) = fd.execute([x], target=target)
    assert torch.equal(got, x.permute(*order))
    return kernel.source


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_of_every_type(dtype: torch.dtype, target: str):
    assert "fill_tile" in check_copy(numbers(67, 131, dtype=dtype), [1, 0], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", EDGES, ids=str)
def test_tiles_that_do_not_divide_their_axes(shape: tuple[int, int], target: str):
    check_copy(numbers(*shape), [1, 0], target)
    check_copy(numbers(*shape[::-1]), [1, 0], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "order", [[0, 2, 1, 3], [0, 1, 3, 2], [3, 2, 1, 0], [3, 0, 2, 1], [1, 3, 0, 2]], ids=str
)
def test_any_order_of_dimensions(order: list[int], target: str):
    check_copy(numbers(3, 7, 5, 34), order, target)


@pytest.mark.usefixtures("past_cache")
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.complex128])
@pytest.mark.parametrize("shape", [(64, 16), (100, 70), (300, 33)], ids=str)
def test_lines_past_the_cache(dtype: torch.dtype, shape: tuple[int, int]):
    assert "stream_chunk(" in check_copy(numbers(*shape, dtype=dtype), [1, 0], "cpu")


def beside_each_other(*parts: torch.Tensor, dim: int) -> tuple[FusionDefinition, torch.Tensor]:
    """The transposed first and last of some matrices with the others between them, one more at the
    edges, and what that should be."""
    turned = {0, len(parts) - 1}
    with FusionDefinition() as fd:
        given = [fd.from_pytorch(part) for part in parts]
        placed = [
            fd.ops.permute(x, [1, 0]) if number in turned else x for number, x in enumerate(given)
        ]
        fd.add_output(fd.ops.pad(fd.ops.cat(placed, dim), [1, 1, 2, 0]) + 1.0)
    placed = [part.t() if number in turned else part for number, part in enumerate(parts)]
    padded = torch.nn.functional.pad(torch.cat(placed, dim), [1, 1, 2, 0])
    return fd, padded + 1.0


@pytest.mark.parametrize("past_cache", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shapes",
    [((70, 33), (33, 5), (40, 33)), ((64, 33), (33, 1), (2, 33)), ((3, 33), (33, 90), (129, 33))],
    ids=str,
)
def test_parts_of_which_some_are_turned(
    monkeypatch: pytest.MonkeyPatch,
    shapes: Sequence[tuple[int, int]],
    dtype: torch.dtype,
    past_cache: bool,
):
    if past_cache:
        map_by(monkeypatch, CpuParameters(PAST_CACHE))
    for dim in (0, 1):
        turned = [shape if dim else shape[::-1] for shape in shapes]
        fd, want = beside_each_other(*(numbers(*shape, dtype=dtype) for shape in turned), dim=dim)
        parts = [numbers(*shape, dtype=dtype) for shape in turned]
        (kernel,) = fd.plan(parts).kernels
        assert "fill_tile(" in kernel.source
        (got,) = fd.execute(parts)
        assert torch.equal(got, want.to(got.dtype))


@pytest.mark.usefixtures("past_cache")
def test_arithmetic_past_the_cache_asks_for_what_it_reads_beside_tiles():
    x, y = torch.randn(70, 130).bfloat16(), torch.randn(130, 70)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        total = fd.ops.permute(a, [1, 0]) + b
        fd.add_output(total)
        fd.add_output(fd.ops.cast(total, dtype=a.dtype()))
    (kernel,) = fd.plan([x, y]).kernels
    assert "prefetch_lanes<" in kernel.source
    wide, narrow = fd.execute([x, y])
    assert torch.equal(wide, x.T + y)
    assert torch.equal(narrow, (x.T + y).bfloat16())


@pytest.mark.parametrize("target", TARGETS)
def test_a_matrix_and_its_transposition(target: str):
    x = torch.randn(75, 75)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        fd.add_output(a + fd.ops.permute(a, [1, 0]))
    assert len(fd.plan([x], target=target).kernels) == 1
    assert torch.equal(fd.execute([x], target=target)[0], x + x.T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dim", [0, 1])
def test_transposed_parts_side_by_side(dim: int, target: str):
    x, y = torch.randn(40, 66), torch.randn(*((40, 70) if dim == 0 else (33, 66)))
    with FusionDefinition() as fd:
        parts = [fd.ops.permute(fd.from_pytorch(part), [1, 0]) for part in (x, y)]
        fd.add_output(fd.ops.cat(parts, dim) * 2.0)
    expected = torch.cat([x.T, y.T], dim) * 2
    assert torch.equal(fd.execute([x, y], target=target)[0], expected)


def check_both_ways(x: torch.Tensor, target: str, *, mixed: bool = False) -> str:
    """Stores what is made of `x`, and perhaps of what lies as its transposition does, as `x` lies
    and as that does; the kernel's text."""
    y, kept = x.flip(0).T.contiguous(), numbers(*x.shape, dtype=torch.bool)
    with FusionDefinition() as fd:
        a, b, c = (fd.from_pytorch(each) for each in (x, y, kept))
        result = fd.ops.maximum(a, fd.ops.neg(a)) if x.dtype.is_floating_point else fd.ops.set(a)
        if mixed:
            result = fd.ops.where(c, result, fd.ops.permute(b, [1, 0]))
        fd.add_output(result)
        fd.add_output(permuted(fd, result, [1, 0]))
    (kernel,) = fd.plan([x, y, kept], target=target).kernels
    straight, turned = fd.execute([x, y, kept], target=target)
    expected = torch.maximum(x, -x) if x.dtype.is_floating_point else x
    if mixed:
        expected = torch.where(kept, expected, y.T)
    assert torch.equal(straight, expected)
    assert torch.equal(turned, expected.T)
    return kernel.source


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_result_stored_both_ways(dtype: torch.dtype, target: str):
    x = numbers(67, 132, dtype=dtype)
    assert "drain_tile" not in check_both_ways(x, target)
    assert "drain_tile" in check_both_ways(x, target, mixed=True)


@pytest.mark.usefixtures("past_cache")
@pytest.mark.parametrize("shape", [(64, 64), (70, 100), (3, 200)], ids=str)
def test_a_result_stored_both_ways_past_the_cache(shape: tuple[int, int]):
    assert "stream_chunk(" in check_both_ways(numbers(*shape), "cpu")
    past = "drain_tile<true>" in check_both_ways(numbers(*shape), "cpu", mixed=True)
    assert past == (shape[0] >= 64)


def test_what_is_stored_both_ways_is_as_exact_beside_narrow_results():
    x, y = torch.randn(256, 512), torch.randn(512, 256)
    with FusionDefinition() as fd:
        a, b = map(fd.from_pytorch, (x, y))
        power = fd.ops.exp(fd.ops.permute(a, [1, 0]) + b)
        fd.add_output(fd.ops.permute(power, [1, 0]))
        fd.add_output(fd.ops.stride_order(fd.ops.cast(power, DataType.BFloat16), [1, 0]))
    wide, _ = fd.execute([x, y])
    exact = (x.T + y).double().exp().T
    assert ((wide - exact).abs() / exact).max() < 5e-7


@pytest.mark.parametrize("target", TARGETS)
def test_a_misaligned_and_strided_operand(target: str):
    x = torch.randn(80, 141)[1:, 3:]
    check_copy(x, [1, 0], target)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """A tensor, an order of its dimensions, and another tensor of the shape this gives."""
    sizes = st.sampled_from([1, 2, 3, 4, 9, 17, 40, 66])
    shape = draw(st.lists(sizes, min_size=2, max_size=4).filter(_is_small))
    order = draw(st.permutations(range(len(shape))))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
    kept = draw(st.permutations(range(len(shape))))
    x = numbers(*(shape[dim] for dim in kept)).permute(*map(kept.index, range(len(shape))))
    return x, order, numbers(*(shape[dim] for dim in order), dtype=dtype)


def _is_small(shape: list[int]) -> bool:
    return torch.Size(shape).numel() <= 20_000


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
def test_random_orders_in_the_emulator(order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    check_random("emulator", 5)


def test_random_orders_on_the_processor():
    check_random("cpu", 25)


def check_random(target: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(layouts())
    def run(drawn: tuple[torch.Tensor, list[int], torch.Tensor]) -> None:
        x, order, y = drawn
        with FusionDefinition() as fd:
            a, b = fd.from_pytorch(x), fd.from_pytorch(y)
            fd.add_output(fd.ops.permute(a, order) * 2.0 + b)
            fd.add_output(permuted(fd, a, order))
            fd.add_output(a + 1.0)
        total, moved, plain = fd.execute([x, y], target=target)
        assert torch.equal(plain, x + 1)
        torch.testing.assert_close(total, x.permute(*order) * 2 + y)
        assert torch.equal(moved, x.permute(*order))

    run()
