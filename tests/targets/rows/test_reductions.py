"""Every reduction over any dimensions, of every type it takes: the oracle's results and torch's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch

from fuser import FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.definitions import Define, close, defined
from tests.row_functions import softmax

TARGETS = ("cpu", "emulator")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
FOLDS = ("sum", "prod", "max", "min", "amax", "amin", "any", "all")
MEANS = ("mean", "var", "var_mean", "welford")
PLACES = ("argmax", "argmin")
DIMS = tuple(dims for count in (1, 2, 3) for dims in itertools.combinations(range(3), count))
NAN, INF = math.nan, math.inf

pytestmark = pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")


_DEFINED: dict[str, FusionDefinition] = {}
"""Definitions by their text: equal ones are planned once, whatever numbers they are given."""


def run(define: Define, *inputs: torch.Tensor, target: str) -> list[torch.Tensor]:
    """What the target makes of the inputs, in kernels; checked against the oracle."""
    fd = defined(define, *inputs)
    fd = _DEFINED.setdefault(repr(fd), fd)
    if all(x.numel() for x in inputs):
        kernels = fd.plan(inputs, target=target).kernels
        assert {kernel.scheduler for kernel in kernels} <= {"rows", "pointwise"}
    results = fd.execute(inputs, target=target)
    close(results, interpret(fd.fusion, inputs), max(x.numel() for x in inputs))
    return results


def accepted(dtype: torch.dtype) -> tuple[str, ...]:
    """The reductions that take a type, as in torch."""
    places = () if dtype is torch.bool else PLACES
    return (*FOLDS, *(MEANS if dtype.is_floating_point else ()), *places)


def reduced(
    names: Sequence[str], dims: Sequence[int]
) -> Callable[[FusionDefinition, Handle], list[Handle]]:
    """Those of the reductions that take these dimensions, with and without keeping them."""

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        made: list[Handle] = []
        for name, keepdim in itertools.product(names, (False, True)):
            if name in PLACES and len(dims) > 1:
                continue
            result = getattr(fd.ops, name)(x, list(dims), keepdim=keepdim)
            made += result if isinstance(result, tuple) else [result]
        return made

    return define


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers with ties, of which few are 0 and products stay small."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    if dtype.is_floating_point:
        return (torch.randint(2, 9, shape, generator=generator) / 6).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def with_specials(shape: tuple[int, ...], special: Sequence[float]) -> torch.Tensor:
    """Numbers of which about every seventh is one of `special`."""
    x = numbers(shape)
    generator = torch.Generator().manual_seed(3)
    chosen = torch.randint(0, 7 * len(special), shape, generator=generator)
    for number, value in enumerate(special):
        x[chosen == number] = value
    return x


TYPES_AND_DIMS = [
    pytest.param(
        dtype,
        dims,
        marks=() if dtype is torch.float32 or (a + b) % 3 == 0 else pytest.mark.more,
    )
    for a, dtype in enumerate(DTYPES)
    for b, dims in enumerate(DIMS)
]


# -- every reduction -----------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "dims"), TYPES_AND_DIMS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_over_any_dimensions(target: str, dtype: torch.dtype, dims: tuple[int, ...]):
    run(reduced(accepted(dtype), dims), numbers((3, 7, 5), dtype), target=target)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_over_all_dimensions_and_of_a_number(target: str, dtype: torch.dtype):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        names = [name for name in accepted(dtype) if name not in ("var", "var_mean")]
        results = [getattr(fd.ops, name)(x) for name in names]
        return [
            r for result in results for r in (result if isinstance(result, tuple) else [result])
        ]

    run(define, numbers((6, 9), dtype), target=target)
    run(define, numbers((), dtype), target=target)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 5), (1, 9, 1), (2, 33, 1)], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_of_dimensions_of_size_one(target: str, shape: tuple[int, ...]):
    names = [name for name in accepted(torch.float32) if not name.startswith("var")]
    for dims in DIMS:
        run(reduced(names, dims), numbers(shape), target=target)


@pytest.mark.parametrize("shape", [(3, 0, 5), (0, 4, 2), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_of_nothing(target: str, dtype: torch.dtype, shape: tuple[int, ...]):
    of_nothing = ("sum", "prod", "any", "all", *(MEANS if dtype.is_floating_point else ()))
    for dims in DIMS:
        empty = 0 in [shape[dim] for dim in dims]
        run(
            reduced(of_nothing if empty else accepted(dtype), dims),
            numbers(shape, dtype),
            target=target,
        )


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", *PLACES])
def test_nothing_has_no_extreme(name: str):
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, name)(fd.define_tensor(shape=[-1, -1]), dims=[1]))
    with pytest.raises(errors.ArgumentError, match=r"dimension 1 of T0 is empty"):
        fd.execute([torch.empty(3, 0)])


@pytest.mark.parametrize(
    "special", [[NAN], [INF], [-INF], [INF, -INF], [NAN, INF, -INF, 0.0, -0.0]]
)
@pytest.mark.parametrize("target", TARGETS)
def test_of_special_numbers(target: str, special: list[float]):
    for shape, dims in (((40, 3), [0]), ((3, 40), [1]), ((5, 300), [1]), ((9, 14), [0, 1])):
        run(reduced(accepted(torch.float32), dims), with_specials(shape, special), target=target)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_sums_and_products_of_integers_are_int64(target: str, dtype: torch.dtype):
    total, product = run(
        lambda fd, x: [fd.ops.sum(x), fd.ops.prod(x)], torch.ones(300).to(dtype), target=target
    )
    assert total.dtype is product.dtype is torch.int64
    assert (total.item(), product.item()) == (300, 1)


# -- welford -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_welford_gives_what_a_variance_is_made_of(target: str):
    x = numbers((4, 50)) + 1000

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        avg, var_sum, n = fd.ops.welford(x, [1])
        return [avg, var_sum, n, var_sum / (n - 1)]

    avg, var_sum, n, variance = run(define, x, target=target)
    assert n.tolist() == [50] * 4
    assert n.dtype is torch.int64
    torch.testing.assert_close(avg, x.mean(1))
    torch.testing.assert_close(variance, x.var(1))
    torch.testing.assert_close(var_sum, x.var(1) * 49)


def test_welford_of_complex_numbers_is_torchs():
    x = torch.randn(3, 8, dtype=torch.complex64)
    with FusionDefinition() as fd:
        for out in fd.ops.welford(fd.from_pytorch(x), [1]):
            fd.add_output(out)
    avg, var_sum, _ = fd.execute([x])
    torch.testing.assert_close(avg, x.mean(1))
    torch.testing.assert_close(var_sum, x.var(1, correction=0) * 8)


# -- places of extremes --------------------------------------------------------------------------


def check_places(x: torch.Tensor, target: str) -> None:
    """argmax and argmin over every dimension, and over all of them, are torch's."""
    dims = [None, *range(x.dim())]

    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [getattr(fd.ops, name)(x, dim) for dim in dims for name in PLACES]

    expected = [
        getattr(torch, name)(x) if dim is None else getattr(torch, name)(x, dim)
        for dim in dims
        for name in PLACES
    ]
    for got, want in zip(run(define, x, target=target), expected, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (64,), (5, 3), (3, 130), (2, 5000), (1100, 4), (3, 4, 5)], ids=str
)
@pytest.mark.parametrize("target", TARGETS)
def test_of_several_extremes_the_first_counts(target: str, shape: tuple[int, ...]):
    check_places(numbers(shape), target)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_places_among_numbers_of_any_type(target: str, dtype: torch.dtype):
    check_places(numbers((9, 130), dtype), target)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_the_first_nan_is_both_extremes(target: str, dtype: torch.dtype):
    for special in ([NAN], [INF], [-INF], [INF, -INF], [NAN, INF, -INF], [0.0, -0.0]):
        for shape in ((9, 6), (2, 1000)):
            check_places(with_specials(shape, special).to(dtype), target)
            check_places(torch.full(shape, special[0], dtype=dtype), target)


