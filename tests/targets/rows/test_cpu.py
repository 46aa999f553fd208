"""Reductions and normalizations on the processor: torch's numbers, in kernels of rows."""

from __future__ import annotations

import math

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.definitions import Define, close, defined
from tests.row_functions import layernorm, log_softmax, softmax

FOLDS = ("sum", "prod", "max", "min", "any", "all", "mean", "var")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
DIMS = ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2])
NAN, INF = math.nan, math.inf


def run(define: Define, *inputs: torch.Tensor, length: int = 64) -> list[torch.Tensor]:
    """What kernels make of the inputs; checked against the oracle, and to need nothing of torch."""
    fd = defined(define, *inputs)
    schedulers = {kernel.scheduler for kernel in fd.plan(inputs).kernels}
    assert schedulers <= {"rows", "pointwise"}
    results = fd.execute(inputs)
    close(results, interpret(fd.fusion, inputs), length)
    return results


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers, of which few are 0 and products stay small."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) + 0.5).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("shape", [(40, 30, 5), (40, 70, 60), (8, 600, 3), (700, 9, 7)])
@pytest.mark.parametrize("costly", ["exp", "erf"])
def test_rows_over_several_axes_keep_costly_values(shape: tuple[int, int, int], costly: str):
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        made = getattr(fd.ops, costly)(fd.ops.permute(x, [0, 2, 1]) + fd.ops.iota(shape[1], 0.5))
        made = made / (fd.ops.sum(x, [1, 2], keepdim=True) + 1.0)
        return made * (made - fd.ops.sum(made, [1, 2], keepdim=True))

    run(define, numbers(shape) / shape[1], length=math.prod(shape[1:]))


# -- every fold ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_every_fold_over_any_dimensions(dtype: torch.dtype):
    folds = FOLDS if dtype.is_floating_point else FOLDS[:-2]
    x = numbers((3, 7, 5), dtype)
    for dims in DIMS if dtype is torch.float32 else ([0], [2], [0, 1, 2]):

        def define(fd: FusionDefinition, x: Handle, dims: list[int] = dims) -> list[Handle]:
            both = (False, True)
            return [getattr(fd.ops, f)(x, dims, keepdim=keep) for f in folds for keep in both]

        run(define, x, length=105)


@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_alone_without_dimensions_and_of_a_number(fold: str):
    run(lambda fd, x: getattr(fd.ops, fold)(x), numbers((6, 9)))
    if fold != "var":
        run(lambda fd, x: getattr(fd.ops, fold)(x), numbers(()))


def test_integers_wrap_around_as_in_torch():
    x = torch.tensor([[2**62, 2**62, 5], [-(2**63), 2**63 - 1, 3]])
    total, product, most, least = run(
        lambda fd, x: [getattr(fd.ops, f)(x, [1]) for f in ("sum", "prod", "max", "min")], x
    )
    assert total.tolist() == [-(2**63) + 5, 2]
    assert product.tolist() == x.prod(1).tolist()
    assert most.tolist() == [2**62, 2**63 - 1]
    assert least.tolist() == [5, -(2**63)]


@pytest.mark.parametrize("given", [torch.bfloat16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("wanted", [DataType.Half, DataType.Double, DataType.Int32], ids=repr)
def test_a_fold_in_another_type(given: torch.dtype, wanted: DataType):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.sum(x, [1], dtype=wanted), fd.ops.prod(x, [1], dtype=wanted)]

    total, _ = run(define, numbers((4, 6), given))
    assert total.dtype is wanted.torch


@pytest.mark.parametrize("correction", [0, 1, 5, 6, 9])
def test_a_variance_with_any_correction(correction: int):
    run(lambda fd, x: fd.ops.var_mean(x, [1], correction=correction), numbers((4, 5)))
    run(lambda fd, x: fd.ops.var(x, [1], correction=correction), numbers((4, 1)))


def test_a_variance_of_large_numbers_is_of_their_differences():
    x = torch.randn(8, 1000) + 1e4
    (variance,) = run(lambda fd, x: fd.ops.var(x, [1]), x, length=1000)
    torch.testing.assert_close(variance.double(), x.double().var(1), rtol=1e-4, atol=0)


# -- NaN and infinities --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 3), (3, 40), (3, 200)])
@pytest.mark.parametrize("special", [[NAN], [INF], [-INF], [INF, -INF], [NAN, INF], [0.0, INF]])
def test_special_numbers_anywhere_in_a_row(special: list[float], shape: tuple[int, int]):
    rows, columns = shape
    x = numbers(shape)
    for row in range(rows):
        for number, value in enumerate(special):
            x[row, (row * 37 + number * 5) % columns] = value

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [getattr(fd.ops, f)(x, [dim]) for f in FOLDS for dim in (0, 1)]

    run(define, x)
    run(lambda fd, x: softmax(fd, x, 1), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(12, 33), (12, 700), (12, 20000), (3, 20000)])
