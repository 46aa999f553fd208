"""Rows kept in registers, shared memory and clusters: the same numbers, each tensor read once."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import FusionDefinition
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.benchmark_kernels import BENCHMARKS, Benchmark
from tests.definitions import agrees, close
from tests.row_cases import CASES, RowCase, Tensors
from tests.row_places import PLACES, placed
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized
from tests.strategies import GATHERS, METADATA, NORMALIZATIONS, POINTWISE, REDUCTIONS, definitions

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
EVERYWHERE = pytest.mark.parametrize("place", PLACES)
CASE = {case.name: case for case in CASES}
SWEPT = [CASE[n] for n in ("softmax", "cross entropy", "layernorm", "full var_mean", "permuted")]
SWEPT += [CASE[n] for n in ("layernorm backward", "groups of channels, last", "channels of images")]
STEPS = (*POINTWISE, *METADATA, *REDUCTIONS, *NORMALIZATIONS, *NORMALIZATIONS, *GATHERS)
random_rows = definitions(STEPS, max_operations=8)


def check(fd: FusionDefinition, inputs: Tensors, length: int) -> None:
    """The emulator gives the oracle's numbers."""
    want = interpret(fd.fusion, inputs)
    close(fd.execute(inputs, target="emulator"), want, length)


@EVERYWHERE
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_in_every_place(case: RowCase, place: str):
    for length, dtype in ((260, torch.float32), (1023, torch.bfloat16)):
        inputs = case.inputs(length, dtype)
        with placed(place):
            check(case.defined_for(inputs), inputs, 40 * length)


@ORDERS
@EVERYWHERE
@pytest.mark.parametrize("case", SWEPT, ids=str)
def test_any_thread_order(
    case: RowCase, place: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    inputs = case.inputs(517, torch.float32)
    with placed(place):
        check(case.defined_for(inputs), inputs, 40 * 517)


@EVERYWHERE
@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 31, 129])
def test_rows_with_ends_of_any_length(length: int, place: str):
    for case in SWEPT:
        inputs = case.inputs(length, torch.float16)
        with placed(place):
            check(case.defined_for(inputs), inputs, 40 * length)


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_inputs_at_any_address(offset: int, dtype: torch.dtype, place: str):
    rows, length = 5, 200
    memory = torch.randn(rows * length + 16).to(dtype)
    moved = memory[offset : offset + rows * length].view(rows, length)
    aligned = memory[: rows * length].view(rows, length)
    for inputs in ([moved], [moved.clone()], [memory[1:].as_strided((4, 100), (250, 1))]):
        with placed(place):
            check(CASE["softmax"].defined_for(inputs), inputs, 40 * length)
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(moved), fd.from_pytorch(aligned)
        fd.add_output(x - fd.ops.max(x + y, [1], keepdim=True))
        fd.add_output(fd.ops.sum(y, [1]) * fd.ops.sum(x, [1]))
    with placed(place):
        check(fd, [moved, aligned], 40 * length)


@EVERYWHERE
def test_rows_that_are_not_numbers(place: str):
    x = torch.randn(6, 300)
    x[0, 7], x[1, 299], x[2, 0], x[3] = torch.nan, torch.inf, -torch.inf, -torch.inf
    with placed(place):
        check(CASE["softmax"].defined_for([x]), [x], 300)


@ORDERS
@EVERYWHERE
def test_random_rows(place: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_rows)
    def run(definition) -> None:
        with FusionDefinition() as fd:
            definition.build(fd)
        with placed(place):
            agrees(fd, definition.inputs, "emulator")

    run()


def few_rows(x: torch.Tensor) -> torch.Tensor:
    """5 of 37, or 6 of 30: the thread sanitizer takes most of a millisecond for every thread."""
    return x[:1] if x.ndim == 3 else x[:5] if x.shape[0] == 37 else x


@pytest.mark.sanitizer
@EVERYWHERE
@pytest.mark.parametrize("case", SWEPT, ids=str)
def test_sanitizers_find_nothing(case: RowCase, place: str, sanitizer: Sanitizer):
    inputs = [few_rows(x).contiguous() for x in case.inputs(131, torch.bfloat16)]
    fd = case.defined_for(inputs)
    with placed(place):
        got = run_plan_sanitized(fd, inputs, sanitizer)
    close(got, interpret(fd.fusion, inputs), 40 * 131)


# -- what the text says --------------------------------------------------------------------------


def vector_loads(code: str) -> list[str]:
    """The tensors that are loaded in vectors, once for every statement that does."""
    return re.findall(r"\b(?:load_(?:vector|part|pieces)|copy_ahead)\b[^;]*?, (T\d+)_in\b", code)


READ_ONCE = [
    b for b in BENCHMARKS if b.shapes[0][1] >= 768 and "sum" not in b.name and "gelu" not in b.name
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("benchmark", READ_ONCE, ids=str)
def test_each_tensor_of_rows_is_loaded_once(benchmark: Benchmark, dtype: torch.dtype):
    inputs = benchmark.inputs(dtype)
    for kernel in benchmark.defined(inputs).plan(inputs, target="cuda:sm_90").kernels:
        of_rows = [f"T{i}" for i, x in enumerate(inputs) if x.ndim == 2 and x.is_floating_point()]
        loaded = vector_loads(kernel.source)
        if kernel.scheduler == "rows":
            assert [loaded.count(name) for name in of_rows] == [1] * len(of_rows)


def code_of(case: RowCase, *shape: int, dtype: torch.dtype = torch.float32) -> str:
    inputs = [torch.empty(shape, dtype=dtype, device="meta")]
    (kernel,) = case.defined_for(inputs).plan(inputs, target="cuda:sm_90").kernels
    return kernel.kernel_source.code


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_rows_of_one_power_of_two_have_one_text(offset: int, dtype: torch.dtype):
    for exponent in range(9, 18):
        most = (1 << exponent) - 16
        lengths = range(most // 2 + 32, most, max(most // 7 // 16 * 16, 16))
        codes = {code_of(CASE["softmax"], 8192, n + offset, dtype=dtype) for n in lengths}
        assert len(codes) == 1


@pytest.mark.parametrize("length", [768, 1023, 4096, 30522, 131072])
def test_many_rows_have_one_text(length: int):
    codes = {code_of(CASE["softmax"], rows, length) for rows in (5000, 8192, 8193, 15_000)}
    assert len(codes) == 1


def test_few_long_rows_have_clusters_and_old_devices_none():
    inputs = [torch.empty(4, 131072, device="meta")]
    for arch, cluster in (("sm_80", 1), ("sm_90", 8), ("sm_100", 8)):
        fd = CASE["softmax"].defined_for(inputs)
        (kernel,) = fd.plan(inputs, target=f"cuda:{arch}").kernels
        assert kernel.kernel_source.launch.cluster == cluster
