"""Running sums, products and extremes as kernels: torch's numbers on the processor and as CUDA."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from fuser.schedule import CpuRowParameters
from fuser.schedule.cuda_parameters import CudaRowParameters
from tests.definitions import Define, agrees, defined
from tests.mapped_by import THREADED, map_by
from tests.row_functions import softmax
from tests.strategies import (
    METADATA,
    NORMALIZATIONS,
    POINTWISE,
    REDUCTIONS,
    SCANS,
    Definition,
    definitions,
)
from tests.targets.test_random_fusions import check as check_definition

NAMES = ("cumsum", "cumprod", "cummax", "cummin")
TARGETS = pytest.mark.parametrize("target", ["cpu", "emulator"])
SHAPES = (
    ((37, 301), 1),
    ((37, 301), 0),
    ((5, 64, 33), 1),
    ((1, 1000), 1),
    ((70_001,), 0),
    ((3, 4097), 1),
    ((4097, 3), 0),
    ((17, 1), 1),
    ((300, 7), 1),
)


def run(define: Define, *inputs: torch.Tensor, target: str, kernels: int = 1) -> list[torch.Tensor]:
    """The results, which are the oracle's, of so many kernels and nothing else."""
    fd = defined(define, *inputs)
    plan = fd.plan(inputs, target=target)
    assert (len(plan.kernels), len(plan.externs)) == (kernels, 0)
    return agrees(fd, inputs, target)