def test_a_nan_anywhere_makes_the_whole_row_nan(shape: tuple[int, int], dtype: torch.dtype):
    rows, columns = shape
    x = numbers(shape).to(dtype)
    for row in range(0, rows, 2):
        x[row, (row * 3331) % columns] = NAN
        x[row, (row * 3331 + 1) % columns] = INF if row % 4 else 50.0
    for define in (lambda fd, x: softmax(fd, x, 1), log_softmax):
        (made,) = run(define, x)
        assert made[0::2].isnan().all()
        assert not made[1::2].isnan().any()


def test_extremes_of_infinities_alone():
    x = torch.tensor([[-INF] * 5, [INF] * 5])
    most, least = run(lambda fd, x: [fd.ops.max(x, [1]), fd.ops.min(x, [1])], x)
    assert most.tolist() == least.tolist() == [-INF, INF]


# -- sizes and layouts ---------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 63, 64, 65, 129, 1000])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_rows_of_any_length(rows: int, columns: int):
    x = numbers((rows, columns))
    run(lambda fd, x: softmax(fd, x, 1), x)
    run(lambda fd, x: softmax(fd, x, 0), x)
    if columns > 1:
        run(lambda fd, x: layernorm(fd, x, [1]), torch.randn(rows, columns), length=columns)


@pytest.mark.parametrize("columns", [511, 512, 513, 1025])
def test_many_rows_side_by_side(columns: int):
    run(lambda fd, x: softmax(fd, x, 0), numbers((5, columns)))
    run(lambda fd, x: fd.ops.sum(x, [0]), numbers((5, columns), torch.int8))


def layouts(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    x = numbers((6, 10, 14), dtype)
    return {
        "permuted": x.permute(2, 0, 1),
        "transposed": x.mT,
        "strided": x[:, ::2, 1::3],
        "unaligned": numbers((841,), dtype)[1:].view(6, 10, 14),
        "expanded rows": x[:1].expand(5, 10, 14),
        "expanded columns": x[..., :1].expand(6, 10, 7),
        "one element": x[:1, :1, :1],
    }


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_any_layout(layout: str, dtype: torch.dtype):
    x = layouts(dtype)[layout]

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        flipped = fd.ops.flip(x, [1, 2])
        return [softmax(fd, x, 2), layernorm(fd, flipped, [1, 2]), fd.ops.sum(x, [0, 2])]

    run(define, x, length=140)
    run(lambda fd, x: softmax(fd, x, 0), x)
    run(lambda fd, x: softmax(fd, x, 1), x)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0], [0, 2, 1]], ids=str)
def test_results_in_any_stride_order(order: list[int]):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.stride_order(softmax(fd, x, dim), order) for dim in range(3)]

    for got in run(define, numbers((6, 10, 14))):
        strides = [got.stride(dim) for dim in sorted(range(3), key=lambda dim: order[dim])]
        assert strides == sorted(strides)


def test_rows_that_several_layouts_share():
    x, y = numbers((12, 20)), numbers((20, 12))
    run(lambda fd, x, y: softmax(fd, x + fd.ops.permute(y, [1, 0]), 1), x, y)
    run(lambda fd, x, y: softmax(fd, fd.ops.permute(x, [1, 0]) * y, 0), x, y)


