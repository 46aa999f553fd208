"""UInt64, on every target: converted as by torch, moved to the bit, and nothing computed in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import ArgumentError, OperandDtypeError
from fuser.frontend.handles import Handle
from fuser.ir import conversions
from fuser.ir.dtypes import NUMBERS
from fuser.ir.interpret import interpret

UINT64, INT, FLOAT = DataType.UInt64, DataType.Int, DataType.Float
OTHERS = [dtype for dtype in NUMBERS if dtype is not UINT64]
LARGE = [2**63 - 1, 2**63, 2**63 + 2049, 2**64 - 1]
NUMBERS = [0, 1, 200, 300, 2**31 + 5, 2**32 - 1, 2**53 + 1, *LARGE]

targets = pytest.mark.parametrize("target", ["cpu", "emulator"])
other = pytest.mark.parametrize("dtype", OTHERS, ids=lambda d: d.name)


def numbers(*shape: int) -> torch.Tensor:
    """Small and large ones, again and again."""
    count = torch.Size(shape).numel()
    repeated = [NUMBERS[i % len(NUMBERS)] for i in range(count)]
    return torch.tensor(repeated, dtype=torch.uint64).reshape(shape)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """What is compared of a tensor: that of 8-bit floats, their bytes."""
    float8 = tensor.is_floating_point() and tensor.itemsize == 1
    return tensor.view(torch.uint8) if float8 else tensor


def converted(given: torch.Tensor, dtype: DataType, target: str) -> torch.Tensor:
    """A tensor that is cast; the oracle has the same."""
    with FusionDefinition() as fd:
        made = fd.ops.cast(fd.from_pytorch(given), dtype)
        is_pair = dtype is DataType.Float4_e2m1fn  # of which memory has no single ones
        fd.add_output(fd.ops.cast(made, DataType.Float8_e4m3fn) if is_pair else made)
    (result,) = fd.execute([given], target=target)
    (expected,) = interpret(fd.fusion, [given])
    assert torch.equal(bits(result), bits(expected))
    return result


# -- conversions ---------------------------------------------------------------------------------


@targets
@other
def test_numbers_are_converted_to_every_type(dtype: DataType, target: str) -> None:
    given = numbers(5, 67)
    result = converted(given, dtype, target)
    assert result.dtype is dtype.torch
    assert torch.equal(bits(result), bits(conversions.converted(given, dtype)))


@targets
@other
def test_numbers_of_every_type_are_converted(dtype: DataType, target: str) -> None:
    """Floats that are in range, and integers, of which those below 0 wrap around."""
    if dtype.is_integral:
        given = torch.tensor([0, 1, 100, -1, -100] * 40).to(dtype.torch)
    else:
        largest = torch.finfo(dtype.real.torch).max
        reals = torch.tensor([0.0, 0.75, 1.5, 100.0, 3e9, 2.0**40, 1.2e19], dtype=torch.float64)
        given = reals.clamp(max=largest).repeat(30).to(dtype.torch)
    expected = given.real if given.is_complex() else given
    assert torch.equal(converted(given, UINT64, target), expected.to(torch.uint64))


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("dtype", [FLOAT, DataType.Double, DataType.BFloat16], ids=str)
def test_floats_below_0_wrap_around_in_loops_of_any_length(dtype: DataType, count: int) -> None:
    below = torch.tensor([-1.0, -2.75, -3e9, -0.5, 2.0**63, 1.2e19, -(2.0**62)])
    given = below.to(dtype.torch).repeat(count)[:count]
    wrapped = [int(number) % 2**64 for number in given.tolist()]
    assert converted(given, UINT64, "cpu").tolist() == wrapped


@targets
def test_a_kernel_converts_there_and_back(target: str) -> None:
    given = numbers(9, 33)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        doubled = fd.ops.mul(fd.ops.cast(x, INT), 2)
        fd.add_output(fd.ops.cast(doubled, UINT64))
        fd.add_output(fd.ops.sum(fd.ops.cast(x, DataType.Double), dims=[1]))
        fd.add_output(fd.ops.sum(x, dims=[0], dtype=INT))
    product, rows, columns = fd.validate([given], target=target)
    assert torch.equal(product, given.view(torch.int64).mul(2).view(torch.uint64))
    torch.testing.assert_close(rows, given.double().sum(1))
    assert torch.equal(columns, given.view(torch.int64).sum(0))


# -- movement ------------------------------------------------------------------------------------


Move = Callable[[FusionDefinition, Handle, Handle, Handle, Handle], Handle]

MOVES: dict[str, Move] = {
    "forwarded": lambda fd, x, y, at, mask: x,
    "set": lambda fd, x, y, at, mask: fd.ops.set(x),
    "permute": lambda fd, x, y, at, mask: fd.ops.permute(x, [1, 0]),
    "stride_order": lambda fd, x, y, at, mask: fd.ops.stride_order(
        fd.ops.permute(x, [1, 0]), [1, 0]
    ),
    "slice": lambda fd, x, y, at, mask: fd.ops.slice(fd.ops.set(x), [1, 3], [5, 100], [1, 2]),
    "flip": lambda fd, x, y, at, mask: fd.ops.flip(x, [1]),
    "cat": lambda fd, x, y, at, mask: fd.ops.cat([x, y], 1),
    "pad": lambda fd, x, y, at, mask: fd.ops.pad(x, [1, 2]),
    "pad with a number": lambda fd, x, y, at, mask: fd.ops.pad(
        x, [1, 2], fd.define_scalar(2**64 - 5, dtype=UINT64)
    ),
    "where": lambda fd, x, y, at, mask: fd.ops.where(mask, x, y),
    "where with a number": lambda fd, x, y, at, mask: fd.ops.where(mask, x, 7),
    "index_select": lambda fd, x, y, at, mask: fd.ops.index_select(x, at, 0),
    "gather": lambda fd, x, y, at, mask: fd.ops.gather(
        x, fd.ops.broadcast_in_dim(at, [3, 129], [0]), 0
    ),
    "take_along_axis": lambda fd, x, y, at, mask: fd.ops.take_along_axis(
        x, fd.ops.broadcast_in_dim(at, [3, 129], [0]), 0
    ),
    "scatter": lambda fd, x, y, at, mask: fd.ops.scatter(
        x, fd.ops.broadcast_in_dim(at, [3, 129], [0]), fd.ops.slice(y, [0, 0], [3, 129]), 0
    ),
    "expand": lambda fd, x, y, at, mask: fd.ops.expand(
        fd.ops.broadcast(x, [True, False, False]), [2, -1, -1]
    ),
    "triu": lambda fd, x, y, at, mask: fd.ops.triu(x),
}


def moved_by_torch(name: str, given: list[torch.Tensor]) -> torch.Tensor:
    """The same, of the bits, as torch moves few numbers that are unsigned."""
    x, y = (tensor.view(torch.int64) for tensor in given[:2])
    at, mask = given[2:]
    places = at[:, None].expand(3, 129)
    made = {
        "forwarded": lambda: x,
        "set": lambda: x,
        "permute": x.t,
        "stride_order": x.t,
        "slice": lambda: x[1:5, 3:100:2],
        "flip": lambda: x.flip(1),
        "cat": lambda: torch.cat([x, y], 1),
        "pad": lambda: torch.nn.functional.pad(x, [1, 2]),
        "pad with a number": lambda: torch.nn.functional.pad(x, [1, 2], value=-5),
        "where": lambda: torch.where(mask, x, y),
        "where with a number": lambda: torch.where(mask, x, 7),
        "index_select": lambda: x[at],
        "gather": lambda: x.gather(0, places),
        "take_along_axis": lambda: x.take_along_dim(places, 0),
        "scatter": lambda: x.scatter(0, places, y[:3]),
        "expand": lambda: x.expand(2, -1, -1),
        "triu": x.triu,
    }
    return made[name]().view(torch.uint64)


@targets
@pytest.mark.parametrize("name", MOVES)
def test_elements_are_moved_to_the_bit(name: str, target: str) -> None:
    given = [numbers(6, 129), numbers(129, 6).t(), torch.tensor([4, 0, 5])]
    given.append(torch.arange(6 * 129).remainder(3).eq(0).reshape(6, 129))
    with FusionDefinition() as fd:
        fd.add_output(MOVES[name](fd, *map(fd.from_pytorch, given)))
    (result,) = fd.validate(given, target=target)
    assert result.dtype is torch.uint64
    assert torch.equal(result, moved_by_torch(name, given))


@targets
@pytest.mark.parametrize("number", [0, 7, *LARGE])
def test_numbers_that_are_written_down(number: int, target: str) -> None:
    with FusionDefinition() as fd:
        constant, given = fd.define_scalar(number, dtype=UINT64), fd.define_scalar(dtype=UINT64)
        fd.add_output(fd.ops.full([3, 5], number, UINT64))
        fd.add_output(fd.ops.full([7], constant, UINT64))
        fd.add_output(fd.ops.full([7], given, UINT64))
        fd.add_output(fd.ops.full([7], constant, FLOAT))
        fd.add_output(fd.ops.full([7], given, INT))
    *same, rounded, signed = fd.validate([number], target=target, device="cpu")
    expected = torch.tensor(number, dtype=torch.uint64)
    assert all((out == expected).all() and out.dtype is torch.uint64 for out in same)
    assert (rounded == expected.float()).all()
    assert (signed == expected.long()).all()


def test_numbers_that_do_not_fit_are_refused() -> None:
    with FusionDefinition() as fd:
        with pytest.raises(ArgumentError, match="a number that fits UInt64"):
            fd.ops.full([2], 2**64, UINT64)
        with pytest.raises(ArgumentError, match="a number that fits UInt64"):
            fd.define_scalar(-1, dtype=UINT64)
        fd.add_output(fd.ops.full([2], -1, UINT64))
    assert fd.execute([], device="cpu")[0].tolist() == [2**64 - 1] * 2


def test_a_scalar_is_a_size_too() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([fd.define_scalar(dtype=UINT64)], 1.0))
    assert fd.execute([5], device="cpu")[0].tolist() == [1.0] * 5


# -- refusals ------------------------------------------------------------------------------------

REFUSED: dict[str, Callable[[FusionDefinition, Handle], object]] = {
    "add": lambda fd, x: fd.ops.add(x, x),
    "sub": lambda fd, x: x - 1,
    "mul": lambda fd, x: x * 0.5,
    "truediv": lambda fd, x: x / 2,
    "neg": lambda fd, x: -x,
    "eq": lambda fd, x: fd.ops.eq(x, x),
    "lt": lambda fd, x: fd.ops.lt(x, 5),
    "bitwise_and": lambda fd, x: x & x,
    "logical_not": lambda fd, x: fd.ops.logical_not(x),
    "sum": lambda fd, x: fd.ops.sum(x, dims=[0]),
    "max": lambda fd, x: fd.ops.max(x, dims=[0]),
    "any": lambda fd, x: fd.ops.any(x, dims=[0]),
    "argmax": lambda fd, x: fd.ops.argmax(x, dim=0),
    "cumsum": lambda fd, x: fd.ops.cumsum(x, 0),
    "matmul": lambda fd, x: fd.ops.matmul(x, x),
    "scaled_mm": lambda fd, x: fd.ops.scaled_mm(x, x, fd.ops.full([], 1.0), fd.ops.full([], 1.0)),
    "topk": lambda fd, x: fd.ops.topk(x, 1),
    "argsort": lambda fd, x: fd.ops.argsort(x, 0),
    "iota": lambda fd, x: fd.ops.iota(4, dtype=UINT64),
    "uniform": lambda fd, x: fd.ops.uniform(0.0, 1.0, [4], dtype=UINT64),
    "normal": lambda fd, x: fd.ops.normal(
        0.0, 1.0, [4], rng_seed=fd.define_scalar(1, dtype=UINT64), rng_offset=0
    ),
    "scatter_add": lambda fd, x: fd.ops.scatter_add(x, fd.ops.full([4, 4], 0, INT), x, 0),
    "index_add": lambda fd, x: fd.ops.index_add(x, fd.ops.full([4], 0, INT), x, 0),
    "index_put_accumulate": lambda fd, x: fd.ops.index_put_accumulate(
        x, fd.ops.full([4], 0, INT), x
    ),
    "gather": lambda fd, x: fd.ops.gather(fd.ops.cast(x, FLOAT), x, 0),
    "check_index": lambda fd, x: fd.ops.check_index(x, 4),
    "where": lambda fd, x: fd.ops.where(fd.ops.full([4, 4], True, DataType.Bool), x, 0.5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_computed_in_it(name: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 4], [True, True], dtype=UINT64)
        with pytest.raises(OperandDtypeError, match="cast UInt64 to Int first") as raised:
            REFUSED[name](fd, x)
        assert str(raised.value).startswith(f"{name}: ")
        fd.add_output(x)


@pytest.mark.parametrize("name", ["add", "maximum", "where", "eq"])
@other
def test_it_is_not_promoted(name: str, dtype: DataType) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4], [True], dtype=UINT64)
        y = fd.define_tensor([4], [True], dtype=dtype)
        mask = fd.define_tensor([4], [True], dtype=DataType.Bool)
        number = fd.define_scalar(1, dtype=UINT64)
        for pair in ((x, y), (y, x), (number, y), (y, number)):
            args = (mask, *pair) if name == "where" else pair
            with pytest.raises(OperandDtypeError, match="not promoted; cast"):
                getattr(fd.ops, name)(*args)
        fd.add_output(x)


# -- attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_backward_takes_the_state_as_torch_has_it(causal: bool, dropout: float) -> None:
    """The state of the forward pass is Int; nvFuser's scripts declare what torch gives."""
    heads = [torch.randn(2, 3, 8, 16) for _ in range(3)]
    with FusionDefinition() as forward:
        q, k, v = map(forward.from_pytorch, heads)
        for out in forward.ops.sdpfa_fwd(q, k, v, dropout, causal, None):
            forward.add_output(out)
    output, logsumexp, seed, offset = forward.execute(heads)
    assert seed.dtype is offset.dtype is torch.int64
    grad = torch.randn_like(output)

    def gradients(dtype: DataType) -> list[torch.Tensor]:
        with FusionDefinition() as fd:
            tensors = [fd.from_pytorch(x) for x in (grad, *heads, output, logsumexp)]
            philox_seed = fd.define_tensor(shape=[2], dtype=dtype, is_cpu=False)
            philox_offset = fd.define_tensor(shape=[], dtype=dtype, is_cpu=False)
            for out in fd.ops.sdpfa_bwd(
                *tensors, dropout, causal, philox_seed, philox_offset, None
            ):
                fd.add_output(out)
        state = (seed.view(dtype.torch), offset.view(dtype.torch))
        return fd.execute([grad, *heads, output, logsumexp, *state])

    made = gradients(UINT64)
    for ours, signed in zip(made, gradients(INT), strict=True):
        assert torch.equal(ours, signed)
    if dropout:
        return
    leaves = [x.clone().requires_grad_() for x in heads]
    torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal).backward(grad)
    for ours, leaf in zip(made, leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad)