@pytest.mark.parametrize("target", TARGETS)
def test_places_in_any_layout(target: str):
    x = numbers((6, 10, 14))
    for laid_out in (x.permute(2, 0, 1), x.mT, x[:, ::2, 1::3], x[:1].expand(5, 10, 14)):
        check_places(laid_out, target)


def test_places_in_long_rows_shared_by_threads():
    generator = torch.Generator().manual_seed(5)
    for shape in ((1 << 20,), (2, 300_000), (300_000, 2)):
        check_places(torch.randint(-1000, 1000, shape, generator=generator).float(), "cpu")


@pytest.mark.parametrize("target", TARGETS)
def test_a_place_shares_the_kernel_of_what_it_is_the_place_of(target: str):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        made = softmax(fd, x)
        return [made, fd.ops.argmax(made, [1]), fd.ops.argmax(x, [1]), fd.ops.max(x, [1])]

    x = torch.randn(16, 200)
    run(define, x, target=target)
    fd = defined(define, x)
    assert len(fd.plan([x]).kernels) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_place_among_computed_numbers_is_found_again(target: str):
    """Where a sum of a product is rounded once in one sweep and twice in the other, none is."""
    a, b, c = torch.randn(3, 64, 1000, generator=torch.Generator().manual_seed(1))

    def define(fd: FusionDefinition, a: Handle, b: Handle, c: Handle) -> list[Handle]:
        product = a * b
        return [fd.ops.argmax(product + c, [1]), fd.ops.sum(fd.ops.exp(product), [1])]

    place, _ = run(define, a, b, c, target=target)
    assert torch.equal(place, (a * b + c).argmax(1))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_text_of_a_place_has_no_sizes(target: str):
    def code(*shape: int) -> list[str]:
        x = torch.empty(shape)
        fd = defined(reduced(("argmax", "welford"), [1]), x)
        kernels = fd.plan([x], target=target).kernels
        return [kernel.source[kernel.source.index('extern "C"') :] for kernel in kernels]

    assert code(512, 1024) == code(640, 1000)  # of one team of threads