# -- sums of many numbers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((1 << 24,), [0]),
        ((4, 1 << 22), [1]),
        ((1 << 22, 4), [0]),
        ((1 << 12, 1 << 12), [0, 1]),
        ((1 << 10, 4, 1 << 12), [0, 2]),
        ((64, 1 << 18), [1]),
    ],
)
def test_a_sum_of_sixteen_million(shape: tuple[int, ...], dims: list[int]):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(7))
    with FusionDefinition() as fd:
        handle = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(handle, dims))
        fd.add_output(fd.ops.mean(handle, dims))
    exact = x.double().sum(dims)
    total, mean = fd.execute([x])
    torch.testing.assert_close(total.double(), exact, rtol=1e-6, atol=0)
    mean_of_all = exact * exact.numel() / x.numel()
    torch.testing.assert_close(mean.double(), mean_of_all, rtol=1e-6, atol=0)


# -- folds over the rows -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (1, 7), (300, 40), (37, 1000)])
def test_gradients_of_a_layernorm(shape: tuple[int, int]):
    rows, columns = shape

    def define(
        fd: FusionDefinition, x: Handle, grad: Handle, weight: Handle, mean: Handle, rstd: Handle
    ) -> list[Handle]:
        normed, scaled = (x - mean) * rstd, grad * weight
        a = fd.ops.mean(scaled, [1], keepdim=True)
        b = fd.ops.mean(scaled * normed, [1], keepdim=True)
        of_weight, of_bias = fd.ops.sum(grad * normed, [0]), fd.ops.sum(grad, [0])
        return [rstd * (scaled - a - normed * b), of_weight, of_bias]

    given = [torch.randn(shape), torch.randn(shape), torch.randn(columns)]
    run(define, *given, torch.randn(rows, 1), torch.rand(rows, 1), length=rows * columns)


@pytest.mark.parametrize("shape", [(8, 6), (300, 1000), (2000, 64), (20, 17000)], ids=str)
def test_sums_over_rows_columns_and_both(shape: tuple[int, int]):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.sum(x, dims) for dims in ([0], [1], [0, 1])]

    whole = torch.randint(-8, 9, shape, generator=torch.Generator().manual_seed(1))
    for dtype in (torch.int32, torch.float32, torch.float64):  # no sum is rounded
        for got, dims in zip(run(define, whole.to(dtype)), ([0], [1], [0, 1]), strict=True):
            assert torch.equal(got, whole.sum(dims).to(got.dtype))


def test_a_mean_loss_and_what_follows_from_it():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        worst = fd.ops.max(x, [1])
        loss = fd.ops.mean(worst)
        return [worst, loss, fd.ops.sqrt(loss) + 1.0, fd.ops.cast(loss, DataType.Half)]

    run(define, numbers((33, 20)))


@pytest.mark.parametrize("fold", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bfloat16], ids=str)
def test_any_fold_over_the_rows(fold: str, dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        per_row = fd.ops.sum(x, [1])
        over_rows = getattr(fd.ops, fold)(x, [0])
        return [per_row, over_rows, fd.ops.neg(over_rows), fd.ops.any(x, [0]), fd.ops.all(x)]

    run(define, numbers((9, 6), dtype))


@pytest.mark.parametrize(
    ("dtype", "fold"),
    [
        *((torch.float32, fold) for fold in ("sum", "max", "all")),
        *((dtype, "sum") for dtype in (torch.int32, torch.bfloat16)),
        (torch.bfloat16, "any"),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 70, 33), (1, 100, 5000), (2, 3, 70_000)])
def test_any_fold_over_columns_side_by_side(fold: str, shape: tuple[int, ...], dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        over_rows = getattr(fd.ops, fold)
        parts = x * 2 - fd.ops.max(x, [1], keepdim=True)
        places = [over_rows(parts, dims) for dims in ([0], [0, 1], [1, 2], [0, 2], [2], [0, 1, 2])]
        return [parts, *places, over_rows(fd.ops.max(x, [1]), [0])]

    run(define, numbers(shape, dtype), length=max(shape) * 100)


def test_many_outputs_of_one_kernel():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        y = softmax(fd, x, 1)
        return [y, *(y * float(number) for number in range(2, 40)), fd.ops.sum(y, [0])]

    run(define, numbers((7, 33)))