def near_one(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers whose products stay small, and whose sums do not cancel."""
    torch.manual_seed(0)
    if dtype.is_floating_point:
        return (torch.rand(shape) * 0.02 + 0.99).to(dtype)
    return torch.randint(0 if dtype is torch.uint8 else -3, 4, shape).to(dtype)


def every_scan(fd: FusionDefinition, x: Handle, dim: int) -> list[Handle]:
    return [getattr(fd.ops, name)(x, dim) for name in NAMES]


@TARGETS
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_any_dimension_and_length(shape: tuple[int, ...], dim: int, target: str):
    x = near_one(shape, torch.float32)
    run(lambda fd, x: fd.ops.cumsum(x, dim), x, target=target)
    run(lambda fd, x: every_scan(fd, x, dim), x, target=target)


@TARGETS
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_from_the_end(shape: tuple[int, ...], dim: int, target: str):
    x = near_one(shape, torch.float32)
    x[..., 0] += 1.0
    run(lambda fd, x: fd.ops.cumsum(x, dim, reverse=True), x, target=target)
    run(
        lambda fd, x: [
            getattr(fd.ops, name)(x, dim, reverse=True) * (x + 1.0)
            for name in ("cumprod", "cummax")
        ],
        x,
        target=target,
    )


@TARGETS
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_any_type_from_the_end(dtype: torch.dtype, target: str):
    x = near_one((23, 130), dtype)
    run(lambda fd, x: fd.ops.cumsum(x, 1, reverse=True), x, target=target)


@TARGETS
def test_a_gradient_of_a_running_sum_is_one_kernel(target: str):
    def define(fd: FusionDefinition, x: Handle, kept: Handle) -> Handle:
        back = fd.ops.set(fd.ops.flip(fd.ops.cumsum(fd.ops.flip(fd.ops.exp(x), [1]), 1), [1]))
        return fd.ops.where(kept, back, 0.0)

    for columns in (6, 50, 1000):
        x = torch.randn(40, columns)
        run(define, x, x > 0.0, target=target)


@TARGETS
def test_scans_in_both_directions_are_two_kernels(target: str):
    x = torch.randn(40, 300)
    run(
        lambda fd, x: fd.ops.cumsum(x, 1) + fd.ops.cumsum(x, 1, reverse=True),
        x,
        target=target,
        kernels=2,
    )


@TARGETS
def test_sums_and_places_beside_a_scan_from_the_end(target: str):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        scanned = fd.ops.cumsum(x, 1, reverse=True)
        place = fd.ops.broadcast(fd.ops.iota(300, dtype=DataType.Float), [True, False])
        return [scanned * place, fd.ops.sum(scanned, [1]), fd.ops.sum(x, [0]), fd.ops.max(x, [1])]

    run(define, torch.randn(40, 300), target=target)


@TARGETS
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    ],
    ids=str,
)
def test_any_type(dtype: torch.dtype, target: str):
    x = near_one((23, 130), dtype)
    run(lambda fd, x: every_scan(fd, x, 0), x, target=target)
    run(lambda fd, x: every_scan(fd, x, 1), x, target=target)


@TARGETS
@pytest.mark.parametrize("dim", [0, 1])
def test_nan_and_infinity_go_on_as_in_torch(dim: int, target: str):
    x = torch.randn(70, 200)
    x[3, 50], x[60, 120] = torch.nan, torch.nan
    x[7, 9], x[7, 100], x[8, 17] = torch.inf, -torch.inf, -torch.inf
    run(lambda fd, x: [getattr(fd.ops, n)(x, dim) for n in ("cummax", "cummin")], x, target=target)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.isnan(fd.ops.cumsum(fd.from_pytorch(x), dim)))
    assert torch.equal(fd.execute([x], target=target)[0], x.cumsum(dim).isnan())


def test_long_sums_of_float32_do_not_drift():
    x = torch.rand(1 << 24)
    (sums,) = run(lambda fd, x: fd.ops.cumsum(x, 0), x, target="cpu")
    torch.testing.assert_close(sums.double(), x.double().cumsum(0), rtol=2**-22, atol=0.0)


@TARGETS
def test_products_may_be_smaller_than_float32_for_a_while(target: str):
    x = torch.cat([torch.full((40,), 2.0**-10), torch.full((40,), 2.0**10)])
    (products,) = run(lambda fd, x: fd.ops.cumprod(x, 0), x, target=target)
    assert products[-1] == 1.0


def share_of_largest(fd: FusionDefinition, x: Handle) -> Handle:
    sums = fd.ops.cumsum(fd.ops.exp(x), 1)
    return sums / fd.ops.max(sums, [1], keepdim=True)


def kept_for_phases(fd: FusionDefinition, x: Handle) -> Handle:
    """Costly powers that two sweeps need both before and after they scan them."""
    e = fd.ops.exp(x)
    sums = fd.ops.cumsum(e, 1)
    return (sums - e) / fd.ops.max(sums * e, [1], keepdim=True)


def viewed(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Scanned along two dimensions as one, whose memory is not walked as one."""
    seen = fd.ops.reshape(fd.ops.exp(x), [9, 300])
    return fd.ops.reshape(fd.ops.cumsum(seen, 1), [9, 12, 25]) * y


FUSED: dict[str, tuple[Define, tuple[tuple[int, ...], ...]]] = {
    "around": (lambda fd, x: fd.ops.cumsum(fd.ops.exp(x), 1) * 2.0, ((9, 300),)),
    "exclusive": (lambda fd, x: fd.ops.cumsum(x, 1) - x, ((9, 300),)),
    "folded along": (lambda fd, x: fd.ops.sum(fd.ops.cumsum(x, 1), [1]), ((9, 300),)),
    "folded over rows": (lambda fd, x: fd.ops.sum(fd.ops.cumsum(x, 1), [0]), ((9, 300),)),
    "folded to one": (lambda fd, x: fd.ops.sum(fd.ops.cumsum(x, 1), [0, 1]), ((9, 300),)),
    "columns folded": (lambda fd, x: fd.ops.sum(fd.ops.cumsum(x, 0), [0]), ((300, 90),)),
    "columns folded over rows": (lambda fd, x: fd.ops.sum(fd.ops.cumsum(x, 0), [1]), ((300, 90),)),
    "twice": (lambda fd, x: fd.ops.cumsum(fd.ops.cumsum(x, 1), 1), ((9, 300),)),
    "twice in one row": (lambda fd, x: fd.ops.cumsum(fd.ops.cumsum(x, 0), 0), ((3000,),)),
    "side by side": (
        lambda fd, x: [fd.ops.cumsum(x, 0), fd.ops.cummax(x, 0), fd.ops.exp(x)],
        ((3000,),),
    ),
    "of a softmax": (lambda fd, x: fd.ops.cumsum(softmax(fd, x), 1), ((9, 300),)),
    "swept again": (share_of_largest, ((9, 300),)),
    "kept for two phases": (kept_for_phases, ((9, 300),)),
    "of a triangle": (lambda fd, x: fd.ops.cumsum(fd.ops.triu(x, 1), 0), ((40, 30),)),
    "of a constant": (
        lambda fd, x: fd.ops.cumsum(fd.ops.full([3, 700], 0.5, DataType.Float), 1) + x,
        ((3, 700),),
    ),
    "of a permuted tensor": (
        lambda fd, x: fd.ops.cumsum(fd.ops.permute(x, [1, 0]), 1) * 2.0,
        ((300, 40),),
    ),
    "of a flipped tensor": (lambda fd, x: fd.ops.cumsum(fd.ops.flip(x, [1]), 1), ((9, 300),)),
    "bfloat16": (
        lambda fd, x: fd.ops.cast(fd.ops.cumsum(fd.ops.neg(x), 1), DataType.BFloat16),
        ((9, 300),),
    ),
}


@TARGETS
@pytest.mark.parametrize("name", FUSED)
def test_what_is_around_a_scan_shares_its_kernel(name: str, target: str):
    define, shapes = FUSED[name]
    run(define, *(near_one(shape, torch.float32) for shape in shapes), target=target)


@TARGETS
@pytest.mark.parametrize("dims", [[0, 1, 2], [1, 2]])
def test_each_element_is_scanned_once_however_often_it_is_folded(dims: list[int], target: str):
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        sums = fd.ops.broadcast_in_dim(fd.ops.cumprod(x, 1), [12, 3, 9], [0, 2])
        return fd.ops.mean(sums, dims=dims)

    run(define, near_one((12, 9), torch.float32), target=target, kernels=2)


@TARGETS
def test_a_scanned_dimension_may_be_two_in_memory(target: str):
    x, y = (
        near_one((9, 25, 12), torch.float32).transpose(1, 2),
        near_one((9, 12, 25), torch.float32),
    )
    run(viewed, x, y, target=target)


@TARGETS
def test_an_index_may_be_scanned(target: str):
    table, steps = torch.randn(100), torch.randint(0, 2, (5, 90))
    run(
        lambda fd, t, s: fd.ops.index_select(t, fd.ops.cumsum(s, 0), 0),
        table,
        steps[0],
        target=target,
    )
    data = torch.randn(5, 100)
    run(
        lambda fd, d, s: fd.ops.take_along_axis(d, fd.ops.cumsum(s, 1), 1),
        data,
        steps,
        target=target,
    )


@TARGETS
def test_what_no_kernel_scans_is_left_to_torch(target: str):
    for x in torch.randn(4, 5, dtype=torch.complex64), torch.randn(0, 5), torch.randn(4, 0):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.neg(fd.ops.cumsum(fd.from_pytorch(x), 1)))
        torch.testing.assert_close(fd.execute([x], target=target)[0], -x.cumsum(1))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 5), (1, 100_003), (3, 5000), (7, 333)], ids=str)
