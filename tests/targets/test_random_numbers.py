"""Random numbers in kernels: the oracle's, at every place, in every schedule, on every target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations
from fuser.ir.interpret import interpret
from tests.definitions import Define, defined_by_ops
from tests.kernels_made import kernels_made

TARGETS = ("cpu", "emulator")
FLOATS = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)
SEED = {"rng_seed": -77, "rng_offset": 2**33 + 1}


def check(define: Define, *inputs: torch.Tensor, target: str, kernels: int = 1) -> None:
    """Uniform numbers are the oracle's, others within 4 ulp of numbers up to 8."""
    fd = defined_by_ops(define, *inputs)
    plan = fd.plan(inputs, target=target)
    assert len(plan.kernels) == kernels
    assert not plan.externs
    want = interpret(fd.fusion, inputs)
    for got, expected in zip(fd.execute(inputs, target=target), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=2e-6, atol=1e-6)


def same(
    define: Define, *inputs: torch.Tensor, target: str, runs: int = 1
) -> list[list[torch.Tensor]]:
    """Every bit is the oracle's."""
    fd = defined_by_ops(define, *inputs)
    assert not fd.plan(inputs, target=target).externs
    made: list[list[torch.Tensor]] = []
    torch.manual_seed(9)
    want = [interpret(fd.fusion, inputs) for _ in range(runs)]
    torch.manual_seed(9)
    for expected in want:
        made.append(fd.execute(inputs, target=target))
        assert all(map(torch.equal, made[-1], expected))
    return made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 7, 64, 67, 200])
def test_numbers_in_a_row(size: int, dtype: DataType, target: str) -> None:
    def define(o: Operations) -> tuple[Handle, ...]:
        ends = [] if dtype is DataType.Double else [o.uniform(-1.7, 3.3, [size], dtype=dtype)]
        return o.uniform(0, 1, [size], **SEED, dtype=dtype), *ends

    same(define, target=target)


