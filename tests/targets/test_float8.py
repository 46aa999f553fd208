"""8-bit floats, on every target: converted as by the oracle, moved to the bit, and scaled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import FuserError, OperandDtypeError
from fuser.frontend.handles import Handle
from fuser.ir import products
from fuser.ir.dtypes import NUMBERS
from fuser.ir.interpret import interpret

FLOAT, INT, BOOL = DataType.Float, DataType.Int, DataType.Bool
FLOAT8 = [DataType.Float8_e4m3fn, DataType.Float8_e5m2, DataType.Float8_e8m0fnu]
SIGNED = FLOAT8[:2]
OTHERS = [dtype for dtype in NUMBERS if dtype not in FLOAT8]

eight = pytest.mark.parametrize("dtype", FLOAT8, ids=lambda d: d.name)
targets = pytest.mark.parametrize("target", ["cpu", "emulator"])


def patterns(dtype: DataType, *shape: int) -> torch.Tensor:
    """All numbers of a type, again and again."""
    count = torch.Size(shape).numel()
    return torch.arange(count).remainder(256).to(torch.uint8).view(dtype.torch).reshape(shape)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """What two equal tensors have in common: all bits, but those of NaN."""
    return torch.where(tensor.float().isnan(), 0x7F, tensor.view(torch.uint8))


def same_bits(fd: FusionDefinition, inputs: list[torch.Tensor], target: str) -> list[torch.Tensor]:
    """The outputs on a target, which are the oracle's to the bit."""
    results = fd.execute(inputs, target=target)
    for result, expected in zip(results, interpret(fd.fusion, inputs), strict=True):
        assert result.dtype is expected.dtype
        exact = bits if result.dtype.itemsize == 1 and result.is_floating_point() else torch.clone
        torch.testing.assert_close(exact(result), exact(expected), rtol=0, atol=0, equal_nan=True)
    return results


def add_cast(fd: FusionDefinition, x: Handle, dtype: DataType) -> None:
    """Cast to a type; 4-bit floats, of which memory has pairs alone, are cast on."""
    made = fd.ops.cast(x, dtype)
    fd.add_output(fd.ops.cast(made, FLOAT) if dtype is DataType.Float4_e2m1fn else made)


# -- conversions ---------------------------------------------------------------------------------


@targets
@eight
def test_every_number_is_converted_to_every_type(dtype: DataType, target: str) -> None:
    given = patterns(dtype, 5, 257)
    finite = torch.where(given.float().isfinite(), given.float(), 1.0).to(dtype.torch)
    with FusionDefinition() as fd:
        x, exact = fd.from_pytorch(given), fd.from_pytorch(finite)
        for other in (*FLOAT8, *OTHERS):
            if other is not dtype:
                of = exact if other.is_integral else x
                wide = fd.ops.cast(of, FLOAT)
                if other is DataType.UInt64:  # what C++ makes of numbers below 0 is undefined
                    wide = fd.ops.abs(wide)
                    of = fd.ops.cast(wide, dtype)
                small = fd.ops.where(wide < 100.0, of, 1.0)
                add_cast(fd, small if other.is_integral else of, other)
    same_bits(fd, [given, finite], target)


def numbers(dtype: DataType) -> torch.Tensor:
    """What is between the numbers of an 8-bit float and beyond them, as `dtype`."""
    if dtype is BOOL:
        return torch.tensor([True, False] * 40)
    if dtype.is_integral:
        limits = torch.iinfo(dtype.torch)
        near = torch.arange(max(limits.min, -600), min(limits.max, 600) + 1)
        ends = torch.tensor([limits.min, limits.max], dtype=dtype.torch)
        return torch.cat([near.to(dtype.torch), ends])
    powers = 2.0 ** torch.arange(-20, 18, dtype=torch.float64)
    steps = torch.arange(0, 33, dtype=torch.float64)[:, None] / 32 + 1
    between = (powers * steps).flatten()
    special = torch.tensor([0.0, 447.99, 448, 464.1, 480, 61439, 61440, torch.inf, torch.nan])
    values = torch.cat([between, special.double()])
    return torch.cat([values, -values]).to(dtype.torch)


@targets
@pytest.mark.parametrize("dtype", OTHERS, ids=lambda d: d.name)
def test_numbers_of_every_type_are_rounded_to_8_bits(dtype: DataType, target: str) -> None:
    given = numbers(dtype)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        for to in FLOAT8:
            add_cast(fd, x, to)
    same_bits(fd, [given], target)