def test_few_rows_are_shared_out_over_threads(
    shape: tuple[int, int], threads: int, monkeypatch: pytest.MonkeyPatch
):
    map_by(monkeypatch, CpuRowParameters(THREADED, scanned_bytes=384))
    _check_on_threads(threads, near_one(shape, torch.float32), dim=1)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(500, 2), (64, 63), (333, 64), (70, 2048)], ids=str)
def test_columns_are_shared_out_over_threads(
    shape: tuple[int, int], dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch
):
    """In several rounds, the last of which has no lines for some threads."""
    map_by(monkeypatch, CpuRowParameters(THREADED, scanned_bytes=17 * shape[1] * 4))
    _check_on_threads(threads, near_one(shape, dtype), dim=0)


def _check_on_threads(threads: int, x: torch.Tensor, dim: int) -> None:
    """Scans agree with the oracle, and with themselves."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        first = run(lambda fd, x: every_scan(fd, x, dim), x, target="cpu")
        again = run(lambda fd, x: every_scan(fd, x, dim), x, target="cpu")
        assert all(map(torch.equal, again, first))
    finally:
        torch.set_num_threads(before)


def test_scans_of_columns_follow_each_other_in_one_kernel(monkeypatch: pytest.MonkeyPatch):
    """After what columns fold to, and scans of scans."""
    map_by(monkeypatch, CpuRowParameters(THREADED, scanned_bytes=1 << 12))
    x = torch.randn(300, 33)

    def build(fd: FusionDefinition, x: Handle) -> list[Handle]:
        ops = fd.ops
        exponentials = ops.exp(ops.sub(x, ops.max(x, [0], keepdim=True)))
        scanned = ops.cumsum(exponentials, 0)
        twice = ops.cumsum(ops.mul(scanned, 0.01), 0)
        return [scanned, twice, ops.div(twice, ops.sum(exponentials, [0], keepdim=True))]

    run(build, x, target="cpu")


@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize("shape", [(9, 300), (2, 60_000), (40, 2000), (2500, 9)], ids=str)
def test_in_any_thread_order(
    shape: tuple[int, int], order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    """Rows of a warp, in parts of several blocks, and of a block; columns."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    x = near_one(shape, torch.float32)
    dim = 0 if shape[0] > shape[1] else 1
    run(lambda fd, x: [fd.ops.cumsum(x, dim), fd.ops.cummin(x, dim)], x, target="emulator")