# -- sums of many numbers ------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(8, 6), (40, 3), (300, 100)], ids=str)
def test_some_of_what_is_folded_over_the_rows_is_read(target: str, shape: tuple[int, int]):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        columns, all_ = fd.ops.sum(x, [0]), fd.ops.sum(x, [0, 1])
        return [all_ * 2.0, fd.ops.exp(fd.ops.slice(columns, [0], [1])), fd.ops.flip(columns, [0])]

    run(define, torch.randn(shape), target=target)


@pytest.mark.parametrize("shape", [(1 << 26,), (1 << 13, 1 << 13)], ids=str)
def test_a_sum_of_sixty_seven_million(shape: tuple[int, ...]):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(7))
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x)))
    (total,) = fd.execute([x])
    torch.testing.assert_close(total.double(), x.double().sum(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((1 << 22,), [0]),
        ((4, 100003), [1]),
        ((64, 16384), [1]),
        ((64, 2040), [1]),
        ((40000, 16), [0]),
        ((4096, 300), [0]),
        ((300, 4001), [0, 1]),
    ],
    ids=str,
)
def test_sums_of_equal_numbers(shape: tuple[int, ...], dims: list[int]):
    """Their rounding errors have one sign, and add up."""
    for number in (0.1, 0.3, 0.7, 1e-3, 0.43):
        x = torch.full(shape, number)
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.sum(fd.from_pytorch(x), dims))
        (total,) = fd.execute([x])
        torch.testing.assert_close(total.double(), x.double().sum(dims), rtol=1e-6, atol=0)


@pytest.mark.parametrize("shape", [(60, 40000), (300, 4001), (5, 1 << 18)], ids=str)
def test_sums_of_equal_numbers_over_columns_side_by_side(shape: tuple[int, ...]):
    for number in (0.1, 0.3, 0.7, 1e-3, 0.43):
        x = torch.full(shape, number)
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x)
            same = t * (t / fd.ops.max(t, [0], keepdim=True))
            for dims in ([1], [0, 1]):
                fd.add_output(fd.ops.sum(same, dims))
        of_rows, total = fd.execute([x])
        torch.testing.assert_close(of_rows.double(), x.double().sum(1), rtol=1e-6, atol=0)
        torch.testing.assert_close(total.double(), x.double().sum(), rtol=1e-6, atol=0)
