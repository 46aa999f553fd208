"""Every row of the pointwise table, for every dtype it accepts, on every target, is what torch
computes: on special values and on random ones."""

import itertools
import math

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.builder import FusionBuilder
from fuser.ir.conversions import converted
from fuser.ir.dtypes import Category, from_torch
from fuser.ir.four_bits import one_by_one
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Pointwise
from fuser.ir.pointwise import TABLE, PointwiseOp, letter
from fuser.ir.tolerance import tolerance
from fuser.ir.types import TensorType
from fuser.pipeline import Executor

TARGETS = ("cpu", "emulator")
LENGTH = 499
"""Elements: odd, so that the last vector is not whole."""

FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    -2.5,
    2.0,
    3.0,
    -3.0,
    7.25,
    20.0,
    -20.0,
    1e-3,
    1e-30,
]
LIMITS = [math.inf, -math.inf, math.nan]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 31, 63, 100]

EXTREME = {
    DataType.Double: [1e-310, 1e300, -1e300, 700.0, -700.0, 1e15],
    DataType.Float: [1e-40, 3e38, -3e38, 88.0, -88.0, 1e7],
    DataType.Half: [6e-8, 65504.0, -65504.0, 11.0, -11.0, 1000.0],
    DataType.BFloat16: [1e-39, 3e38, -3e38, 88.0, -88.0, 1e7],
    DataType.Float8_e4m3fn: [2.0**-9, 448.0, -448.0],
    DataType.Float8_e5m2: [2.0**-16, 57344.0, -57344.0],
    DataType.Float8_e8m0fnu: [2.0**-127, 2.0**127],
    DataType.Float4_e2m1fn: [6.0, -6.0],
}


def special(dtype: DataType) -> list[complex]:
    """Values at which implementations go wrong."""
    match dtype.category:
        case Category.BOOL:
            return [False, True]
        case Category.INTEGER:
            limits = torch.iinfo(dtype.torch)
            return [v for v in INTEGERS if limits.min <= v] + [limits.min, limits.max]
        case Category.FLOAT:
            return FLOATS + LIMITS + EXTREME[dtype]
        case Category.COMPLEX:
            parts = [0.0, -0.0, 0.5, -1.0, 2.0, -3.5]
            return [complex(a, b) for a, b in itertools.product(parts, parts)]


