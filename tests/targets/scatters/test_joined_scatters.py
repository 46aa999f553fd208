"""Sums of scatters into zeros: one kernel, whose points come from several tensors."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.passes import scatter_forms
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.definitions import Define, defined, one_kernel
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

SIZES = 3, 18, 24
TARGETS = "cpu", "emulator"
on_targets = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture(autouse=True)
def _few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_forms, "LEAST_SHARED", 8)


def along(dim: int) -> Define:
    """What two neighbours have of a resized image, added to both along a dimension."""

    def define(fd: FusionDefinition, x: Handle, share: Handle, low: Handle, high: Handle) -> Handle:
        zeros = fd.ops.full([40 if d == dim else SIZES[d] for d in range(3)], 0.0, x.dtype())
        ones = [-1 if d == dim else 1 for d in range(3)]
        part = x * fd.ops.reshape(share, ones)
        below = fd.ops.index_add(zeros, low, fd.ops.cast(x - part, x.dtype()), dim)
        above = fd.ops.index_add(zeros, high, fd.ops.cast(part, x.dtype()), dim)
        return fd.ops.cast(below + above, x.dtype())

    return define


def given(dim: int, count: int = 25, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(count)
    shape = [count if d == dim else SIZES[d] for d in range(3)]
    low = (torch.arange(count) * 39 // count).clamp(max=38)
    return [torch.randn(shape).to(dtype), torch.rand(count).to(dtype), low, low + 1]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@on_targets
def test_both_neighbours_of_a_resized_image(target: str, dtype: torch.dtype, dim: int) -> None:
    one_kernel(target, along(dim), *given(dim, dtype=dtype))


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 16, 33, 100])
@on_targets
def test_any_number_of_points(target: str, count: int, dim: int) -> None:
    one_kernel(target, along(dim), *given(dim, count))


def test_points_of_a_row_are_walked_in_parts():
    """No loop asks of each point whose it is, and none reads at a clamped place."""
    inputs = given(2)
    (kernel,) = one_kernel("cpu", along(2), *inputs).plan(inputs, target="cpu").kernels
    assert "clamped" not in kernel.source
    assert "where" not in kernel.source


@on_targets
def test_several_lookups_of_one_table(target: str) -> None:
    """The gradient of a table from which sentences of two lengths are read."""

    def define(fd: FusionDefinition, *given: Handle) -> Handle:
        zeros = fd.ops.full([50, 32], 0.0, DataType.Float)
        one, words, other, others = given
        terms = (
            fd.ops.index_put_accumulate(zeros, index, fd.ops.neg(gradient))
            for gradient, index in ((one, words), (other, others))
        )
        return fd.ops.add(*terms)

    words, others = torch.randint(-50, 50, (2, 9)), torch.randint(0, 50, (70,))
    one_kernel(target, define, torch.randn(2, 9, 32), words, torch.randn(70, 32), others)


@on_targets
def test_eight_are_joined(target: str) -> None:
    def define(fd: FusionDefinition, *given: Handle) -> Handle:
        zeros = fd.ops.full([40, 20], 0.0, DataType.Float)
        total, *terms = (
            fd.ops.index_add(zeros, index, x * n, 1)
            for n, (x, index) in enumerate(zip(given[::2], given[1::2], strict=True))
        )
        for term in terms:
            total = total + term
        return total

    parts = [(torch.randn(40, 3 + n), torch.randint(0, 20, (3 + n,))) for n in range(8)]
    one_kernel(target, define, *(tensor for part in parts for tensor in part))


@on_targets
def test_an_index_that_is_computed_and_one_that_is_read(target: str) -> None:
    """Points of one are in lanes, of the other they are not."""

    def define(fd: FusionDefinition, x: Handle, words: Handle, y: Handle, index: Handle) -> Handle:
        zeros = fd.ops.full([90, 89], 0.0, DataType.Float)
        added = fd.ops.index_add(zeros, fd.ops.remainder(words, 89), x, 1)
        return added + fd.ops.index_add(zeros, index, y, 1)

    words, index = torch.arange(128), torch.randint(0, 89, (128,))
    one_kernel(target, define, torch.randn(90, 128), words, torch.randn(90, 128), index)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("which", [2, 3])
@pytest.mark.parametrize("wrong", [-1, 40])
@on_targets
def test_a_wrong_index_is_named(target: str, wrong: int, which: int, dim: int) -> None:
    inputs = given(dim)
    fd = one_kernel(target, along(dim), *inputs)
    x, share, *indices = inputs
    indices[which - 2][5] = wrong
    if target == "cpu":
        with pytest.raises(IndexOutOfRangeError, match=rf"index_add.*index {wrong} .* 0 to 39"):
            fd.execute(inputs, target=target)
        return
    (got,) = fd.execute(inputs, target=target)  # nothing is reported, and the point is left out
    taken = x * share.view([-1 if d == dim else 1 for d in range(3)])
    parts = [x - taken, taken]
    parts[which - 2].select(dim, 5).zero_()
    want = torch.zeros_like(got)
    for index, part in zip(indices, parts, strict=True):
        want.index_add_(dim, index.clamp(0, 39), part)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_threads_in_any_order(
    dim: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "order", order)
    one_kernel("emulator", along(dim), *given(dim))


@pytest.mark.sanitizer
@pytest.mark.parametrize("dim", [1, 2])
def test_no_race_and_no_stray_access(sanitizer: Sanitizer, dim: int) -> None:
    inputs = given(dim)
    fd = defined(along(dim), *inputs)
    (got,) = run_plan_sanitized(fd, inputs, sanitizer)
    torch.testing.assert_close(got, fd.execute(inputs, target="cpu")[0])