ENDS = (1.0, 0.7, 3.7, 4.0, 1.5, 2.0**-14, 5e-324, 1e-7, 0.0, -0.0, -0.125, -0.3, -2.0, 10.05)
"""Powers of two, whose steps to the next smaller number are half as long, and numbers without."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_rounds_to_the_upper_end_becomes_the_number_before_it(
    dtype: DataType, target: str
) -> None:
    """Of a range that is one step of the type, half of the numbers round to its upper end."""
    fd = FusionDefinition()
    with fd:
        low, high = fd.define_scalar(None), fd.define_scalar(None)
        fd.add_output(fd.ops.uniform(low, high, [64], **SEED, dtype=dtype))
    for end in ENDS:
        upper = torch.tensor(end, dtype=dtype.torch)
        before = torch.nextafter(upper, torch.tensor(-math.inf, dtype=dtype.torch))
        (drawn,) = fd.execute([before.item(), upper.item()], target=target)
        assert torch.equal(drawn, before.expand(64)), end


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [DataType.Half, DataType.BFloat16])
def test_narrow_numbers_below_zero_reach_the_largest_of_their_range(
    dtype: DataType, target: str
) -> None:
    (drawn,) = same(lambda o: o.uniform(-1.5, 3.7, [2**15], **SEED, dtype=dtype), target=target)[0]
    upper = torch.tensor(3.7, dtype=dtype.torch)
    assert drawn.max() == torch.nextafter(upper, torch.tensor(0.0, dtype=dtype.torch))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers(dtype: DataType, target: str) -> None:
    fd = defined_by_ops(
        lambda o: (
            o.normal(0, 1, [3, 431], **SEED, dtype=dtype),
            o.normal(-2.0, 0.3, [1293], **SEED, dtype=dtype),
        )
    )
    want = interpret(fd.fusion, [])
    relative = {4: 5e-7, 8: 1e-15, 2: 2.0**-7}[dtype.itemsize]
    for got, expected in zip(fd.execute([], target=target), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=relative, atol=2.0**-27)


def _twice(o: Operations, x: Handle) -> Handle:
    """One value at two coordinates."""
    numbers = o.uniform(0, 1, [24, 24], **SEED)
    return numbers - o.permute(numbers, [1, 0])


def _gathered(o: Operations, x: Handle) -> Handle:
    at = o.remainder(o.iota(40, 0, 7, DataType.Int), 11)
    return o.index_select(o.rand_like(x, **SEED), at, 0)


PLACES: dict[str, tuple[Define, tuple[int, ...]]] = {
    "transposed": (lambda o, x: o.permute(o.rand_like(x, **SEED), [1, 0]) * 2.0, (37, 41)),
    "twice": (_twice, (24, 40)),
    "strided": (lambda o, x: o.slice(o.rand_like(x, **SEED), [2, 1], [30, 40], [3, 2]), (32, 48)),
    "flipped": (lambda o, x: o.flip(o.rand_like(x, **SEED), [1]) * 3.0, (9, 130)),
    "viewed": (lambda o, x: o.reshape(o.rand_like(x, **SEED), [8, 3]), (4, 6)),
    "padded": (lambda o, x: o.pad(o.rand_like(x, **SEED), [3, 2, 1, 0], 0.5), (5, 70)),
    "broadcast": (lambda o, x: o.uniform(0, 1, [40], **SEED) + x, (17, 40)),
    "gathered": (_gathered, (11, 24)),
    "past 64 lanes": (lambda o, x: o.rand_like(x, **SEED) * x, (70, 300)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", PLACES)
def test_numbers_read_anywhere(place: str, target: str) -> None:
    define, shape = PLACES[place]
    same(define, torch.ones(shape), target=target)


def _dropped(o: Operations, x: Handle, **state: int) -> Handle:
    return o.where(o.ge(o.rand_like(x, **state), 0.25), x * (1 / 0.75), 0.0)


def _norm(o: Operations, x: Handle) -> Handle:
    variance, mean = o.var_mean(x, [-1], correction=0, keepdim=True)
    return (x - mean) * o.rsqrt(variance + 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(5, 64), (9, 130), (3, 1003), (2, 5000), (30, 6), (1, 40000)])
def test_dropout_and_norm_are_one_kernel_that_reads_and_writes_once(
    shape: tuple[int, int], target: str
) -> None:
    x, residual = torch.randn(shape), torch.randn(shape)

    def define(o: Operations, x: Handle, residual: Handle) -> Handle:
        return _norm(o, _dropped(o, x, **SEED) + residual)

    check(define, x, residual, target=target)
    (kernel,) = defined_by_ops(define, x, residual).plan([x, residual], target=target).kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (8 * x.numel(), 4 * x.numel())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_numbers_in_rows(dtype: torch.dtype, target: str) -> None:
    x = torch.randn(6, 700).to(dtype)
    same(lambda o, x: o.max(o.rand_like(x, **SEED), [1]), x, target=target)
    same(
        lambda o, x: o.rand_like(x, **SEED) - o.max(o.rand_like(x, **SEED), [1], True),
        x,
        target=target,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_scaled_numbers_are_drawn_again_in_each_sweep(dtype: DataType, target: str) -> None:
    def define(o: Operations, x: Handle) -> Handle:
        scaled = o.mul(x, o.uniform(0.5, 1.5, [3, 257], dtype=dtype, **SEED))
        return o.truediv(scaled, o.sum(o.exp(scaled), [1], keepdim=True))

    check(define, torch.rand(3, 257), target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_folded_across_rows(target: str) -> None:
    same(lambda o, x: o.max(o.rand_like(x, **SEED) * x, [0]), torch.ones(50, 90), target=target)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_cuda_kernels_draw_without_spills(arch: str) -> None:
    """A thread draws whole blocks for its lanes, once a row, and keeps what it has drawn."""
    x = torch.empty(4096, 4096, device="meta", dtype=torch.bfloat16)

    def define(o: Operations, x: Handle, residual: Handle) -> tuple[Handle, Handle]:
        total = _dropped(o, o.cast(x, DataType.Float)) + residual
        return total, _norm(o, total + o.randn_like(total))

    (kernel,) = defined_by_ops(define, x, x).plan([x, x], target=f"cuda:{arch}").kernels
    assert kernel.source.count("draw_vector<uniform_float, 8>(") == 1
    assert kernel.source.count("draw_vector<normal_float, 8>(") == 1
    compiled = kernel.compile()
    assert compiled.spill_bytes == 0
    assert compiled.registers is not None
    assert compiled.registers <= 128


@pytest.mark.parametrize("target", TARGETS)
def test_backward_regenerates_the_mask(target: str) -> None:
    """From the seed alone: two inputs are read, and no mask."""
    grad, x = torch.randn(12, 300), torch.randn(12, 300)
    (forward,) = defined_by_ops(lambda o, x: _dropped(o, x, **SEED), x).execute([x], target=target)

    def define(o: Operations, grad: Handle, x: Handle) -> tuple[Handle, Handle]:
        kept = _dropped(o, grad, **SEED)
        return kept, o.sum(kept * x, [0])

    backward = defined_by_ops(define, grad, x)
    (kernel,) = backward.plan([grad, x], target=target).kernels
    assert kernel.bytes_read == 2 * grad.nbytes
    gradient, _ = backward.execute([grad, x], target=target)
    assert torch.equal(gradient != 0, forward != 0)
    assert torch.equal(gradient, torch.where(forward != 0, grad * (1 / 0.75), 0.0))


@pytest.mark.parametrize("target", TARGETS)
def test_the_mask_is_one_more_output(target: str) -> None:
    def define(o: Operations, x: Handle) -> tuple[Handle, Handle]:
        keep = o.ge(o.rand_like(x, **SEED), 0.25)
        return o.where(keep, x, 0.0), keep

    x = torch.randn(64, 100)
    same(define, x, target=target)
    (kernel,) = defined_by_ops(define, x).plan([x], target=target).kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (x.nbytes, x.nbytes + x.numel())


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_make_numbers_again_rather_than_store_them(target: str) -> None:
    """Neither kernel of a division by a sum of all reads numbers that the other has stored.

    On a processor, where threads share one long row, it is one kernel.
    """

    def define(o: Operations, x: Handle) -> Handle:
        kept = _dropped(o, x, **SEED)
        return kept / o.sum(o.abs(kept), [0, 1])

    x = torch.randn(200, 3000)
    plan = defined_by_ops(define, x).plan([x], target=target)
    kernels = 1 if target == "cpu" else 2
    read = [step.bytes_read - 4 * (n > 0) for n, step in enumerate(plan.kernels)]
    assert read == [x.nbytes] * kernels
    check(define, x, target=target, kernels=kernels)


@pytest.mark.parametrize("target", TARGETS)
def test_the_generator_of_torch_decides(target: str) -> None:
    first, second = same(
        lambda o, x: (o.rand_like(x), o.rand_like(x)), torch.ones(40, 50), target=target, runs=2
    )
    assert len({tuple(numbers.flatten().tolist()) for numbers in (*first, *second)}) == 4


@pytest.mark.parametrize("target", TARGETS)
def test_a_seed_is_no_part_of_a_kernel(target: str) -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.ones(30))
        seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.rand_like(x, rng_seed=seed, rng_offset=offset * 4))
    runs: list[Sequence[torch.Tensor]] = []
    for given in ([torch.ones(30), 5, 1], [torch.ones(30), 5, 1], [torch.ones(30), 6, 1]):
        before = kernels_made()
        runs.append(fd.execute(given, target=target))
        assert torch.equal(runs[-1][0], interpret(fd.fusion, given)[0])
    assert kernels_made() == before
    assert torch.equal(runs[0][0], runs[1][0])
    assert not torch.equal(runs[0][0], runs[2][0])


def test_what_torch_runs_reads_numbers_and_seeds() -> None:
    def define(o: Operations, x: Handle) -> tuple[Handle, ...]:
        seed, offset = o.generator_state()
        numbers = o.rand_like(x, rng_seed=seed, rng_offset=offset)
        return o.matmul(numbers, x), o.prod(o.complex(x, x) * (seed % 7), [0])

    x = torch.eye(8)
    fd = defined_by_ops(define, x)
    torch.manual_seed(1)
    want = interpret(fd.fusion, [x])
    torch.manual_seed(1)
    for got, expected in zip(fd.execute([x], target="cpu"), want, strict=True):
        torch.testing.assert_close(got, expected)
    assert "torch" in [kernel.scheduler for kernel in fd.plan([x]).kernels]


def test_what_is_not_read_advances_the_generator_too() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.ones(3))
        fd.ops.rand_like(x)
        fd.add_output(x + 1.0)
    torch.manual_seed(0)
    fd.execute([torch.ones(3)])
    after = torch.rand(())
    torch.manual_seed(0)
    interpret(fd.fusion, [torch.ones(3)])
    assert torch.equal(torch.rand(()), after)


def test_no_elements() -> None:
    fd = defined_by_ops(lambda o, x: o.rand_like(x) + x, torch.ones(0, 3))
    assert fd.execute([torch.ones(0, 3)])[0].shape == (0, 3)


def test_a_size_cannot_come_of_the_generator() -> None:
    fd = defined_by_ops(lambda o, x: o.full([o.generator_state()[0] % 5], 1.0), torch.ones(2))
    with pytest.raises(errors.ScalarEvaluationError, match="made while the fusion runs"):
        fd.execute([torch.ones(2)])


def test_numbers_that_two_sweeps_of_a_row_draw() -> None:
    """A row of so many is not kept between the sweeps."""
    x = torch.randn(9, 140_001)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        left = given * (fd.ops.rand_like(given, rng_seed=1, rng_offset=1) > 0.3)
        largest = fd.ops.eq(left, fd.ops.max(left, [1], keepdim=True))
        fd.add_output(fd.ops.stride_order(fd.ops.where(largest, 0.0, left), [0, 1]))
    fd.validate([x])
