"""fuser beside eager torch where reductions and scans go over any dimensions, on the processor.

    python benchmarks/dims.py [--only TEXT] [--rounds 11] [--no-save]

A cell is eager's time over fuser's: the median over alternating rounds, on two pinned threads,
everybody allocating as called, with freed memory kept so that nobody page-faults. Results are
checked against eager's in float64, or in the type itself where it is an integer. Below 1, eager is
faster; the cells below are counted. Operations that torch has over one dimension have no cell of
several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from checks import WrongResultError, error
from ratios import Cell, print_ratios, ratio

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Dimensions of a shape, row-major unless its channels are last."""

    shape: tuple[int, ...]
    dims: Dims
    channels_last: bool = False

    def __str__(self) -> str:
        last = ".cl" if self.channels_last else ""
        return f"{'x'.join(map(str, self.shape))}{last}:{','.join(map(str, self.dims))}"

    def draw(self, dtype: torch.dtype) -> torch.Tensor:
        if dtype.is_floating_point:
            drawn = torch.randn(self.shape).to(dtype)
        else:
            drawn = torch.randint(-9, 10, self.shape).to(dtype)
        return drawn.to(memory_format=torch.channels_last) if self.channels_last else drawn


PLACES = (
    Place((64, 3, 96, 96), (1,)),
    Place((32, 64, 56, 56), (2, 3)),
    Place((32, 64, 56, 56), (2, 3), channels_last=True),
    Place((32, 64, 56, 56), (1,), channels_last=True),
    Place((32, 64, 56, 56), (0, 2, 3)),
    Place((8, 512, 12, 64), (1,)),
    Place((8, 512, 12, 64), (2,)),
    Place((100, 100, 100), (1,)),
    Place((300_000, 4), (0,)),
    Place((300_000, 4), (1,)),
    Place((5, 200_000), (0,)),
    Place((65_536, 33), (1,)),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """`define` is given float32 in place of 16 bits; `eager` the tensor as it is."""

    define: Callable[[FusionDefinition, Handle, list[int]], Handle]
    eager: Callable[[torch.Tensor, Dims], torch.Tensor]
    one_dim: bool = False
    of_integers: bool = True


def define_softmax(fd: FusionDefinition, x: Handle, dims: list[int]) -> Handle:
    weights = fd.ops.exp(x - fd.ops.max(x, dims, keepdim=True))
    return weights / fd.ops.sum(weights, dims, keepdim=True)


def define_normalized(fd: FusionDefinition, x: Handle, dims: list[int]) -> Handle:
    variance, mean = fd.ops.var_mean(x, dims, correction=0, keepdim=True)
    return (x - mean) * fd.ops.rsqrt(variance + 1e-5)


def normalized(x: torch.Tensor, dims: Dims) -> torch.Tensor:
    variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


OPERATIONS = {
    "sum": Operation(lambda fd, x, dims: fd.ops.sum(x, dims), torch.sum),
    "max": Operation(lambda fd, x, dims: fd.ops.max(x, dims), torch.amax),
    "variance": Operation(
        lambda fd, x, dims: fd.ops.var(x, dims, 1),
        torch.var,
        of_integers=False,
    ),
    "argmax": Operation(
        lambda fd, x, dims: fd.ops.argmax(x, dims[0]),
        lambda x, dims: torch.argmax(x, dims[0]),
        one_dim=True,
    ),
    "softmax": Operation(
        define_softmax,
        lambda x, dims: torch.softmax(x, dims[0]),
        one_dim=True,
        of_integers=False,
    ),
    "normalized": Operation(define_normalized, normalized, of_integers=False),
    "cumsum": Operation(
        lambda fd, x, dims: fd.ops.cumsum(x, dims[0]),
        lambda x, dims: torch.cumsum(x, dims[0]),
        one_dim=True,
    ),
}
DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
}
TOLERANCES = {torch.bfloat16: 2.0**-7, torch.float32: 1e-4}
HEAD = ("operation", "dtype", *map(str, PLACES))


def main(arguments: Sequence[str] | None = None) -> None:
    print_ratios(__doc__, "dims-cpu", HEAD, _lines(), arguments, rounds=11)


def _lines() -> Iterator[tuple[list[str], Sequence[Cell]]]:
    for name, operation in OPERATIONS.items():
        places = [None if operation.one_dim and len(at.dims) > 1 else at for at in PLACES]
        for dtype_name, dtype in DTYPES.items():
            if operation.of_integers or dtype.is_floating_point:
                cells = [at and partial(measure, operation, at, dtype) for at in places]
                yield [name, dtype_name], cells


def measure(operation: Operation, place: Place, dtype: torch.dtype, rounds: int) -> float:
    """Eager's time over fuser's. Raises WrongResultError."""
    x = place.draw(dtype)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, DataType.Float) if dtype is torch.bfloat16 else given
        made = operation.define(fd, wide, list(place.dims))
        fd.add_output(fd.ops.cast(made, given.dtype()) if made.dtype() is wide.dtype() else made)
    _check(operation, place, x, fd.execute([x])[0])
    eager = {"eager": lambda: operation.eager(x, place.dims)}
    return ratio(lambda: fd.execute([x]), eager, rounds)


def _check(operation: Operation, place: Place, x: torch.Tensor, made: torch.Tensor) -> None:
    exact = operation.eager(x.double() if x.is_floating_point() else x, place.dims)
    tolerance = TOLERANCES.get(x.dtype, 1e-9) if made.is_floating_point() else 0.0
    found = error([made], [exact.double()])
    if not found <= tolerance:
        raise WrongResultError(f"{place}: error {found:.1e} is above {tolerance:.1e}")


if __name__ == "__main__":
    main()