@targets
def test_what_is_too_large_is_the_largest_number_or_infinity(target: str) -> None:
    given = torch.tensor([448.0, 464.1, 1e9, torch.inf, -torch.inf, torch.nan])
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        for dtype in SIGNED:
            fd.add_output(fd.ops.cast(x, dtype))
    largest, infinite = (out.float() for out in fd.execute([given], target=target))
    assert largest[:5].tolist() == [448.0] * 4 + [-448.0]
    assert largest[5].isnan()
    assert infinite[2:5].tolist() == [torch.inf, torch.inf, -torch.inf]


# -- movement ------------------------------------------------------------------------------------


def moved(fd: FusionDefinition, x: Handle, y: Handle, at: Handle, mask: Handle) -> list[Handle]:
    """What moves elements and computes nothing."""
    ops = fd.ops
    return [
        ops.set(x),
        ops.permute(x, [1, 0]),
        ops.stride_order(ops.permute(x, [1, 0]), [1, 0]),
        ops.reshape(x, [-1]),
        ops.slice(x, [1, 3], [5, 200], [1, 2]),
        ops.flip(x, [1]),
        ops.cat([x, y], 1),
        ops.pad(x, [1, 2], 1.0),
        ops.where(mask, x, y),
        ops.where(mask, x, 2.0),
        ops.index_select(x, at, 0),
        ops.select(x, 2, 0),
        ops.gather(x, ops.broadcast_in_dim(at, [3, 257], [0]), 0),
        ops.take_along_axis(x, ops.broadcast_in_dim(at, [3, 257], [0]), 0),
        ops.expand(ops.broadcast(x, [True, False, False]), [2, -1, -1]),
        ops.scatter(x, ops.broadcast_in_dim(at, [3, 257], [0]), ops.slice(y, [0, 0], [3, 257]), 0),
        ops.scatter(x, ops.broadcast_in_dim(at, [3, 257], [0]), 0.5, 0),
    ]


@targets
@eight
@pytest.mark.parametrize("number", range(17))
def test_elements_are_moved_to_the_bit(number: int, dtype: DataType, target: str) -> None:
    given = [patterns(dtype, 6, 257), patterns(dtype, 257, 6).t(), torch.tensor([4, 0, 5])]
    given.append(torch.arange(6 * 257).remainder(3).eq(0).reshape(6, 257))
    with FusionDefinition() as fd:
        x, y, at, mask = map(fd.from_pytorch, given)
        fd.add_output(moved(fd, x, y, at, mask)[number])
    same_bits(fd, given, target)


@targets
@eight
def test_numbers_that_are_written_down(dtype: DataType, target: str) -> None:
    with FusionDefinition() as fd:
        half = fd.define_scalar(0.3, dtype=dtype)
        given = fd.define_scalar(dtype=dtype)
        fd.add_output(fd.ops.full([3, 5], 0.3, dtype))
        fd.add_output(fd.ops.full([7], half, FLOAT))
        fd.add_output(fd.ops.full([7], given, FLOAT))
    rounded = torch.tensor(0.3).to(dtype.torch).float()
    full, constant, input_ = fd.execute([0.3], target=target)
    assert full.dtype is dtype.torch
    for out in (full, constant, input_):
        assert (out.float() == rounded).all()


# -- quantization --------------------------------------------------------------------------------


def quantized_rows(fd: FusionDefinition, x: Handle, to: DataType) -> list[Handle]:
    """A norm of each row, scaled by its largest number, and that number."""
    ops = fd.ops
    wide = ops.cast(x, FLOAT)
    squares = ops.var_mean(wide, dims=[1], correction=0, keepdim=True)[0]
    normed = wide * ops.rsqrt(squares + 1e-6)
    largest = ops.max(ops.abs(normed), dims=[1], keepdim=True)
    scale = ops.maximum(largest, 1e-12) / 448.0
    return [ops.cast(normed / scale, to), scale]


def quantized_tensor(fd: FusionDefinition, x: Handle, to: DataType) -> list[Handle]:
    ops = fd.ops
    wide = ops.cast(x, FLOAT)
    scale = ops.max(ops.abs(wide)) / 448.0
    return [ops.cast(wide / scale, to), scale]


