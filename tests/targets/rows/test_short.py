"""Short rows on CUDA: one thread each, or a few lanes of a warp, along memory and across it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from tests.definitions import close, only_kernel
from tests.row_functions import softmax
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

ROWS = (1, 31, 33, 1000)
LENGTHS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 21, 31, 32, 33, 64, 100, 128, 250)
ARCHS = ("sm_80", "sm_90", "sm_100")
FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
Define = Callable[[FusionDefinition, Handle, Handle], tuple[Handle, ...]]


def _softmax(fd: FusionDefinition, x: Handle, _: Handle) -> tuple[Handle, ...]:
    return (softmax(fd, x, 1),)


def _normalized(fd: FusionDefinition, x: Handle, _: Handle) -> tuple[Handle, ...]:
    var, mean = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    return (x - mean) * fd.ops.rsqrt(var + 1e-3), var


def _folded(fd: FusionDefinition, x: Handle, _: Handle) -> tuple[Handle, ...]:
    """Numbers, places and truth values."""
    total = fd.ops.sum(x, [1], keepdim=True)
    high = fd.ops.any(fd.ops.gt(x, 1.5), [1])
    return total, fd.ops.argmax(x, 1), high, fd.ops.all(fd.ops.lt(x, 1.0), [1])


def _cross_entropy(fd: FusionDefinition, x: Handle, labels: Handle) -> tuple[Handle, ...]:
    """The mean over the labels that are not -100, a fold over all rows."""
    kept = fd.ops.ne(labels, -100)
    at = fd.ops.where(kept, labels, 0)
    moved = x - fd.ops.max(x, [1], keepdim=True)
    picked = fd.ops.take_along_axis(moved, at, 1)
    losses = fd.ops.log(fd.ops.sum(fd.ops.exp(moved), [1], keepdim=True)) - picked
    dims = list(range(len(x.shape())))
    total = fd.ops.sum(fd.ops.where(kept, losses, 0.0), dims)
    return total / fd.ops.sum(fd.ops.cast(kept, DataType.Float), dims), losses


CASES: dict[str, Define] = {
    "softmax": _softmax,
    "normalized": _normalized,
    "folded": _folded,
    "cross entropy": _cross_entropy,
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def along(rows: int, length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Rows that are consecutive in memory, and a label for each."""
    torch.manual_seed(length)
    labels = torch.randint(0, length, (rows, 1))
    labels[1::5] = -100
    return [torch.randn(rows, length).to(dtype), labels]


