"""4-bit floats on every target: rounded, paired, moved, quantized by blocks, and multiplied."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import (
    ArgumentError,
    ArgumentTypeError,
    FuserError,
    InputDtypeError,
    OperandDtypeError,
)
from fuser.frontend.handles import Handle
from fuser.ir import block_products
from fuser.ir.interpret import interpret

FLOAT, FOUR, E4M3 = DataType.Float, DataType.Float4_e2m1fn, DataType.Float8_e4m3fn
PAIRS = torch.float4_e2m1fn_x2
SIZES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])

targets = pytest.mark.parametrize("target", ["cpu", "emulator"])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def code(x: torch.Tensor) -> torch.Tensor:
    """The 4 bits of each number: those of the nearest, of two as near of the even one."""
    size = x.double().abs().nan_to_num(6.0).clamp(max=6.0)
    odd = torch.arange(8) % 2 * 1e-9
    nearest = ((size[..., None] - SIZES.double()).abs() + odd).argmin(-1)
    return nearest.to(torch.uint8) | (x.signbit() & ~x.isnan()).to(torch.uint8) << 3


def paired(x: torch.Tensor) -> torch.Tensor:
    """Numbers as pairs along the last dimension."""
    bits = code(x)
    return (bits[..., ::2] | bits[..., 1::2] << 4).view(PAIRS)


def apart(pairs: torch.Tensor) -> torch.Tensor:
    """The numbers of pairs along the last dimension."""
    bits = pairs.view(torch.uint8)
    both = torch.stack((bits & 15, bits >> 4), -1).flatten(-2).int()
    return SIZES[both & 7] * (1 - (both >> 3) * 2)


def equal(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether all bits are equal."""
    bits = (each.contiguous().view(torch.uint8) for each in (got, want))
    return got.dtype is want.dtype and torch.equal(*bits)


def every_pair(*shape: int) -> torch.Tensor:
    """All bytes, again and again."""
    return torch.arange(torch.Size(shape).numel()).to(torch.uint8).view(PAIRS).reshape(shape)


# -- conversions ---------------------------------------------------------------------------------


@targets
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_numbers_are_rounded_to_the_nearest(dtype: torch.dtype, target: str) -> None:
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    near = torch.cat([ties, ties * (1 - 2**-7), ties * (1 + 2**-7), SIZES])
    beyond = torch.tensor([6.5, 7.0, 1e30, torch.inf, torch.nan, 1e-30, 1e-44])
    x = torch.cat([near, beyond, torch.randn(99) * 3])
    x = torch.cat([x, -x]).to(dtype)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cast(fd.from_pytorch(x), FOUR))
    (got,) = fd.execute([x], target=target)
    assert equal(got, paired(x))
    assert equal(got, interpret(fd.fusion, [x])[0])


@targets
def test_every_pair_is_two_numbers(target: str) -> None:
    given = every_pair(4, 64)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        fd.add_output(fd.ops.cast(x, FLOAT))
        fd.add_output(fd.ops.cast(fd.ops.neg(fd.ops.cast(x, FLOAT)), FOUR))
    wide, negated = fd.execute([given], target=target)
    assert equal(wide, apart(given))
    assert equal(negated, paired(-apart(given)))


@targets
def test_what_is_declared_has_twice_the_size_of_its_pairs(target: str) -> None:
    # As nvFuser declares them: by the sizes and strides of single elements.
    given = every_pair(6, 10)
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=FOUR)
        y = fd.define_tensor(shape=[6, 20], contiguity=True, dtype=FOUR)
        z = fd.define_tensor(sizes=[6, 20], strides=[20, 1], dtype=FOUR)
        turned = fd.define_tensor(shape=[-1, -1], dtype=FOUR, stride_order=[0, 1])
        pairs = fd.define_tensor(shape=[6, 10], dtype=DataType.Float4_e2m1fn_x2)
        for operand in (x, y, z, pairs):
            fd.add_output(fd.ops.cast(operand, FLOAT))
        fd.add_output(fd.ops.permute(fd.ops.cast(turned, FLOAT), [1, 0]))
        fd.add_output(fd.ops.full([fd.ops.size(x, 1), x.size(0)], 1.0, FLOAT))
    *wide, sizes = fd.execute([given, given, given, given.t(), given], target=target)
    assert all(equal(each, apart(given)) for each in wide)
    assert sizes.shape == (20, 6)


