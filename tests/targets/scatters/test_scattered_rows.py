"""Scatters whose rows have points of their own: one kernel makes row by row."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from fuser.passes import scatter_forms
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.definitions import defined, one_kernel
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

ROWS, COUNT = 24, 50
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.uint8,
)


TARGETS = "cpu", "emulator"
on_targets = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture(autouse=True)
def _few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_forms, "LEAST_SHARED", 8)


def added(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.scatter_add(x, index, source, -1)


def given(
    length: int, dtype: torch.dtype = torch.float32, *, rows: tuple[int, ...] = (ROWS,)
) -> list[torch.Tensor]:
    torch.manual_seed(length)
    index = torch.randint(0, length, (*rows, COUNT))
    return [
        torch.randn(*rows, length).mul(9).to(dtype),
        index,
        torch.randn(*rows, COUNT).mul(9).to(dtype),
    ]


@pytest.mark.parametrize("length", [16, 77, 600, 2048])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@on_targets
def test_every_dtype_is_added(target: str, length: int, dtype: torch.dtype) -> None:
    one_kernel(target, added, *given(length, dtype))


@pytest.mark.parametrize("length", [16, 600])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool], ids=str)
def test_the_last_of_several_written_to_one_place_stays(length: int, dtype: torch.dtype) -> None:
    x, _, source = given(length, dtype)
    index = torch.arange(COUNT).div(10, rounding_mode="floor").expand(ROWS, COUNT).contiguous()
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.scatter(*map(fd.from_pytorch, (x, index, source)), 1))
    expected = x.clone()
    expected[:, :5] = source[:, 9::10]
    assert torch.equal(fd.execute([x, index, source], target="cpu")[0], expected)


@on_targets
def test_what_surrounds_the_scatter_is_in_its_kernel(target: str) -> None:
    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> list[Handle]:
        total = fd.ops.scatter_add(fd.ops.neg(x), fd.ops.abs(index), fd.ops.sin(source), 2)
        return [total, fd.ops.exp(fd.ops.neg(fd.ops.abs(total)))]

    one_kernel(target, define, *given(600, rows=(3, 8)))


@on_targets
def test_a_scalar_is_written_into_zeros(target: str) -> None:
    """A row for each label, with a one in its place."""

    def define(fd: FusionDefinition, index: Handle) -> Handle:
        zeros = fd.ops.full([ROWS, 100], 0.0, DataType.Float)
        return fd.ops.scatter_add(zeros, index, fd.ops.full([ROWS, 1], 1.0, DataType.Float), 1)

    one_kernel(target, define, torch.randint(0, 100, (ROWS, 1)))


@pytest.mark.parametrize("length", [40, 600])
@on_targets
def test_rows_that_share_an_index(target: str, length: int) -> None:
    x, index, source = given(length)

    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        return fd.ops.index_add(x, index, source, 1)

    one_kernel(target, define, x, index[0].contiguous(), source)


@pytest.mark.parametrize("index", [torch.tensor(7), torch.tensor([7])], ids=["number", "list"])
@on_targets
def test_rows_have_one_point_at_one_index(target: str, index: torch.Tensor) -> None:
    x, _, source = given(40)

    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        return fd.ops.index_add(x, index, source, 1)

    one_kernel(target, define, x, index, source[:, :1])


@on_targets
def test_memory_of_other_layouts(target: str) -> None:
    x, index, source = given(40)
    one_kernel(target, added, x.t().contiguous().t(), index[:, ::2], source[:, ::2])
    one_kernel(target, added, x[:1].expand(ROWS, 40), index, source[:, :1].expand(ROWS, COUNT))


@on_targets
def test_a_source_with_more_than_the_index(target: str) -> None:
    x, index, source = given(40)
    one_kernel(target, added, x, index[:, :20].contiguous(), source)


@pytest.mark.parametrize("wrong", [-1, 40])
@on_targets
def test_a_wrong_index_is_named(target: str, wrong: int) -> None:
    x, index, source = given(40)
    fd = one_kernel(target, added, x, index, source)
    index[7, 3] = wrong
    left_out = source.clone()
    left_out[7, 3] = 0.0
    if target != "cpu":  # nothing is reported, and the point is left out
        (got,) = fd.execute([x, index, source], target=target)
        (want,) = fd.execute([x, index.clamp(0, 39), left_out], target=target)
        assert torch.equal(got, want)
        return
    with pytest.raises(IndexOutOfRangeError, match=rf"scatter_add.*index {wrong} .* 0 to 39"):
        fd.execute([x, index, source], target=target)


@on_targets
def test_sums_do_not_stop_growing(target: str) -> None:
    """16-bit numbers are added in a wider type, and rounded once."""
    x, ones = torch.zeros(8, 16).bfloat16(), torch.ones(8, 5000).bfloat16()
    index = torch.zeros(8, 5000, dtype=torch.int64)
    (made,) = one_kernel(target, added, x, index, ones).execute([x, index, ones], target=target)
    assert made[:, 0].float().tolist() == [torch.tensor(5000.0).bfloat16().float().item()] * 8


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("length", [40, 1100])
def test_threads_in_any_order(
    length: int, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a warp each, more than there are warps, and of a block each."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    one_kernel("emulator", added, *given(length))


@pytest.mark.sanitizer
@pytest.mark.parametrize("length", [40, 1100])
def test_no_race_and_no_stray_access(sanitizer: Sanitizer, length: int) -> None:
    inputs = given(length)
    (got,) = run_plan_sanitized(defined(added, *inputs), inputs, sanitizer)
    exact = inputs[0].double().scatter_add(1, inputs[1], inputs[2].double())
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_no_spills(dtype: torch.dtype, arch: str) -> None:
    inputs = [
        *(torch.zeros(100, 768, dtype=dtype), torch.zeros(100, 768).long()),
        torch.zeros(100, 768, dtype=dtype),
    ]
    (kernel,) = defined(added, *inputs).plan(inputs, target=f"cuda:{arch}").kernels
    assert kernel.compile().spill_bytes == 0