def across(rows: int, length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Classes of pixels: neighbouring rows are neighbours in memory."""
    torch.manual_seed(length)
    labels = torch.randint(0, length, (2, 1, rows))
    labels[:, :, 1::5] = -100
    return [torch.randn(2, length, rows).to(dtype), labels]


WAYS = {"along": along, "across": across}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def defined(case: str, inputs: list[torch.Tensor], *, in_place: bool = False) -> FusionDefinition:
    with FusionDefinition() as fd:
        x, labels = map(fd.from_pytorch, inputs)
        first, *others = CASES[case](fd, x, labels)
        narrow = fd.ops.cast(first, dtype=x.dtype())
        fd.add_output(narrow, alias_input=x) if in_place else fd.add_output(narrow)
        for other in others:
            fd.add_output(other)
    return fd


def check(fd: FusionDefinition, inputs: list[torch.Tensor], length: int) -> None:
    want = interpret(fd.fusion, inputs)
    close(fd.execute(inputs, target="emulator"), want, 40 * length)


def source(
    case: str, way: str, rows: int, length: int, dtype: torch.dtype = torch.float32
) -> KernelSource:
    small = WAYS[way](1, length, dtype)
    dim = 0 if way == "along" else 2
    inputs = [
        torch.empty((*x.shape[:dim], rows, *x.shape[dim + 1 :]), dtype=x.dtype, device="meta")
        for x in small
    ]
    return only_kernel(defined(case, inputs), inputs, "cuda:sm_90")


@pytest.mark.parametrize(
    ("length", "dtype"),
    [
        *((length, torch.float32) for length in LENGTHS),
        *((length, torch.bfloat16) for length in (2, 7, 8, 15, 21, 33, 64, 250)),
    ],
    ids=str,
)
@EVERY_WAY
@EVERY_CASE
def test_any_length(length: int, case: str, way: str, dtype: torch.dtype):
    for rows in ROWS:
        inputs = WAYS[way](rows, length, dtype)
        check(defined(case, inputs), inputs, length)


@ORDERS
@EVERY_WAY
@EVERY_CASE
def test_any_thread_order(case: str, way: str, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)
    for length in (7, 21, 64, 100):
        inputs = WAYS[way](131, length, torch.float32)
        check(defined(case, inputs), inputs, length)


@EVERY_WAY
@pytest.mark.parametrize("length", [4, 7, 16, 21, 100])
def test_in_place(length: int, way: str):
    for case in ("softmax", "normalized"):
        inputs = WAYS[way](133, length, torch.float32)
        fd = defined(case, inputs, in_place=True)
        want = [x.clone() for x in interpret(fd.fusion, inputs)]
        others = fd.execute(inputs, target="emulator")
        close([inputs[0], *others], want, 40 * length)


@pytest.mark.sanitizer
@EVERY_WAY
@EVERY_CASE
def test_sanitizers_find_nothing(case: str, way: str, sanitizer: Sanitizer):
    for length, dtype in ((21, torch.bfloat16), (64, torch.float32)):
        inputs = WAYS[way](41, length, dtype)
        fd = defined(case, inputs, in_place=case in ("softmax", "normalized"))
        want = [x.clone() for x in interpret(fd.fusion, inputs)]
        got = run_plan_sanitized(fd, inputs, sanitizer)
        close(got if len(got) == len(want) else [inputs[0], *got], want, 40 * length)


@pytest.mark.parametrize("window", [(2, 2), (3, 3), (1, 4), (2, 9)], ids=str)
def test_windows(window: tuple[int, int]):
    height, width = window
    x = torch.randn(3, 5, 7 * height, 9 * width)
    with FusionDefinition() as fd:
        parts = [3, 5, 7, height, 9, width]
        fd.add_output(fd.ops.mean(fd.ops.reshape(fd.from_pytorch(x), new_shape=parts), [3, 5]))
    (got,) = fd.execute([x], target="emulator")
    torch.testing.assert_close(got, torch.nn.functional.avg_pool2d(x, window))


# -- what the text says --------------------------------------------------------------------------

MANY = 300_000


@pytest.mark.parametrize(
    ("way", "length", "lanes"),
    [
        ("along", 8, 1),
        ("along", 7, 1),
        ("along", 16, 1),
        ("along", 21, 8),
        ("along", 64, 4),
        ("along", 128, 8),
        ("across", 8, 1),
        ("across", 21, 1),
        ("across", 32, 1),
    ],
)
@EVERY_CASE
def test_lanes_of_a_row(case: str, way: str, length: int, lanes: int):
    made = source(case, way, MANY, length)
    assert made.launch.block == (lanes, 128 // lanes, 1)
    until_all_rows_are_done = made.kernel.partition("const int block_thread")[0]
    assert "__syncthreads" not in until_all_rows_are_done
    assert "join_column" not in until_all_rows_are_done
    assert ("join_lanes" in until_all_rows_are_done) == (lanes > 1)


@pytest.mark.parametrize(("length", "threads"), [(33, 4), (64, 4), (100, 8), (200, 16)])
def test_many_longer_columns_have_few_threads(length: int, threads: int):
    assert source("softmax", "across", MANY, length).launch.block == (32, threads, 1)
    assert source("softmax", "across", 1000, length).launch.block == (32, 16, 1)


def test_folds_into_arrays_over_the_rows_keep_a_whole_team():
    x = torch.empty(MANY, 8, device="meta")
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        centred = t - fd.ops.mean(t, [1], keepdim=True)
        fd.add_output(centred)
        fd.add_output(fd.ops.sum(centred, [0]))
    (kernel,) = fd.plan([x], target="cuda:sm_90").kernels
    assert kernel.kernel_source.launch.block == (32, 16, 1)


@FLOATS
@EVERY_WAY
@EVERY_CASE
def test_rows_of_any_number_have_one_text(case: str, way: str, dtype: torch.dtype):
    codes = {source(case, way, rows, 21, dtype).code for rows in (5000, 5001, MANY)}
    assert len(codes) == 1


@EVERY_WAY
@EVERY_CASE
def test_lengths_of_one_power_of_two_have_one_text(case: str, way: str):
    for lengths in ((9, 11, 13, 15), (17, 21, 23, 31), (36, 44, 52, 60)):
        assert len({source(case, way, MANY, length).code for length in lengths}) == 1


@FLOATS
@pytest.mark.parametrize("arch", ARCHS)
@EVERY_WAY
@EVERY_CASE
def test_nothing_is_spilled(case: str, way: str, arch: str, dtype: torch.dtype):
    lengths = (3, 8, 16, 21, 32, 64, 128) if arch == "sm_90" else (64, 128)  # most registers
    for length in lengths:
        resources = compile_cuda(source(case, way, MANY, length, dtype), arch).resources
        assert resources.spill_bytes == 0
        assert resources.frame_bytes == 0