@targets
def test_they_are_moved_and_chosen(target: str) -> None:
    given, other = every_pair(4, 6), every_pair(8, 6)[4:]
    mask = torch.rand(4, 12, generator=seeded(1)) < 0.5
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(given), fd.from_pytorch(other)
        chosen = fd.ops.where(fd.from_pytorch(mask), x, y)
        for moved in (
            x,
            fd.ops.set(x),
            chosen,
            fd.ops.reshape(x, [48]),
            fd.ops.flip(x, [1]),
            fd.ops.cat([x, y], 0),
            fd.ops.slice(x, [0, 1], [4, 11]),
            fd.ops.pad(x, [1, 1], 3.0),
        ):
            fd.add_output(moved)
    got = fd.execute([given, other, mask], target=target)
    wide, wide_other = apart(given), apart(other)
    expected = [
        wide,
        wide,
        torch.where(mask, wide, wide_other),
        wide.reshape(48),
        wide.flip(1),
        torch.cat([wide, wide_other]),
        wide[:, 1:11],
        torch.nn.functional.pad(wide, [1, 1], value=3.0),
    ]
    for result, want in zip(got, expected, strict=True):
        assert equal(result, paired(want))


@targets
def test_outputs_lie_in_pairs_along_their_fastest_dimension(target: str) -> None:
    x = torch.randn(6, 4, generator=seeded(2)) * 2
    with FusionDefinition() as fd:
        narrow = fd.ops.cast(fd.from_pytorch(x), FOUR)
        fd.add_output(narrow, stride_order=[0, 1])
        fd.add_output(fd.ops.stride_order(narrow, [0, 1]))
    for turned in fd.execute([x], target=target):
        assert turned.shape == (3, 4)
        assert turned.stride() == (1, 3)
        assert equal(turned.t(), paired(x.t()))


def test_pairs_that_stay_pairs_are_not_copied() -> None:
    given = every_pair(4, 6)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        fd.add_output(x)
        turned = fd.ops.permute(x, [1, 0])
        fd.add_output(turned)
        fd.add_output(fd.ops.cast(turned, FLOAT))
    same, other, wide = fd.execute([given])
    assert same.data_ptr() == other.data_ptr() == given.data_ptr()
    assert other.stride() == (1, 6)
    assert equal(wide, apart(given).t())
    assert [kernel.bytes_written for kernel in fd.plan([given]).kernels] == [wide.nbytes]


@targets
def test_they_are_written_into_inputs(target: str) -> None:
    given, x = every_pair(4, 6).clone(), torch.randn(4, 12, generator=seeded(3))
    with FusionDefinition() as fd:
        into = fd.from_pytorch(given)
        total = fd.ops.cast(into, FLOAT) + fd.from_pytorch(x)
        fd.add_output(fd.ops.cast(total, FOUR), alias_input=into)
    expected = paired(apart(given) + x)
    assert fd.execute([given, x], target=target) == []
    assert equal(given, expected)


# -- quantization by blocks ----------------------------------------------------------------------


