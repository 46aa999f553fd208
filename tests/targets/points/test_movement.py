"""Slices, pads, concatenations, flips and repeats with what surrounds them: one kernel each."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import ArgumentError
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import from_torch
from fuser.ir.interpret import interpret
from fuser.pipeline import Plan
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.segmenter import PROCESSOR
from fuser.segmenter.graph import MOST_JOINED
from tests.definitions import Define, defined
from tests.machine_code import memory_accesses

TARGETS = ("cpu", "emulator")
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.complex64)


def clamps(source: str) -> bool:
    """Whether a kernel reads something at an index that may be another one's."""
    return re.search(r"\bclamped\w*\(", source) is not None


def run(define: Define, *inputs: torch.Tensor, target: str = "cpu") -> Plan:
    """The plan of a definition whose results are exactly the oracle's."""
    fd = defined(define, *inputs)
    results = fd.execute(inputs, target=target)
    torch.testing.assert_close(results, interpret(fd.fusion, inputs), rtol=0, atol=0)
    return fd.plan(inputs, target=target)


def is_minimal(plan: Plan, *inputs: torch.Tensor, written: int) -> bool:
    """Whether there is one kernel, which reads every input once and writes every result once."""
    (kernel,) = plan.kernels
    read = sum(given.nbytes for given in inputs)
    return not plan.externs and (kernel.bytes_read, kernel.bytes_written) == (read, written)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def negated(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cast(fd.ops.neg(x), x.dtype())


# -- rotary embeddings ---------------------------------------------------------------------------


def halves(fd: FusionDefinition, x: Handle, size: int) -> tuple[Handle, Handle]:
    shape = [2, 3, 10, size]
    left = fd.ops.slice(x, [0, 0, 0, 0], [*shape[:3], size // 2])
    return left, fd.ops.slice(x, [0, 0, 0, size // 2], shape)


def rotary(size: int) -> Callable[..., Handle]:
    def define(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
        left, right = halves(fd, x, size)
        return x * cos + fd.ops.cat([-right, left], 3) * sin

    return define


def rotary_backward(size: int) -> Callable[..., Handle]:
    """As autograd writes it: the gradients of the halves are padded and added."""

    def define(fd: FusionDefinition, g: Handle, cos: Handle, sin: Handle) -> Handle:
        left, right = halves(fd, g * sin, size)
        turned = fd.ops.pad(right, [0, size // 2]) + fd.ops.pad(-left, [size // 2, 0])
        return g * cos + turned

    return define


def rotary_inputs(size: int) -> list[torch.Tensor]:
    return [numbers(2, 3, 10, size), numbers(1, 1, 10, size), numbers(1, 1, 10, size) + 1]


@pytest.mark.parametrize("define", [rotary, rotary_backward])
@pytest.mark.parametrize("size", [128, 64, 18])
@pytest.mark.parametrize("target", TARGETS)
def test_rotary_embeddings_move_every_byte_once(
    target: str, size: int, define: Callable[[int], Callable[..., Handle]]
):
    inputs = rotary_inputs(size)
    plan = run(define(size), *inputs, target=target)
    assert is_minimal(plan, *inputs, written=inputs[0].nbytes)
    (kernel,) = plan.kernels
    assert clamps(kernel.source) == (target == "emulator")


@pytest.mark.parametrize("define", [rotary, rotary_backward])
def test_halves_of_whole_vectors_are_read_as_vectors(
    define: Callable[[int], Callable[..., Handle]],
):
    (kernel,) = run(define(128), *rotary_inputs(128), target="emulator").kernels
    assert "_in[" not in kernel.source
    assert kernel.source.count("load_vector(T") >= 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_halves_move_128_bits_at_a_time(dtype: torch.dtype):
    given = [torch.empty(shape, dtype=dtype) for shape in ((2, 3, 10, 128), (1, 1, 10, 128))]
    inputs = [given[0], given[1], given[1]]
    with FusionDefinition() as fd:
        wide = [fd.ops.cast(fd.from_pytorch(x), DataType.Float) for x in inputs]
        turned = rotary(128)(fd, *wide)
        fd.add_output(fd.ops.cast(turned, from_torch(dtype)))
    (kernel,) = fd.plan(inputs, target="cuda:sm_90").kernels
    found = memory_accesses(compile_cuda(kernel.kernel_source, "sm_90"))
    assert (found["LDG", 128], found["STG", 128]) == (5, 1)
    assert kernel.compile().spill_bytes == 0


# -- parts joined and apart ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_split_and_joined_in_another_order(target: str, dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        sizes = [0, 16, 29, 48]
        parts = [fd.ops.slice(x, [0, a], [6, b]) for a, b in itertools.pairwise(sizes)]
        return fd.ops.cat([parts[2], negated(fd, parts[0]), parts[1]], 1)

    x = numbers(6, 48, dtype=dtype)
    assert is_minimal(run(define, x, target=target), x, written=x.nbytes)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [MOST_JOINED + 1, 1500])
def test_torch_joins_what_one_kernel_does_not(target: str, count: int):
    inputs = [numbers(2, 1 + n % 3) for n in range(count)]
    plan = run(lambda fd, *given: fd.ops.relu(fd.ops.cat(list(given), 1)), *inputs, target=target)
    assert len(plan.externs) == len(plan.kernels) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_joined_with_what_has_no_elements(target: str):
    def define(fd: FusionDefinition, x: Handle, y: Handle, z: Handle) -> list[Handle]:
        padded = fd.ops.pad(z, [2, 1], 3.0)
        return [fd.ops.cat([x, z * 2.0, y], 1) + 1.0, padded * 2.0, fd.ops.cat([z, z], 1) * 2.0]

    plan = run(define, numbers(4, 3), numbers(4, 5), numbers(4, 0), target=target)
    assert not plan.externs
    assert {kernel.scheduler for kernel in plan.kernels} <= {"pointwise"}


def test_more_pieces_than_one_kernel_has():
    """Rows of 34 parts, eight times: the rows are made first."""
    x, y = numbers(3, 2), numbers(3, 1)

    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        row = fd.ops.cat([x, y] * 17, 1)
        return fd.ops.cat([row] * 8, 0) * 2.0

    assert PROCESSOR.most_pieces < 34 * 8
    assert len(run(define, x, y).kernels) == 2


def test_more_operands_than_points_of_a_gpu_are_cut_for():
    x, y = numbers(3, 2), numbers(3, 1)
    plan = run(lambda fd, x, y: fd.ops.cat([x, y] * 20, 1) * 2.0, x, y, target="emulator")
    (kernel,) = plan.kernels
    assert clamps(kernel.source)


@pytest.mark.parametrize("target", TARGETS)
def test_a_pad_that_only_cuts_at_the_start_moves_nothing(target: str):
    x = numbers(6, 8)
    plan = run(lambda fd, x: fd.ops.pad(x, [-1, -3, -2, 0]) * 2.0, x, target=target)
    (kernel,) = plan.kernels
    assert kernel.bytes_read == 4 * 4 * 4


# -- steps, flips and repeats --------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_steps_of_computed_values_read_only_what_is_kept(target: str):
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        return fd.ops.slice(fd.ops.flip(x * 2.0, [1]), [1, 2], [6, 20], [2, 5])

    (kernel,) = run(define, numbers(7, 20), target=target).kernels
    assert kernel.bytes_written == 3 * 4 * 4


@pytest.mark.parametrize("times", [[2, 3], [1, 4], [3, 1, 2], [0, 2]], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_repeats(target: str, times: list[int]):
    x = numbers(5, 7)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.repeat(fd.from_pytorch(x), times) + 1.0)
    (got,) = fd.execute([x], target=target)
    assert torch.equal(got, x.repeat(times) + 1.0)
    assert all(kernel.scheduler == "pointwise" for kernel in fd.plan([x], target=target).kernels)


@pytest.mark.parametrize("times", [[2], [2, -1]], ids=str)
def test_repeats_that_do_not_fit_are_refused(times: list[int]):
    with FusionDefinition() as fd, pytest.raises(ArgumentError, match="at least 2 numbers from 0"):
        fd.ops.repeat(fd.from_pytorch(numbers(5, 7)), times)


# -- the relative shift --------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_gradient_of_a_relative_shift_is_rows_and_zeros(target: str):
    def define(fd: FusionDefinition, g: Handle) -> Handle:
        zeros = fd.ops.full([2, 3, 8, 15], 0.0, DataType.Float)
        x = fd.ops.index_add(zeros, fd.ops.iota(8, dtype=DataType.Int), g * 0.125, dim=3)
        x = fd.ops.pad(fd.ops.reshape(x, [2, 3, 15, 8]), [0, 0, 1, 0])
        return fd.ops.reshape(x, [2, 3, 8, 16])

    g = numbers(2, 3, 8, 8)
    plan = run(define, g, target=target)
    assert is_minimal(plan, g, written=2 * g.nbytes)
    if target == "cpu":
        assert not clamps(plan.kernels[0].source)
        assert "quotient(" not in plan.kernels[0].source


# -- past the cache ------------------------------------------------------------------------------


@pytest.mark.usefixtures("past_cache")
@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_pieces_that_are_stored_past_the_cache(dtype: torch.dtype, seed: int):
    """Rows of any alignment, whole lines or not, beside short ones and constants."""
    chooser = random.Random(seed)
    left, right = chooser.choice([16, 63, 64, 129]), chooser.choice([3, 64, 200])
    widths = [chooser.choice([0, 1, 64, 100]), chooser.choice([0, 5, 64])]

    def define(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        both = fd.ops.cat([x, negated(fd, y)], 1)
        wide = fd.ops.pad(both, [*widths, 1, 0], 1)
        return [wide, fd.ops.pad(x, [chooser.choice([0, 3]), 64])]

    run(define, numbers(5, left, dtype=dtype), numbers(5, right, dtype=dtype))


@pytest.mark.usefixtures("past_cache")
def test_rows_of_any_alignment_begin_their_chunks_at_whole_lines():
    x, y = numbers(40, 300), numbers(300)
    (kernel,) = run(lambda fd, x, y: fd.ops.pad(x + y, [1, 2]) * 0.5, x, y).kernels
    assert "past_line(" in kernel.source
    stores = re.findall(
        r" stream_part\((T\d+_out) (.+), T\d+_lanes, first, last(.*)\);", kernel.source
    )
    assert stores
    for tensor, place, later in stores:  # the ends of a later row are asked for
        assert later.startswith(f", {tensor} ")
        assert not later.endswith(place)


@pytest.mark.usefixtures("past_cache")
def test_the_only_row_asks_for_no_later_one():
    (kernel,) = run(lambda fd, x: fd.ops.pad(x * 0.5, [1, 2]), numbers(700)).kernels
    stores = re.findall(r" stream_part\(T\d+_out .+", kernel.source)
    assert stores
    assert all(store.endswith(", first, last);") for store in stores)


@pytest.mark.usefixtures("past_cache")
def test_chunks_of_rounded_rows_that_are_not_aligned():
    x, y = numbers(40, 300), numbers(300)

    def define(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        return fd.ops.cast(fd.ops.pad(x + y, [1, 2]) * 0.5, DataType.BFloat16)

    (kernel,) = run(define, x, y).kernels
    assert "stream_rounded_part(" in kernel.source


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_a_slice_may_begin_and_step_anywhere(target: str):
    x = torch.randn(4, 6)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        one = fd.ops.slice(t, [1, 0], [2**62, 2**62], [1, 2**62])
        for sliced in (one, fd.ops.slice(t, [2**62, 0], [2**62, 6])):
            fd.add_output(sliced)
            fd.add_output(fd.ops.neg(sliced))
    fd.validate([x], target=target)