def operand(dtype: DataType, position: int, generator: torch.Generator) -> torch.Tensor:
    """Special values, in another order for each operand so that all pairs meet, then random; of
    pairs of 4-bit floats, all."""
    if dtype is DataType.Float4_e2m1fn_x2:
        return torch.arange(LENGTH).remainder(256).to(torch.uint8).view(dtype.torch)
    values = special(dtype)
    repeated = [values[(index // len(values) ** position) % len(values)] for index in range(LENGTH)]
    tensor = torch.tensor(repeated, dtype=dtype.torch)
    start = min(LENGTH - 150, len(values) ** 2)
    drawn = torch.randn(LENGTH - start, dtype=torch.complex128, generator=generator) * 2
    if not dtype.is_complex:
        drawn = drawn.real * (1 if dtype.is_floating else 20)
    if dtype in (DataType.UInt8, DataType.UInt64):
        drawn = drawn.abs()
    tensor[start:] = drawn.to(dtype.torch) if dtype is not DataType.Bool else drawn > 0
    return converted(tensor, dtype)


def fusion_of(rows: list[PointwiseOp], dtype: DataType) -> Fusion:
    """One fusion with an output for each row; its inputs are as many operands as any row has."""
    type_ = TensorType(dtype, (-1,), None)
    builder = FusionBuilder()
    operands = [builder.input(type_) for _ in range(4)]
    condition = builder.input(TensorType(DataType.Bool, (-1,), None))
    for row in rows:
        args = operands[: row.arity]
        if row.name == "where":
            args = [condition, *operands[:2]]
        builder.output(builder.add(Pointwise(row.name, tuple(args)))[0])
    return builder.fusion


def accepted(dtype: DataType) -> list[PointwiseOp]:
    return [row for row in TABLE.values() if letter(dtype) in row.accepts]


CANCELLING = {"add_alpha", "sub_alpha", "addcmul", "erfcinv", "lerp", "lgamma"}
"""Rows whose result may be small where the operands are not: they get the absolute tolerance."""

INTEGER_DIVISIONS = {"div", "floor_divide", "fmod", "mod", "remainder"}


def untested(name: str, dtype: DataType, args: list[torch.Tensor]) -> torch.Tensor | bool:
    """Where torch has no answer to compare with."""
    if name in ("floor_divide", "fmod", "mod", "remainder") and dtype.is_floating:
        return (args[0] / args[1]).abs() > 1e6  # torch's vector code loses the remainder
    return False


def agree(got: torch.Tensor, want: torch.Tensor, absolute: bool) -> torch.Tensor:
    """Where results are equal within the tolerance of their dtype: NaN as NaN, infinity as
    infinity."""
    if want.dtype is torch.float4_e2m1fn_x2:
        return got.view(torch.uint8) == want.view(torch.uint8)
    dtype = from_torch(want.dtype)
    assert dtype is not None
    relative, around_one = tolerance(dtype)
    if dtype.is_byte_float:  # nothing is computed
        return torch.isclose(got.float(), want.float(), rtol=0, atol=0, equal_nan=True)
    if dtype.is_complex:
        near = (got - want).abs() <= relative * want.abs() + around_one * absolute
        parts = [agree(part(got), part(want), absolute) for part in (torch.real, torch.imag)]
        return near | (parts[0] & parts[1])
    if not dtype.is_floating:
        return got == want
    smallest = torch.finfo(want.dtype).tiny
    return torch.isclose(
        got, want, rtol=relative, atol=around_one * absolute or smallest, equal_nan=True
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", list(DataType), ids=lambda dtype: dtype.name)
def test_every_row_is_what_torch_computes(dtype: DataType, target: str):
    generator = torch.Generator().manual_seed(1)
    given = [operand(dtype, position, generator) for position in range(4)]
    given.append(torch.rand(LENGTH, generator=generator) > 0.5)
    rows = accepted(dtype)
    if dtype.category is Category.INTEGER:  # torch refuses to divide integers by zero
        rows = [row for row in rows if row.name not in INTEGER_DIVISIONS]
    fusion = fusion_of(rows, dtype)

    results = Executor(fusion).execute(given, target=target)

    wrong: list[str] = []
    for row, got, want in zip(rows, results, interpret(fusion, given), strict=True):
        assert got.dtype is want.dtype, row.name
        right = agree(got, want, row.name in CANCELLING) | untested(row.name, dtype, given)
        for at in (~right).nonzero().flatten().tolist()[:3]:
            args = [one_by_one(tensor[at : at + 1]).tolist() for tensor in given[: row.arity]]
            found, right = (one_by_one(result[at : at + 1]).tolist() for result in (got, want))
            wrong.append(f"{row.name}{args}: {found}, torch has {right}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "dtype", [d for d in DataType if letter(d) == "i"], ids=lambda dtype: dtype.name
)
def test_integer_divisions_are_what_torch_computes(dtype: DataType, target: str):
    generator = torch.Generator().manual_seed(1)
    given = [operand(dtype, position, generator) for position in range(4)]
    given[1][given[1] == 0] = 5
    least = torch.iinfo(dtype.torch).min
    if least < 0:  # the least integer by -1 overflows, which torch leaves to the processor
        given[0][(given[0] == least) & (given[1] == -1)] = 9
    given.append(torch.zeros(LENGTH, dtype=torch.bool))
    fusion = fusion_of([TABLE[name] for name in sorted(INTEGER_DIVISIONS)], dtype)

    results = Executor(fusion).execute(given, target=target)

    for got, want in zip(results, interpret(fusion, given), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("narrow", [DataType.UInt8, DataType.Int8, DataType.Int16], ids=str)
def test_numbers_that_do_not_fit_a_narrow_integer_keep_its_bits(
    of: torch.dtype, narrow: DataType, target: str
):
    x = torch.linspace(-1e6, 1e6, LENGTH)
    with FusionDefinition() as fd:
        made = fd.ops.cast(fd.from_pytorch(x.to(of)), narrow)
        fd.add_output(made)
        fd.add_output(fd.ops.cast(made, DataType.Float))

    kept, widened = fd.execute([x.to(of)], target=target)

    assert torch.equal(kept, x.to(torch.int32).to(narrow.torch))
    assert torch.equal(widened, kept.float())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("by", [DataType.Int, DataType.Int32])
def test_fractions_become_zero_and_not_zero_below_it(
    by: DataType, of: torch.dtype, target: str
) -> None:
    given = torch.linspace(-1.5, 1.5, LENGTH).to(of)
    for to in (of, torch.float32):
        with FusionDefinition() as fd:
            whole = fd.ops.cast(fd.from_pytorch(given), dtype=by)
            fd.add_output(fd.ops.cast(whole, dtype=from_torch(to)))
        (got,), (want,) = fd.execute([given], target=target), interpret(fd.fusion, [given])
        assert torch.equal(got, want)
        parts = torch.view_as_real(got) if got.is_complex() else got
        assert not parts.signbit()[parts == 0].any()


def test_every_row_accepts_some_dtype_and_is_thus_tested():
    tested = {row.name for dtype in DataType for row in accepted(dtype)}
    assert tested == set(TABLE)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_inverse_functions_of_infinite_complex_numbers(dtype: torch.dtype, target: str):
    parts = (0.0, -0.0, 1.5, -2.0, math.inf, -math.inf)
    x = torch.tensor([complex(a, b) for a, b in itertools.product(parts, parts)], dtype=dtype)
    names = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
    with FusionDefinition() as fd:
        for name in names:
            fd.add_output(getattr(fd.ops, name)(fd.from_pytorch(x)))
    for name, got in zip(names, fd.execute([x] * len(names), target=target), strict=True):
        want = torch.view_as_real(getattr(torch, name)(x))
        torch.testing.assert_close(torch.view_as_real(got), want, msg=name)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_quotients_of_infinite_and_undefined_complex_numbers(dtype: torch.dtype, target: str):
    parts = (0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan)
    numbers = [complex(a, b) for a, b in itertools.product(parts, parts)]
    x = torch.tensor(numbers, dtype=dtype).repeat(len(numbers))
    y = torch.tensor(numbers, dtype=dtype).repeat_interleave(len(numbers))
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        for made in (fd.ops.truediv(a, b), fd.ops.div(a, b), fd.ops.reciprocal(b)):
            fd.add_output(made)
    wants = (x / y, x / y, y.reciprocal())
    for got, want in zip(fd.execute([x, y], target=target), wants, strict=True):
        torch.testing.assert_close(
            torch.view_as_real(got), torch.view_as_real(want), equal_nan=True
        )


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_functions_of_complex_numbers_with_infinite_and_undefined_parts(
    dtype: torch.dtype, target: str
):
    parts = (0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan)
    x = torch.tensor([complex(a, b) for a, b in itertools.product(parts, parts)], dtype=dtype)
    names = ("atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh")
    with FusionDefinition() as fd:
        for name in names:
            fd.add_output(getattr(fd.ops, name)(fd.from_pytorch(x)))
    for name, got in zip(names, fd.execute([x] * len(names), target=target), strict=True):
        want = getattr(torch, name)(x)
        assert got.isnan().equal(want.isnan()), name  # of any part
        parts_of = (torch.view_as_real(z[~want.isnan()]) for z in (got, want))
        torch.testing.assert_close(*parts_of, msg=name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 2.0, -1.0, 0.0])
def test_powers_of_a_constant_exponent_are_what_torch_computes(
    exponent: float, dtype: torch.dtype, target: str
):
    """Alone in a kernel, so that its loop may become vectors."""
    x = torch.tensor([*LIMITS, 0.0, -0.0, 4.0, -4.0, 2.0] * 64, dtype=dtype)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.pow(fd.from_pytorch(x), exponent))
    (result,) = fd.execute([x], target=target)
    expected = torch.pow(x, torch.full_like(x, exponent))
    torch.testing.assert_close(result, expected, equal_nan=True)
    ours, theirs = (torch.signbit(t.nan_to_num()) for t in (result, expected))
    assert torch.equal(ours, theirs)
