"""Scatters that keep the largest or smallest of what goes to a place, or multiply it: every form of
kernel that there is for sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import ArgumentTypeError, IndexOutOfRangeError, OperandDtypeError
from fuser.frontend.handles import Handle
from fuser.passes import scatter_forms
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule.cuda_parameters import CudaRowParameters
from tests.definitions import defined, one_kernel
from tests.mapped_by import map_by
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

TARGETS = ("cpu", "emulator")
ARCHS = ("sm_80", "sm_90", "sm_100")
HOW = ("amax", "amin", "prod")
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
on_targets = pytest.mark.parametrize("target", TARGETS)
in_all_ways = pytest.mark.parametrize("how", HOW)
Join = Callable[[FusionDefinition, Handle, Handle, Handle], Handle]


@dataclass(frozen=True)
class Form:
    """Sizes that one form of kernel is for: of the data, and how many points along a dimension;
    whether all of a point's elements go to one place."""

    data: tuple[int, ...]
    points: int
    dim: int
    shared: bool

    def given(self, dtype: torch.dtype) -> list[torch.Tensor]:
        """Data, an index of as many elements as the points, and the points."""
        generator = torch.Generator().manual_seed(self.points)
        sizes = [self.points if d == self.dim else n for d, n in enumerate(self.data)]
        along = [n if d == self.dim or not self.shared else 1 for d, n in enumerate(sizes)]
        index = torch.randint(0, self.data[self.dim], along, generator=generator).expand(sizes)
        x, source = (torch.randn(n, generator=generator).mul(1.5) for n in (self.data, sizes))
        return [x.to(dtype), index, source.to(dtype)]


FORMS = {
    "lists": Form((20, 24), 50, 0, True),
    "lists, of columns apart": Form((5, 9, 20), 30, 0, True),
    "rows": Form((24, 77), 50, 1, False),
    "columns": Form((20, 3), 50, 0, True),
    "columns apart": Form((4, 6, 33), 9, 1, False),
    "elements": Form((70,), 300, 0, True),
}
in_all_forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture(autouse=True)
def _few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_forms, "LEAST_SHARED", 8)


def joined(how: str, dim: int) -> Join:
    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        return getattr(fd.ops, f"scatter_{how}")(x, index, source, dim)

    return define


def around(how: str, dim: int) -> Join:
    """With something before, which points share, and after."""

    def define(fd: FusionDefinition, x: Handle, index: Handle, source: Handle) -> Handle:
        negative = fd.ops.cast(fd.ops.neg(source), source.dtype())
        made = joined(how, dim)(fd, x, index, negative)
        return fd.ops.mul(made, 2)

    return define


@pytest.mark.parametrize("form", ["lists", "lists, of columns apart", "rows"])
@in_all_ways
@on_targets
def test_one_kernel_makes_all_of_a_result(target: str, how: str, form: str) -> None:
    one_kernel(target, joined(how, FORMS[form].dim), *FORMS[form].given(torch.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@in_all_forms
@in_all_ways
@on_targets
def test_every_dtype_is_joined(target: str, how: str, form: Form, dtype: torch.dtype) -> None:
    inputs = form.given(dtype)
    fd = defined(around(how, form.dim), *inputs)
    assert not fd.plan(inputs, target=target).externs
    fd.validate(inputs, target=target)


@in_all_forms
@on_targets
def test_nan_is_the_extreme_of_all_that_it_meets(target: str, form: Form) -> None:
    x, index, source = form.given(torch.float32)
    source.view(-1)[::7] = torch.nan
    source.view(-1)[1::7] = torch.inf
    source.view(-1)[2::7] = -torch.inf
    fd = defined(joined("amax", form.dim), x, index, source)
    (got,) = fd.execute([x, index, source], target=target)
    want = x.scatter_reduce(form.dim, index.contiguous(), source, "amax")
    torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@in_all_ways
def test_long_lists_are_cut(how: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    """263 pieces, which are 17 groups, which are 2."""
    map_by(monkeypatch, CudaRowParameters(listed_points=1))
    monkeypatch.setattr(EmulatorBackend, "order", order)
    at = torch.full((2100,), 3)[:, None].expand(2100, 40)
    x, source = torch.randn(2100, 40), torch.rand(2100, 40) * 0.1 + 0.95
    one_kernel("emulator", joined(how, 0), x, at, source)


@in_all_forms
@in_all_ways
@pytest.mark.sanitizer
def test_threads_meet_without_a_race(how: str, form: Form, sanitizer: Sanitizer) -> None:
    inputs = form.given(torch.float32)
    run_plan_sanitized(defined(joined(how, form.dim), *inputs), inputs, sanitizer)


@in_all_ways
@on_targets
def test_an_input_is_updated_in_place(target: str, how: str) -> None:
    x, index, source = FORMS["elements"].given(torch.float32)
    with FusionDefinition() as fd:
        handles = [fd.from_pytorch(given) for given in (x, index, source)]
        fd.add_output(joined(how, 0)(fd, *handles), alias_input=handles[0])
    want = x.scatter_reduce(0, index, source, how)
    fd.execute([x, index, source], target=target)
    torch.testing.assert_close(x, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("arch", ARCHS)
@in_all_forms
@in_all_ways
def test_no_spills(how: str, form: Form, arch: str) -> None:
    inputs = form.given(torch.float32)
    plan = defined(joined(how, form.dim), *inputs).plan(inputs, target=f"cuda:{arch}")
    for kernel in plan.kernels:
        assert kernel.compile().spill_bytes == 0


@in_all_ways
@on_targets
def test_an_index_out_of_range_is_named(target: str, how: str, checks_indices: None) -> None:
    x, index, source = FORMS["lists"].given(torch.float32)
    index = index.contiguous()
    index[7] = 20
    fd = defined(joined(how, 0), x, index, source)
    words = f"^scatter_{how}: index 20 is out of range; allowed: 0 to 19$"
    with pytest.raises(IndexOutOfRangeError, match=words):
        fd.execute([x, index, source], target=target)


def test_extremes_are_the_same_each_time_on_a_gpu() -> None:
    inputs = FORMS["lists"].given(torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        extern = {
            how: bool(defined(joined(how, 0), *inputs).plan(inputs, target="cuda:sm_90").externs)
            for how in HOW
        }
    finally:
        torch.use_deterministic_algorithms(False)
    assert extern == {"amax": False, "amin": False, "prod": True}


def test_what_cannot_be_joined_is_refused() -> None:
    x, index, source = FORMS["elements"].given(torch.complex64)
    with pytest.raises(OperandDtypeError, match="scatter_amax: computes in"):
        defined(joined("amax", 0), x, index, source)
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(x), fd.from_pytorch(index)
        with pytest.raises(ArgumentTypeError, match="scatter_prod: src must be a tensor"):
            fd.ops.scatter_prod(data, at, 2.0, 0)
        fd.add_output(data)