def test_long_rows_are_scanned_in_parts():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cumsum(fd.define_tensor([-1]), 0))
    (kernel,) = fd.plan([torch.empty(1 << 20)], target="cuda:sm_90").kernels
    assert "take_part" in kernel.source
    (kernel,) = fd.plan([torch.empty(1 << 10)], target="cuda:sm_90").kernels
    assert "take_part" not in kernel.source


def test_another_number_of_rows_has_the_same_text():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cumsum(fd.define_tensor([-1, -1], [True, True]), 1))
    for target in ("cpu", "cuda:sm_90"):
        texts = [
            re.sub("//.*", "", kernel.source)
            for rows in (6000, 8000)
            for kernel in fd.plan([torch.empty(rows, 768)], target=target).kernels
        ]
        assert len(texts) == 2
        assert texts[0] == texts[1]


SMALL_TEAMS = {
    "warp_elements": 2,
    "elements": 1,
    "slot_elements": 1,
    "threads": 64,
    "kept_words": 0,
    "max_cluster": 1,
    "shared_bytes": 1100,
    "column_threads": 4,
}


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_random_definitions(target: str, monkeypatch: pytest.MonkeyPatch):
    """Small tensors in the ways of large ones."""
    given_cpu = CpuRowParameters(
        THREADED, strip=3, block=4, long_run=2, fewest_scanned_lines=3, scanned_bytes=16
    )
    map_by(monkeypatch, given_cpu, CudaRowParameters(**SMALL_TEAMS))
    steps = (*POINTWISE, *METADATA, *REDUCTIONS, *NORMALIZATIONS, *SCANS, *SCANS, *SCANS)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(definitions(steps, max_operations=10))
    def run_one(definition: Definition) -> None:
        check_definition(definition, target)

    run_one()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_no_team_spills_registers(arch: str):
    """Warps, blocks, columns and parts of a row."""
    for shape, dim in ((8192, 64), 1), ((4096, 3001), 1), ((8192, 3072), 0), ((1 << 24,), 0):
        x = torch.empty(shape, dtype=torch.bfloat16, device="meta")
        with FusionDefinition() as fd:
            for out in every_scan(fd, fd.from_pytorch(x), dim):
                fd.add_output(out)
        (kernel,) = fd.plan([x], target=f"cuda:{arch}").kernels
        assert kernel.compile().spill_bytes == 0


def test_a_scanned_dimension_may_be_split_by_what_reads_the_scan():
    x, at = torch.randn(1, 384), torch.zeros(4, dtype=torch.int64)
    with FusionDefinition() as fd:
        scanned = fd.ops.cummin(fd.from_pytorch(x), dim=1)
        taken = fd.ops.index_select(scanned, fd.from_pytorch(at), dim=0)
        fd.add_output(fd.ops.reshape(taken, new_shape=[2, 2, 3, 128]))
    fd.validate([x, at])


@pytest.mark.parametrize("parameters", [None, CpuRowParameters(THREADED, block=4, long_run=2)])
@pytest.mark.parametrize("count", [8, 40_000])
def test_one_row_that_cannot_be_shared_out_is_one_threads(
    parameters: CpuRowParameters | None, count: int, monkeypatch: pytest.MonkeyPatch
):
    """The sweep for the mean scans too; the sweep for the variance was divided among threads."""
    if parameters is not None:
        map_by(monkeypatch, parameters)
    x = torch.randn(count).bfloat16()

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.cummin(fd.ops.eq(x, x), 0), fd.ops.var(x, dims=[0])]

    run(define, x, target="cpu")
