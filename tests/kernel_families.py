"""Small definitions, one for every kind of kernel, with the result torch computes in float64.

Each runs on every target: the processor and the emulator always, a GPU where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir import four_bits
from fuser.ir.interpret import interpret
from fuser.ir.tolerance import tolerance

Tensors = list[torch.Tensor]
ADDED = 70
"""Points that are added to few places."""


@dataclass(frozen=True, slots=True)
class Family:
    """`define` gets the inputs' handles and returns the output; `exact` does the same in torch."""

    name: str
    define: Callable[..., Handle]
    exact: Callable[..., torch.Tensor]
    inputs: Callable[[], Tensors]

    def __str__(self) -> str:
        return self.name

    def defined_like(self, inputs: Tensors) -> FusionDefinition:
        """The definition for inputs of these dtypes, ranks and layouts."""
        with FusionDefinition() as fd:
            result = self.define(fd, *map(fd.from_pytorch, inputs))
            if result.dtype() is not from_torch(inputs[0].dtype):
                result = fd.ops.cast(result, dtype=from_torch(inputs[0].dtype))
            fd.add_output(result)
        return fd


def from_torch(dtype: torch.dtype) -> DataType:
    return next(found for found in DataType if found.torch is dtype)


def random(*shapes: tuple[int, ...]) -> Callable[[], Tensors]:
    """Normally distributed float32 tensors, the same at every call."""

    def make() -> Tensors:
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(shape, generator=generator) for shape in shapes]

    return make


def positive(*shapes: tuple[int, ...]) -> Callable[[], Tensors]:
    """Float32 tensors whose running sums do not cancel, and stay in the range of float16."""
    make = random(*shapes)
    return lambda: [tensor.abs() for tensor in make()]


def _gelu(fd: FusionDefinition, x: Handle) -> Handle:
    return x * 0.5 * (fd.ops.erf(x * 2**-0.5) + 1.0)


def _viewed_gelu(fd: FusionDefinition, x: Handle) -> Handle:
    viewed = fd.ops.reshape(x, new_shape=[4, 8, 96])
    return fd.ops.reshape(_gelu(fd, viewed), new_shape=[32, 96])


def _heads_together(fd: FusionDefinition, x: Handle) -> Handle:
    heads = fd.ops.reshape(x, new_shape=[2, 3, 8, 16])
    moved = fd.ops.set(fd.ops.permute(heads, dims=[0, 2, 1, 3]))
    return fd.ops.reshape(moved, new_shape=[16, 48])