def nvfp4(x: torch.Tensor, scale: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs and scales, by the definition."""
    blocks = x.float().unflatten(-1, (-1, 16))
    size = blocks.abs().amax(-1) / 6
    of_block = (size if scale is None else size * scale).clamp(max=448).to(torch.float8_e4m3fn)
    held = of_block.float() if scale is None else of_block.float() * (1 / scale)
    inverse = (1 / held).clamp(max=torch.finfo(torch.float32).max)
    return paired((blocks * inverse[..., None]).flatten(-2)), of_block


def swizzled(scales: torch.Tensor) -> torch.Tensor:
    """In whole tiles of 128 by 4."""
    rows, columns = scales.shape
    whole = torch.nn.functional.pad(scales.float(), [0, -columns % 4, 0, -rows % 128])
    tiles = whole.unflatten(1, (-1, 4)).unflatten(0, (-1, 4, 32)).permute(0, 3, 2, 1, 4)
    return tiles.reshape(whole.shape).to(scales.dtype)


def linear(tiles: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """What was `swizzled`."""
    apart_ = tiles.float().reshape(tiles.shape[0] // 128, tiles.shape[1] // 4, 32, 4, 4)
    return apart_.permute(0, 3, 2, 1, 4).reshape(tiles.shape)[:rows, :columns]


def quantized(
    x: torch.Tensor, *options: object, scale: torch.Tensor | None = None, target: str = "cpu"
) -> list[torch.Tensor]:
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        of_all = None if scale is None else fd.from_pytorch(scale)
        for made in fd.ops.nv_block_quantize(given, of_all, *options):
            fd.add_output(made)
    return fd.execute([x] if scale is None else [x, scale], target=target)


@targets
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shape", [(200, 96), (1, 1024), (3, 5, 32), (16,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_blocks_of_4_bits(
    dtype: torch.dtype, shape: tuple[int, ...], scaled: bool, target: str
) -> None:
    x = (torch.randn(shape, generator=seeded(4)) * 5).to(dtype)
    scale = (448 * 6 / x.abs().max()).float() if scaled else None
    codes, scales = quantized(x, scale=scale, target=target)
    expected = nvfp4(x, scale)
    assert equal(codes, expected[0])
    assert equal(scales, expected[1])


@targets
def test_blocks_of_zeros_and_of_what_is_not_finite(target: str) -> None:
    x = torch.ones(4, 32)
    x[0], x[1, 3], x[2, 17], x[3, :16] = 0.0, torch.nan, torch.inf, 1e-30
    codes, scales = quantized(x, target=target)
    got = apart(codes) * scales.float().repeat_interleave(16, 1)
    assert (got[0] == 0).all()
    assert got[1, :16].isnan().all()
    assert got[2, 17] == 6 * 448
    assert got[2, :16].tolist() == [6 * 0.171875] * 16
    assert (got[3, :16] == 0).all()


@targets
@pytest.mark.parametrize("shape", [(128, 64), (130, 96), (5, 16)], ids=str)
def test_scales_lie_as_products_read_them(shape: tuple[int, int], target: str) -> None:
    x = torch.randn(shape, generator=seeded(5))
    codes, scales = quantized(x, True, target=target)
    expected = nvfp4(x)
    assert equal(codes, expected[0])
    assert equal(scales, swizzled(expected[1]))


@targets
def test_blocks_of_8_bits_have_the_least_power_of_two_that_fits(target: str) -> None:
    x = torch.randn(40, 64, generator=seeded(6)) * torch.exp2(torch.arange(-20.0, 20.0))[:, None]
    x[0, :32], x[1, :32], x[2, 0], x[3, :32] = 0.0, 448.0, torch.inf, 448.0 * (1 + 2**-23)
    codes, scales = quantized(x, False, 32, E4M3, target=target)
    largest = x.unflatten(1, (2, 32)).abs().amax(-1)
    powers = scales.float()
    finite = largest.isfinite() & (largest > 0)
    assert (powers * 448 >= largest)[finite].all()
    assert (powers / 2 * 448 < largest)[finite].all()
    assert powers[1, 0] == 1
    assert powers[3, 0] == 2
    wide = (x / powers.repeat_interleave(32, 1)).clamp(-448, 448).to(torch.float8_e4m3fn)
    assert equal(codes, wide)


def test_a_quantization_is_one_kernel_that_reads_its_input_once() -> None:
    x = torch.randn(256, 512, dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        for made in fd.ops.nv_block_quantize(fd.from_pytorch(x), None, True):
            fd.add_output(made)
    for target in ("cpu", "cuda:sm_100"):
        (kernel,) = fd.plan([x], target=target).kernels
        assert kernel.bytes_read == x.nbytes
        assert kernel.bytes_written == x.numel() // 2 + x.numel() // 16


def test_a_quantization_prints_as_what_makes_it() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1])
        codes, scales = fd.ops.nv_block_quantize(x, None, True)
        fd.add_output(codes)
        fd.add_output(scales)
        fd.add_output(fd.ops.permute(codes, [1, 0]))
        fd.add_output(fd.ops.stride_order(codes, [0, 1]))
        fd.add_output(fd.ops.cast(fd.ops.cast(x, FOUR), FLOAT))
    scope: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(repr(fd), scope)
    with FusionDefinition() as again:
        scope["nvfuser_fusion"](again)  # pyright: ignore[reportCallIssue]
    assert again.fusion == fd.fusion


# -- products ------------------------------------------------------------------------------------


def product(
    left: torch.Tensor, right: torch.Tensor, kind: str, dtype: DataType, *, alpha: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """left @ right.T of what they are in few bits, and that in float64."""
    options = (True,) if kind == "nvfp4" else (True, 32, E4M3)
    a, b = quantized(left, *options), quantized(right, *options)
    with FusionDefinition() as fd:
        operands = [fd.from_pytorch(t) for t in (a[0], b[0].t(), a[1], b[1])]
        factor = None if alpha is None else fd.from_pytorch(torch.tensor(alpha))
        fd.add_output(fd.ops.scaled_mm(*operands, factor, dtype=dtype)[0])
    inputs = [a[0], b[0].t(), a[1], b[1]] + ([] if alpha is None else [torch.tensor(alpha)])
    wide: list[torch.Tensor] = []
    for (codes, scales), given in ((a, left), (b, right)):
        block = 16 if kind == "nvfp4" else 32
        numbers = apart(codes) if kind == "nvfp4" else codes.float()
        held = linear(scales, given.shape[0], given.shape[1] // block)
        wide.append(numbers.double() * held.repeat_interleave(block, 1))
    (got,) = fd.execute(inputs)
    return got, wide[0] @ wide[1].t() * (1.0 if alpha is None else alpha)


@pytest.mark.parametrize("alpha", [None, 0.25])
@pytest.mark.parametrize("kind", ["nvfp4", "mxfp8"])
@pytest.mark.parametrize("sizes", [(128, 256, 64), (37, 96, 130), (1, 32, 8)], ids=str)
def test_products_of_blocks(sizes: tuple[int, int, int], kind: str, alpha: float | None) -> None:
    rows, inner, columns = sizes
    left = torch.randn(rows, inner, generator=seeded(7))
    right = torch.randn(columns, inner, generator=seeded(8))
    got, want = product(left, right, kind, FLOAT, alpha=alpha)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))
    rounded, _ = product(left, right, kind, DataType.BFloat16, alpha=alpha)
    torch.testing.assert_close(rounded, got.bfloat16(), rtol=2**-7, atol=0)


def test_a_product_of_what_is_quantized_beside_it_is_the_same() -> None:
    left = torch.randn(128, 64, generator=seeded(9))
    right = torch.randn(32, 64, generator=seeded(10))
    of_right = quantized(right, True)
    with FusionDefinition() as fd:
        codes, scales = fd.ops.nv_block_quantize(fd.from_pytorch(left), None, True)
        others = [fd.from_pytorch(each) for each in (of_right[0].t(), of_right[1])]
        fd.add_output(fd.ops.scaled_mm(codes, others[0], scales, others[1], dtype=FLOAT)[0])
    (got,) = fd.execute([left, of_right[0].t(), of_right[1]])
    want, _ = product(left, right, "nvfp4", FLOAT, alpha=None)
    assert torch.equal(got, want)


@targets
def test_products_of_groups(target: str) -> None:
    counts, inner, columns = [115, 144, 0, 8], 64, 48
    rows = sum(counts) + 5  # those of no group are 0
    offsets = torch.tensor([0, 115, 259, 259], dtype=torch.int32)
    tiles = torch.tensor([0, 128, 384, 384], dtype=torch.int32)
    sizes = torch.tensor([[count, columns, inner] for count in counts], dtype=torch.int32)
    x = torch.randn(rows, inner, generator=seeded(11))
    weights = [torch.randn(columns, inner, generator=seeded(12 + g)) for g in range(len(counts))]
    held = [quantized(weight, True) for weight in weights]
    codes = torch.stack([pairs.view(torch.uint8) for pairs, _ in held]).view(PAIRS)
    scales = torch.stack([each.view(torch.uint8) for _, each in held]).view(torch.float8_e4m3fn)
    alpha = torch.tensor([1.0, 0.5, 2.0, 0.25])
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        others = [fd.from_pytorch(t) for t in (codes.mT, scales, alpha, sizes, offsets, tiles)]
        mine, mine_scales = fd.ops.nv_grouped_block_quantize(given, *others[-2:])
        result = fd.ops.cutlass_nvfp4_grouped_mm(mine, others[0], mine_scales, *others[1:], FLOAT)
        fd.add_output(result)
        fd.add_output(mine_scales)
    inputs = [x, codes.mT, scales, alpha, sizes, offsets, tiles]
    got, placed = fd.execute(inputs, target=target)
    pairs, of_blocks = nvfp4(x)
    wide = apart(pairs).double() * of_blocks.double().repeat_interleave(16, 1)
    want = torch.zeros(rows, columns, dtype=torch.float64)
    for group, (count, first, tile) in enumerate(
        zip(counts, offsets.tolist(), tiles.tolist(), strict=True)
    ):
        other = apart(codes[group]).double() * linear(scales[group], columns, 4).repeat_interleave(
            16, 1
        )
        want[first : first + count] = alpha[group] * (wide[first : first + count] @ other.t())
        of_group = swizzled(of_blocks[first : first + count]) if count else placed[:0]
        if group < len(counts) - 1:  # the last has the rows of no group too
            assert equal(placed[tile : tile + len(of_group)], of_group)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


# -- refusals ------------------------------------------------------------------------------------


REFUSED: list[tuple[str, type[FuserError], str]] = [
    ("fd.ops.add(x, x)", OperandDtypeError, "cast 4-bit floats to Float first"),
    ("fd.ops.add(x, 1.0)", OperandDtypeError, "4-bit floats"),
    ("fd.ops.cast(f, DataType.Float4_e2m1fn_x2)", ArgumentTypeError, "Float4_e2m1fn: outputs"),
    ("fd.define_scalar(DataType.Float4_e2m1fn)", ArgumentError, "no scalar has 4 bits"),
    ("fd.define_scalar(0.5, DataType.Float4_e2m1fn)", ArgumentError, "no scalar has 4 bits"),
    ("fd.define_tensor([], dtype=DataType.Float4_e2m1fn)", ArgumentError, "0-dim"),
    ("fd.define_tensor([4, 3], dtype=DataType.Float4_e2m1fn)", ArgumentError, "must be even"),
    ("fd.add_output(fd.ops.cast(odd, DataType.Float4_e2m1fn))", ArgumentError, "in pairs"),
    ("fd.ops.float4_pair(1.0, 2.0)", ArgumentTypeError, "a tensor of the definition"),
    ("fd.ops.float4_low(f)", OperandDtypeError, "packed 4-bit floating"),
    ("fd.ops.nv_block_quantize(odd)", ArgumentError, "multiple of 16"),
    ("fd.ops.nv_block_quantize(f, block_size=32)", ArgumentError, "16 elements of Float4"),
    ("fd.ops.nv_block_quantize(f, dtype=DataType.Half)", ArgumentError, "one of DataType.Float4"),
    ("fd.ops.nv_block_quantize(x)", ArgumentError, "floats of 16 bits or more"),
    (
        "fd.ops.nv_block_quantize(wide, f, False, 32, DataType.Float8_e4m3fn)",
        ArgumentError,
        "powers of two alone",
    ),
    (
        "fd.ops.nv_block_quantize(fd.ops.reshape(f, [2, 2, 16]), None, True)",
        ArgumentError,
        "scales of a matrix",
    ),
    ("fd.ops.nv_grouped_block_quantize(f, f, f)", ArgumentError, "one dimension, of Int32"),
    ("fd.ops.cutlass_nvfp4_grouped_mm(x, *[f] * 7)", OperandDtypeError, "mat2 must be of 4-bit"),
    ("fd.ops.cutlass_nvfp4_grouped_mm(*[f] * 8)", OperandDtypeError, "mat1 must be of 4-bit"),
    ("fd.ops.scaled_mm(x, f, f, f)", OperandDtypeError, "one dtype"),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSED, ids=[call for call, _, _ in REFUSED])
def test_what_is_not_there_is_named(call: str, error: type[FuserError], said: str) -> None:
    with FusionDefinition() as fd:
        f = fd.define_tensor(shape=[4, 16])
        scope: dict[str, Handle | object] = {"fd": fd, "DataType": DataType, "f": f}
        scope["x"] = fd.define_tensor(shape=[4, 16], dtype=FOUR)
        scope["wide"] = fd.define_tensor(shape=[4, 32])
        scope["odd"] = fd.define_tensor(shape=[4, 5])
        with pytest.raises(error, match=said):
            exec(call, scope)
        fd.add_output(f)


def test_bytes_are_not_pairs_until_they_are_viewed_as_such() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(every_pair(2, 4))
        fd.add_output(fd.ops.cast(x, FLOAT))
    with pytest.raises(InputDtypeError, match=rf"view its bytes as {PAIRS}, or define"):
        fd.execute([every_pair(2, 4).view(torch.uint8)])


def test_a_script_that_reproduces_it_has_its_bits() -> None:
    given = every_pair(3, 7)[:, 1:]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cast(fd.from_pytorch(given), FLOAT))
    scope: dict[str, torch.Tensor] = {}
    exec(fd.repro_script_for([given]), scope)
    (made,) = scope["inputs"]
    assert made.dtype is PAIRS
    assert made.stride() == given.stride()
    fd.execute([given], save_repro_inputs=True)
    fd.validate([given])


def test_pairs_are_left_to_torch_in_programs() -> None:
    given = every_pair(4, 6)

    @torch.compile(backend="fuser", fullgraph=True)
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.t().contiguous(), x.view(torch.uint8).float() + 1

    turned, numbers = program(given)
    assert equal(turned, given.t().contiguous())
    assert torch.equal(numbers, given.view(torch.uint8).float() + 1)


@pytest.mark.parametrize(
    ("rows", "offsets", "tiles", "said"),
    [
        ([3, 6], [0, 3], [0, 128], "group 1: 6 rows from 3 on"),
        ([3, 5], [0, -1], [0, 128], "group 1: 5 rows from -1 on"),
        ([3, 5], [0, 3], [0, 256], "scales from 256 on"),
        ([3, 5, 0], [0, 3, 8], [0, 128, 256], "each of the 2 groups"),
    ],
)
def test_groups_that_are_not_there_are_named(
    rows: list[int], offsets: list[int], tiles: list[int], said: str
) -> None:
    codes, scales = quantized(torch.randn(8, 64))[0], torch.ones(256, 4).to(torch.float8_e4m3fn)
    others = quantized(torch.randn(2 * 128, 64), True)
    columns = others[0].view(2, 128, 32).mT, others[1].view(2, 128, 4)
    sizes = torch.tensor([[count, 128, 64] for count in rows])
    at = torch.tensor(offsets), torch.tensor(tiles)
    inputs = [codes, columns[0], scales, columns[1], torch.ones(2), sizes, *at]
    with FusionDefinition() as fd:
        handles = [fd.from_pytorch(each) for each in inputs]
        fd.add_output(fd.ops.cutlass_nvfp4_grouped_mm(*handles))
    with pytest.raises(ArgumentError, match=said):
        fd.execute(inputs)


def test_scales_of_another_number_of_tiles_are_named() -> None:
    codes, scales = quantized(torch.randn(128, 64), True)
    with pytest.raises(ArgumentError, match="scales of"):
        block_products.block_product(codes, codes.t(), scales[:64], scales, FLOAT)