def quantized_blocks(fd: FusionDefinition, x: Handle, to: DataType) -> list[Handle]:
    """32 numbers share a power of two, as in the microscaling formats."""
    ops = fd.ops
    rows, columns = (ops.size(x, dim) for dim in (0, 1))
    blocks = ops.reshape(ops.cast(x, FLOAT), [rows, -1, 32])
    largest = ops.max(ops.abs(blocks), dims=[2], keepdim=True)
    scale = ops.exp2(ops.floor(ops.log2(largest)) - 8.0)
    elements = ops.cast(blocks / scale, to)
    scales = ops.cast(ops.squeeze(scale, [2]), DataType.Float8_e8m0fnu)
    return [ops.reshape(elements, [rows, columns]), scales]


def quantized_transposed(fd: FusionDefinition, x: Handle, to: DataType) -> list[Handle]:
    wide = fd.ops.cast(fd.ops.permute(x, [1, 0]), FLOAT)
    return [fd.ops.stride_order(fd.ops.cast(wide * 3.0, to), [1, 0])]


QUANTIZED: list[Callable[[FusionDefinition, Handle, DataType], list[Handle]]] = [
    quantized_rows,
    quantized_tensor,
    quantized_blocks,
    quantized_transposed,
]


@targets
@pytest.mark.parametrize("dtype", SIGNED, ids=lambda d: d.name)
@pytest.mark.parametrize("given", [DataType.BFloat16, FLOAT], ids=lambda d: d.name)
@pytest.mark.parametrize("make", QUANTIZED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 32), (70, 1056)], ids=str)
def test_scaled_numbers_are_the_oracles(
    shape: tuple[int, int],
    make: Callable[[FusionDefinition, Handle, DataType], list[Handle]],
    given: DataType,
    dtype: DataType,
    target: str,
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(given.torch)
    with FusionDefinition() as fd:
        for out in make(fd, fd.from_pytorch(x), dtype):
            fd.add_output(out)
    fd.validate([x], target=target)
    if make is quantized_transposed:
        return
    (kernel,) = fd.plan([x], target=target).kernels
    assert kernel.scheduler == "rows" or shape == (3, 32)


@targets
def test_scaled_numbers_are_wide_again(target: str) -> None:
    codes, scale = patterns(DataType.Float8_e4m3fn, 64, 255), torch.rand(64, 1)
    with FusionDefinition() as fd:
        q, s = fd.from_pytorch(codes), fd.from_pytorch(scale)
        fd.add_output(fd.ops.cast(fd.ops.cast(q, FLOAT) * s, DataType.BFloat16))
        fd.add_output(fd.ops.sum(q, dims=[1], dtype=FLOAT))
    same_bits_or_near = fd.validate([codes, scale], target=target)
    assert [out.dtype for out in same_bits_or_near] == [torch.bfloat16, torch.float32]


# -- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", SIGNED, ids=lambda d: d.name)
@pytest.mark.parametrize("to", [FLOAT, DataType.BFloat16, DataType.Float8_e4m3fn])
def test_products_of_scaled_numbers(to: DataType, right: DataType) -> None:
    a = torch.randn(32, 64).to(torch.float8_e4m3fn)
    b = torch.randn(48, 64).to(right.torch).t()
    rows, columns = torch.rand(32, 1) / 8, torch.rand(1, 48)
    given = [a, b, rows, columns]
    with FusionDefinition() as fd:
        mat1, mat2, scale1, scale2 = map(fd.from_pytorch, given)
        out, _, _ = fd.ops.scaled_mm(mat1, mat2, scale1, scale2, dtype=to)
        fd.add_output(out)
    (got,) = fd.execute(given)
    exact = (a.double() @ b.double()) * rows * columns
    assert got.dtype is to.torch
    bound = {FLOAT: 1e-5, DataType.BFloat16: 2.0**-8}.get(to, 2.0**-4)
    torch.testing.assert_close(got.double(), exact, rtol=bound, atol=bound / 4)


@pytest.mark.parametrize("rowwise", [True, False])
def test_torchs_product_of_8_bit_floats_is_ours(rowwise: bool) -> None:
    """What is called on a GPU, on the processor."""
    if rowwise and torch.__version__ < (2, 13):
        pytest.skip("on processors, torch 2.11 has no scale for each row")
    a, b = torch.randn(32, 64).to(torch.float8_e4m3fn), torch.randn(48, 64).to(torch.float8_e4m3fn)
    scales = (torch.rand(32, 1), torch.rand(1, 48)) if rowwise else (torch.rand(()), torch.rand(1))
    given = (a, b.t(), *scales, DataType.BFloat16)
    assert products.float8_product_takes(*given)
    (ours,) = products.scaled(*given[:4], None, None, None, dtype=DataType.BFloat16)
    torch.testing.assert_close(products.float8_product(*given), ours, rtol=2e-2, atol=2e-2)
    for changed in (
        (a.t().contiguous().t(), b.t(), *scales, DataType.BFloat16),
        (a, b.t().contiguous(), *scales, DataType.BFloat16),
        (a[:, :40], b.t()[:40], *scales, DataType.BFloat16),
        (a.float(), b.t().float(), *scales, DataType.BFloat16),
        (a.to(torch.float8_e5m2), b.to(torch.float8_e5m2).t(), *scales, DataType.BFloat16),
        (a, b.t(), *(scale.double() for scale in scales), DataType.BFloat16),
        (a, b.t(), torch.rand(32, 1), torch.rand(()), DataType.BFloat16),
        (_one_byte_on(a), b.t(), *scales, DataType.BFloat16),
        (a, _one_byte_on(b).t(), *scales, DataType.BFloat16),
    ):
        assert not products.float8_product_takes(*changed)
    e5m2 = b.to(torch.float8_e5m2).t()
    takes = products.float8_product_takes(a, e5m2, *scales, DataType.BFloat16)
    assert takes is not rowwise  # on some GPUs, torch refuses these columns with a scale for each


def _one_byte_on(given: torch.Tensor) -> torch.Tensor:
    """The same numbers, at an address that is no multiple of 16."""
    memory = torch.empty(given.numel() + 1, dtype=given.dtype)[1:]
    return memory.view(given.shape).copy_(given)


# -- refusals ------------------------------------------------------------------------------------

REFUSED: dict[str, Callable[[FusionDefinition, Handle, Handle], object]] = {
    "add": lambda fd, x, f: fd.ops.add(x, x),
    "neg": lambda fd, x, f: fd.ops.neg(x),
    "eq": lambda fd, x, f: fd.ops.eq(x, x),
    "isnan": lambda fd, x, f: fd.ops.isnan(x),
    "relu": lambda fd, x, f: fd.ops.relu(x),
    "sum": lambda fd, x, f: fd.ops.sum(x, dims=[0]),
    "max": lambda fd, x, f: fd.ops.max(x, dims=[0]),
    "argmax": lambda fd, x, f: fd.ops.argmax(x, dim=0),
    "cumsum": lambda fd, x, f: fd.ops.cumsum(x, 0),
    "matmul": lambda fd, x, f: fd.ops.matmul(x, x),
    "topk": lambda fd, x, f: fd.ops.topk(x, 1),
    "uniform": lambda fd, x, f: fd.ops.uniform(0.0, 1.0, [4], dtype=x.dtype()),
    "scatter_add": lambda fd, x, f: fd.ops.scatter_add(x, fd.ops.full([4, 4], 0, INT), x, 0),
    "index_add": lambda fd, x, f: fd.ops.index_add(x, fd.ops.full([4], 0, INT), x, 0),
}


@eight
@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_computed_in_8_bits(name: str, dtype: DataType) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 4], [True, True], dtype=dtype)
        f = fd.define_tensor([4, 4], [True, True], dtype=FLOAT)
        with pytest.raises(OperandDtypeError, match="cast 8-bit floats to Float first") as raised:
            REFUSED[name](fd, x, f)
        assert name in str(raised.value)
        assert dtype.name in str(raised.value)
        fd.add_output(x)


@pytest.mark.parametrize("name", ["add", "mul", "where", "maximum"])
def test_8_bit_floats_are_not_promoted(name: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], [True], dtype=DataType.Float8_e4m3fn)
        others = [fd.define_tensor([4], [True], dtype=d) for d in (FLOAT, DataType.Float8_e5m2)]
        mask = fd.define_tensor([4], [True], dtype=BOOL)
        for other in others:
            for pair in ((x, other), (other, x)):
                args = (mask, *pair) if name == "where" else pair
                with pytest.raises(OperandDtypeError, match="8-bit floats are not promoted"):
                    getattr(fd.ops, name)(*args)
        scalar = fd.define_scalar(1.0, dtype=DataType.Float8_e4m3fn)
        with pytest.raises(FuserError, match="8-bit floats are not promoted"):
            fd.ops.where(mask, scalar, 1.0)
        fd.add_output(x)


def test_concatenated_types_are_one() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], [True], dtype=DataType.Float8_e4m3fn)
        y = fd.define_tensor([4], [True], dtype=DataType.Float8_e5m2)
        with pytest.raises(OperandDtypeError, match="cat"):
            fd.ops.cat([x, y], 0)
        fd.add_output(x)