def _transposed(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.stride_order(fd.ops.permute(x, dims=[1, 0]), stride_order=[1, 0])


def _moved_around(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Both operands are read across the rows that are stored."""
    moved = fd.ops.permute(x, dims=[2, 0, 1]) * 2.0
    return fd.ops.stride_order(moved + fd.ops.permute(y, dims=[2, 0, 1]), stride_order=[2, 1, 0])


def _padded_transposed(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """A transposed operand between zeros."""
    return fd.ops.pad(fd.ops.permute(x, dims=[1, 0]), [3, 2, 0, 0]) * y


def _padded_transposed_exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x.T, [3, 2]) * y


def _added_transposed(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return x + fd.ops.permute(y, dims=[1, 0])


def _regrouped(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """A transposed 6 x 4 seen as 8 x 3: only a division tells where an element lies."""
    return fd.ops.reshape(fd.ops.permute(x, dims=[1, 0]), new_shape=[8, 3]) + y


def _regrouped_exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.T.reshape(8, 3) + y


def _sliced(fd: FusionDefinition, x: Handle) -> Handle:
    part = fd.ops.slice(x, start_indices=[2, 1], end_indices=[30, 40], strides=[3, 1])
    return fd.ops.exp(part)


def _softmax(dim: int) -> Callable[..., Handle]:
    def define(fd: FusionDefinition, x: Handle) -> Handle:
        e = fd.ops.exp(x - fd.ops.max(x, dims=[dim], keepdim=True))
        return e / fd.ops.sum(e, dims=[dim], keepdim=True)

    return define


def _windows(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(fd.ops.reshape(x, new_shape=[3, 7, 2, 18, 2]), [2, 4])


def _windows_exact(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(x, 2)


def _wide_windows(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(fd.ops.reshape(x, new_shape=[3, 4, 2, 32, 2]), [2, 4])


def _turned_pairs(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    """A rotary embedding of neighbours."""
    even, odd = (fd.ops.slice(x, [0, 0, n], [5, 9, 64], [1, 1, 2]) for n in (0, 1))
    turned = (even * cos - odd * sin, even * sin + odd * cos)
    apart = [fd.ops.broadcast(part, [False, False, False, True]) for part in turned]
    return fd.ops.reshape(fd.ops.cat(apart, 3), [5, 9, 64])


def _turned_pairs_exact(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def _scale_gradient(fd: FusionDefinition, g: Handle, x: Handle) -> Handle:
    """The gradient of a layernorm's weight, as a mean: a fold over rows that have folds too."""
    variance, mean = fd.ops.var_mean(x, dims=[1], correction=0, keepdim=True)
    return fd.ops.mean(g * (x - mean) * fd.ops.rsqrt(variance + 1.0), dims=[0])


def _scale_gradient_exact(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    return (g * (x - mean) / torch.sqrt(variance + 1.0)).mean(0)


def _rows_in_turn(fd: FusionDefinition, x: Handle) -> Handle:
    """Rows picked by indices that the kernel computes."""
    at = fd.ops.remainder(fd.ops.iota(40, 0, 7, DataType.Int), 11)
    return fd.ops.exp(fd.ops.index_select(x, at, 0))


def _dropout(fd: FusionDefinition, x: Handle) -> Handle:
    kept = fd.ops.ge(fd.ops.uniform(0, 1, x.shape(), **_STATE), 0.5)
    return fd.ops.where(kept, x * 2.0, 0.0)


def _dropout_exact(x: torch.Tensor) -> torch.Tensor:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(0, 1, list(x.shape), **_STATE))
    (numbers,) = interpret(fd.fusion, [], x.device)
    return torch.where(numbers >= 0.5, x * 2, 0)


def _noisy_norm(fd: FusionDefinition, x: Handle) -> Handle:
    """Dropout, and its root mean square along the row."""
    kept = _dropout(fd, x)
    return kept * fd.ops.rsqrt(fd.ops.mean(kept * kept, [1], keepdim=True) + 1.0)


def _noisy_norm_exact(x: torch.Tensor) -> torch.Tensor:
    kept = _dropout_exact(x)
    return kept * torch.rsqrt((kept * kept).mean(1, keepdim=True) + 1)


def _signs(fd: FusionDefinition, x: Handle) -> Handle:
    """Only which numbers are positive: they are float32 ones, in every dtype of x."""
    return fd.ops.where(fd.ops.normal(0, 1, x.shape(), **_STATE) > 0.0, x, -x)


def _signs_exact(x: torch.Tensor) -> torch.Tensor:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.normal(0, 1, list(x.shape), **_STATE))
    (numbers,) = interpret(fd.fusion, [], x.device)
    return torch.where(numbers > 0, x, -x)


_STATE = {"rng_seed": 2**35 + 3, "rng_offset": 9}


def _padded(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.exp(fd.ops.pad(x, [3, 2, 1, -4], 0.5))


def _padded_exact(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, [3, 2, 1, -4], value=0.5).exp()


def _joined(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    return fd.ops.tanh(fd.ops.cat([x, y, fd.ops.flip(x, [1])], 1))


def _joined_exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y, x.flip(1)], 1).tanh()


def _rotated(fd: FusionDefinition, x: Handle, cos: Handle, sin: Handle) -> Handle:
    left = fd.ops.slice(x, [0, 0, 0], [5, 9, 64])
    right = fd.ops.slice(x, [0, 0, 64], [5, 9, 128])
    return x * cos + fd.ops.cat([-right, left * 1.0], 2) * sin


def _rotated_exact(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + torch.cat([-x[..., 64:], x[..., :64]], -1) * sin


def _shift_gradient(fd: FusionDefinition, x: Handle) -> Handle:
    """Rows and zeros in turn: pads with a view between them whose factors do not nest."""
    turned = fd.ops.reshape(fd.ops.pad(x * 0.125, [0, 15]), new_shape=[3, 31, 16])
    return fd.ops.reshape(fd.ops.pad(turned, [0, 0, 1, 0]), new_shape=[3, 16, 32])


def _shift_gradient_exact(x: torch.Tensor) -> torch.Tensor:
    turned = torch.nn.functional.pad(x * 0.125, [0, 15]).view(3, 31, 16)
    return torch.nn.functional.pad(turned, [0, 0, 1, 0]).view(3, 16, 32)


def _sums(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


def _sums_from_the_end(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(x, 1, reverse=True)


def _from_the_end(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1).cumsum(1).flip(1)


def _column_sums(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


def _added(rows: int, *columns: int) -> Callable[..., Handle]:
    """Rows, or elements, that meet at indices which the kernel computes."""

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        wide = DataType.Double if x.dtype() is DataType.Double else DataType.Float
        at = fd.ops.remainder(fd.ops.iota(ADDED, 0, 7, DataType.Int), rows)
        zeros = fd.ops.full([rows, *columns], 0.0, wide)
        return fd.ops.index_add(zeros, at, fd.ops.cast(x * 0.25, wide), 0)

    return define


def _added_exact(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def exact(x: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(count, *x.shape[1:], dtype=x.dtype, device=x.device)
        return zeros.index_add(0, torch.arange(len(x), device=x.device) * 7 % count, x / 4)

    return exact


HOT = 150
"""Points that go to one row of many."""


def _added_to_one(fd: FusionDefinition, x: Handle) -> Handle:
    """A row of many points, whose list is cut, among rows of one or none."""
    wide, number = DataType.Double if x.dtype() is DataType.Double else DataType.Float, 2 * HOT
    points = fd.ops.iota(number, 0, 1, DataType.Int)
    zeros = fd.ops.full([number, 24], 0.0, wide)
    at = fd.ops.where(points < HOT, 7, points)
    return fd.ops.index_put_accumulate(zeros, at, fd.ops.cast(x * 0.25, wide))


def _added_to_one_exact(x: torch.Tensor) -> torch.Tensor:
    at = torch.arange(2 * HOT, device=x.device)
    return torch.zeros_like(x).index_add(0, at.where(at >= HOT, at.new_tensor(7)), x / 4)


def _largest_of_one(fd: FusionDefinition, x: Handle) -> Handle:
    """The same for the largest."""
    points = fd.ops.iota(2 * HOT, 0, 1, DataType.Int)
    at = fd.ops.broadcast(fd.ops.where(points < HOT, 7, points), [False, True])
    x = fd.ops.cast(x, DataType.Double if x.dtype() is DataType.Double else DataType.Float)
    zeros = fd.ops.full([2 * HOT, 24], 0.0, x.dtype())
    return fd.ops.scatter_amax(zeros, fd.ops.expand(at, [2 * HOT, 24]), x, 0)


def _largest_of_one_exact(x: torch.Tensor) -> torch.Tensor:
    at = torch.arange(2 * HOT, device=x.device)
    at = at.where(at >= HOT, at.new_tensor(7))[:, None].expand_as(x)
    return torch.zeros_like(x).scatter_reduce(0, at, x, "amax")


def _smallest_of_elements(fd: FusionDefinition, x: Handle) -> Handle:
    """Elements that meet where memory has to be compared and swapped."""
    x = fd.ops.cast(x, DataType.Double if x.dtype() is DataType.Double else DataType.Float)
    at = fd.ops.remainder(fd.ops.iota(ADDED, 0, 7, DataType.Int), 13)
    return fd.ops.scatter_amin(fd.ops.full([13], 0.0, x.dtype()), at, x, 0)


def _smallest_of_elements_exact(x: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros(13, dtype=x.dtype, device=x.device)
    return zeros.scatter_reduce(0, torch.arange(ADDED, device=x.device) * 7 % 13, x, "amin")


def _added_in_rows(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
    """Rows with points of their own, which meet."""
    wide = DataType.Double if x.dtype() is DataType.Double else DataType.Float
    rows, columns = (fd.ops.iota(n, 0, 3, DataType.Int) for n in (80, 30))
    at = fd.ops.broadcast(rows, [False, True]) + fd.ops.broadcast(columns, [True, False])
    at = fd.ops.remainder(at, 20)
    return fd.ops.scatter_add(fd.ops.cast(x, wide), at, fd.ops.cast(y * 0.25, wide), 1)


def _added_in_rows_exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows, columns = (3 * torch.arange(n, device=x.device) for n in (80, 30))
    return x.scatter_add(1, (rows[:, None] + columns) % 20, y / 4)


FLOAT8 = (DataType.Float8_e4m3fn, DataType.Float8_e5m2, DataType.Float8_e8m0fnu)


def _narrowed(fd: FusionDefinition, x: Handle) -> Handle:
    """The sum of what three types make of a number."""
    first, second, third = (fd.ops.cast(fd.ops.cast(x, to), DataType.Float) for to in FLOAT8)
    return first + second + third


def _narrowed_exact(x: torch.Tensor) -> torch.Tensor:
    first, second, third = (x.to(to.torch).to(x.dtype) for to in FLOAT8)
    return first + second + third


def _in_blocks(fd: FusionDefinition, x: Handle) -> Handle:
    """Rounded to 4 bits by blocks of 16 that share a scale, and taken apart again."""
    codes, scales = fd.ops.nv_block_quantize(x)
    blocks = fd.ops.reshape(fd.ops.cast(codes, DataType.Float), [33, -1, 16])
    wide = blocks * fd.ops.broadcast(fd.ops.cast(scales, DataType.Float), [False, False, True])
    return fd.ops.reshape(wide, [33, -1])


def _in_blocks_exact(x: torch.Tensor) -> torch.Tensor:
    blocks = x.float().unflatten(1, (-1, 16))
    scale = (blocks.abs().amax(2, keepdim=True) / 6).to(torch.float8_e4m3fn).float()
    return (four_bits.rounded(blocks * (1 / scale)) * scale).flatten(1).to(x.dtype)


FAMILIES = (
    Family("flat", _gelu, torch.nn.functional.gelu, random((33, 65))),
    Family("one element", _gelu, torch.nn.functional.gelu, random(())),
    Family("bookend views", _viewed_gelu, torch.nn.functional.gelu, random((32, 96))),
    Family(
        "rows and a bias",
        lambda fd, x, bias: fd.ops.tanh(x + bias),
        lambda x, bias: torch.tanh(x + bias),
        random((17, 72), (72,)),
    ),
    Family(
        "outer product",
        lambda fd, x, y: x * y,
        torch.mul,
        random((19, 1), (1, 40)),
    ),
    Family(
        "strided copy",
        _heads_together,
        lambda x: x.view(2, 3, 8, 16).transpose(1, 2).reshape(16, 48),
        random((6, 8, 16)),
    ),
    Family("transposition", _transposed, lambda x: x.T.contiguous(), random((37, 41))),
    Family(
        "transposed operand", _added_transposed, lambda x, y: x + y.T, random((40, 24), (24, 40))
    ),
    Family(
        "moved around",
        _moved_around,
        lambda x, y: (x * 2 + y).permute(2, 0, 1),
        random((5, 9, 70), (5, 9, 70)),
    ),
    Family(
        "padded transposition",
        _padded_transposed,
        _padded_transposed_exact,
        random((35, 66), (66, 40)),
    ),
    Family("division", _regrouped, _regrouped_exact, random((4, 6), (8, 3))),
    Family("8-bit floats", _narrowed, _narrowed_exact, random((33, 130))),
    Family("blocks of 4 bits", _in_blocks, _in_blocks_exact, random((33, 96))),
    Family("slice", _sliced, lambda x: torch.exp(x[2:30:3, 1:40]), random((32, 48))),
    Family("pad", _padded, _padded_exact, random((19, 33))),
    Family("concatenation", _joined, _joined_exact, random((7, 24), (7, 40))),
    Family("halves rotated", _rotated, _rotated_exact, random((5, 9, 128), (9, 128), (9, 128))),
    Family("gradient of a shift", _shift_gradient, _shift_gradient_exact, random((3, 16, 16))),
    Family(
        "repeats",
        lambda fd, x: fd.ops.sin(fd.ops.repeat(x, [2, 3])),
        lambda x: x.repeat(2, 3).sin(),
        random((9, 20)),
    ),
    Family("rows", _softmax(1), lambda x: torch.softmax(x, 1), random((19, 130))),
    Family("short rows", _softmax(1), lambda x: torch.softmax(x, 1), random((131, 21))),
    Family("rows of a thread", _softmax(1), lambda x: torch.softmax(x, 1), random((131, 8))),
    Family("classes of pixels", _softmax(1), lambda x: torch.softmax(x, 1), random((2, 21, 77))),
    Family("windows", _windows, _windows_exact, random((3, 14, 36))),
    Family("windows in vectors", _wide_windows, _windows_exact, random((3, 8, 64))),
    Family("pairs", _turned_pairs, _turned_pairs_exact, random((5, 9, 64), (9, 32), (9, 32))),
    Family("long rows", _softmax(1), lambda x: torch.softmax(x, 1), random((9, 1601))),
    Family("columns", _softmax(0), lambda x: torch.softmax(x, 0), random((67, 40))),
    Family("columns of lines", _softmax(0), lambda x: torch.softmax(x, 0), random((1027, 24))),
    Family(
        "split columns",
        lambda fd, x: fd.ops.mean(x, dims=[0]),
        lambda x: x.mean(0),
        random((520, 37)),
    ),
    Family("split row", lambda fd, x: fd.ops.mean(x, [0, 1]), torch.mean, random((93, 101))),
    Family("fold over rows", _scale_gradient, _scale_gradient_exact, random((41, 68), (41, 68))),
    Family("dropout", _dropout, _dropout_exact, random((33, 64))),
    Family("normal numbers", _signs, _signs_exact, random((23, 33))),
    Family("dropout in rows", _noisy_norm, _noisy_norm_exact, random((19, 136))),
    Family("dropout in peeled rows", _noisy_norm, _noisy_norm_exact, random((9, 1603))),
    Family("scan", lambda fd, x: fd.ops.cumsum(x, 1), _sums, positive((19, 333))),
    Family("scan from the end", _sums_from_the_end, _from_the_end, positive((19, 333))),
    Family("long scan", lambda fd, x: fd.ops.cumsum(x, 1), _sums, positive((3, 17001))),
    Family("scan of columns", lambda fd, x: fd.ops.cumsum(x, 0), _column_sums, positive((67, 40))),
    Family("gather", _rows_in_turn, lambda x: x[torch.arange(40) * 7 % 11].exp(), random((11, 24))),
    Family("rows added", _added(11, 24), _added_exact(11), random((ADDED, 24))),
    Family("rows cut", _added_to_one, _added_to_one_exact, random((2 * HOT, 24))),
    Family("rows cut, largest", _largest_of_one, _largest_of_one_exact, random((2 * HOT, 24))),
    Family(
        "rows in shared memory", _added_in_rows, _added_in_rows_exact, random((80, 20), (80, 30))
    ),
    Family("elements added", _added(13), _added_exact(13), random((ADDED,))),
    Family(
        "elements, smallest", _smallest_of_elements, _smallest_of_elements_exact, random((ADDED,))
    ),
)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check(family: Family, dtype: torch.dtype, device: str, target: str | None = None) -> None:
    """Run a family and compare with float64, on the processor: what torch makes of a number beyond
    the range of 8-bit floats differs between devices."""
    inputs = [tensor.to(device, dtype) for tensor in family.inputs()]
    exact = family.exact(*(tensor.double().cpu() for tensor in inputs))
    (result,) = family.defined_like(inputs).execute(inputs, target=target)
    assert result.dtype is dtype
    assert result.shape == exact.shape
    relative, absolute = tolerance(from_torch(dtype))
    torch.testing.assert_close(result.double().cpu(), exact, rtol=relative, atol=absolute)
