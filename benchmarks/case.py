"""What a case is: a kind of computation, a shape and a dtype.

A kind has its definition, the same in torch for torch.compile, the ways eager torch offers, and
what the results have to be in float64. Files named `..._cases.py` hold the kinds; `cases.py` is the
list of what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.pytorch_utils import torch_dtype_to_nvfuser_dtype

Shape = tuple[int, ...]
Tensors = list[torch.Tensor]
Peer = Callable[..., object]
"""Takes the inputs; gives a tensor, or several in a tuple or a list."""
Make = Callable[["Maker"], Tensors]

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}
LONG_ROW = 1024
"""Rows of more elements have a goal of their own on the GPU: see `Goals.long_rows`."""
FLOAT8 = 2.0**-4
"""The largest `error` of a number that is rounded to 3 bits of mantissa."""
FLOAT4 = 2.0**-2
"""Of one that is rounded to 1 bit of mantissa, with a scale that is rounded to 3."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What is asked of a kind; ratios are a peer's time over fuser's.

    cpu: against the better of eager and torch.compile, where nobody page-faults.
    called: on the processor as called, by (dtype, peer).
    copied: on the GPU, the part of a copy's (or a read's) speed.
    long_rows: whether the GPU's goal of 1.3 for rows above 1,024 elements is meant for it.
    """

    cpu: float = 1.0
    called: Mapping[tuple[torch.dtype, str], float] = field(
        default_factory=dict[tuple[torch.dtype, str], float]
    )
    copied: float | None = None
    long_rows: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """What is computed, at any shape and in any dtype.

    `define` takes the inputs' handles, 16-bit ones cast to Float, and gives those of the results.
    `inputs` takes a `Maker`. `written` is the same in torch, as torch.compile is given it; `eager`
    are the ways eager torch offers; `into` are those that write into given tensors: they take the
    results' buffers, a `Scratch` and the inputs. `liger` is that library's operation, if it has it,
    and `consumes` says that it writes over the first input. `kernels` is how many are planned.
    `loose`: how much larger errors may be than is usual, where many numbers are added up in no
    order.
    """

    name: str
    define: Callable[..., Handle | tuple[Handle, ...]]
    inputs: Make
    written: Peer
    eager: Mapping[str, Peer]
    into: Mapping[str, Callable[..., object]]
    exact: Peer
    goals: Goals = Goals()
    liger: Peer | None = None
    consumes: bool = False
    kernels: int = 1
    gpu_kernels: int | None = None
    """How many on a GPU, where that divides what a processor does not."""
    gpu_reads: float = 1.0
    """How often these read the tensors of the case's shape."""
    loose: float = 1.0
    unrounded: bool = False
    """Whether nothing is computed, so that results are exact."""
    drawn: bool = False
    """Whether peers draw random numbers of their own, so that their results are others."""
    made: tuple[torch.dtype, ...] = ()
    """The results' dtypes where they are not the case's."""
    unread: Callable[[Shape], int] = lambda _: 0
    """Of a shape: the elements of the inputs on which nothing depends."""

    @property
    def rounding(self) -> float:
        """The largest `error` of results that are rounded to few bits."""
        if torch.float4_e2m1fn_x2 in self.made:
            return FLOAT4
        return FLOAT8 if torch.float8_e4m3fn in self.made else 0.0


class Maker:
    """Makes a case's inputs: random numbers of its shape and dtype, the same every time."""

    def __init__(self, case: Case, without_data: bool) -> None:
        self.shape, self.dtype = case.shape, case.dtype
        self.statistics = case.dtype if case.device == "cpu" else torch.float32
        """The dtype in which eager's layer norm keeps the rows' means on this device."""
        self._device = "meta" if without_data else case.device
        self._generator = None if without_data else torch.Generator(case.device).manual_seed(0)

    def normal(self, *shape: int) -> torch.Tensor:
        """Normally distributed numbers; of the case's shape by default."""
        sizes = shape or self.shape
        made = torch.randn(sizes, generator=self._generator, device=self._device)
        return made.to(self.dtype)

    def indices(self, count: int, below: int, *, hot: bool) -> torch.Tensor:
        """Random numbers from 0 to `below` - 1; if `hot`, every second one is the same."""
        made = torch.randint(
            0, below, (count,), generator=self._generator, device=self._device, dtype=torch.int64
        )
        if hot:
            made[::2] = 7
        return made

    def targets(self, ignored: int) -> torch.Tensor:
        """A place along the second dimension for each of the others; each 97th from the fifth on is
        `ignored` instead."""
        rows, columns, *others = self.shape
        made = self.indices(rows * math.prod(others), columns, hot=False)
        made[4::97] = ignored
        return made.view(rows, *others)


class Scratch:
    """Buffers that a peer keeps between calls, each made once."""

    def __init__(self, empty_like: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._empty_like = empty_like
        self._made: dict[str, torch.Tensor] = {}

    def like(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        if name not in self._made:
            self._made[name] = self._empty_like(tensor)
        return self._made[name]


@dataclass(frozen=True, slots=True)
class Case:
    """A kind at one shape, in one dtype, on one device: cpu or cuda."""

    kind: Kind
    shape: Shape
    dtype: torch.dtype
    device: str

    @property
    def name(self) -> str:
        return f"{self.kind.name} {list(self.shape)}"

    @property
    def dtype_name(self) -> str:
        return DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype_name}"

    @property
    def tolerance(self) -> float:
        """The largest `error` of a right result: see `checks.error`."""
        if self.kind.unrounded:
            return 0.0
        usual = self.kind.loose * {torch.float32: 2e-5, torch.bfloat16: 2**-8}[self.dtype]
        return usual + self.kind.rounding

    @property
    def has_long_rows(self) -> bool:
        """Whether the GPU's goal for long rows is meant for it."""
        return self.kind.goals.long_rows and self.shape[-1] > LONG_ROW

    def made(self, count: int) -> tuple[torch.dtype, ...]:
        """The dtypes of `count` results."""
        return self.kind.made or (self.dtype,) * count

    def inputs(self) -> Tensors:
        return self.kind.inputs(Maker(self, without_data=False))

    def meta_inputs(self) -> Tensors:
        """Tensors of the inputs' sizes and dtypes, without data: they can be planned for."""
        return self.kind.inputs(Maker(self, without_data=True))

    def definition(self) -> FusionDefinition:
        """The definition, for inputs of these ranks and dtypes; 16-bit ones are cast and back."""
        with FusionDefinition() as fd:
            given = [_declared(fd, tensor) for tensor in self.meta_inputs()]
            made = results(self.kind.define(fd, *given))
            for result, dtype in zip(made, self.made(len(made)), strict=True):
                fd.add_output(_as(fd, result, torch_dtype_to_nvfuser_dtype(dtype)))
        return fd

    @property
    def kernels(self) -> int:
        """How many are planned."""
        on_gpu = None if self.device == "cpu" else self.kind.gpu_kernels
        return self.kind.kernels if on_gpu is None else on_gpu

    def exact(self, inputs: Tensors) -> Tensors:
        """The results in float64."""
        wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
        return tensors(self.kind.exact(*wide))

    def least_bytes(self) -> tuple[int, int]:
        """Bytes read and written if what is needed of the inputs and every result move once."""
        inputs = self.meta_inputs()
        made = tensors(self.kind.exact(*inputs))
        return (
            sum(tensor.nbytes for tensor in inputs)
            - self.kind.unread(self.shape) * self.dtype.itemsize,
            sum(
                tensor.numel() * dtype.itemsize // (2 if dtype is torch.float4_e2m1fn_x2 else 1)
                for tensor, dtype in zip(made, self.made(len(made)), strict=True)
            ),
        )


def _declared(fd: FusionDefinition, like: torch.Tensor) -> Handle:
    sizes = [1 if size == 1 else -1 for size in like.shape]
    dtype = torch_dtype_to_nvfuser_dtype(like.dtype)
    by_stride = sorted(range(like.ndim), key=lambda dim: (like.stride(dim), -dim))
    order = [by_stride.index(dim) for dim in range(like.ndim)]
    given = fd.define_tensor(shape=sizes, contiguity=True, dtype=dtype, stride_order=order)
    return _as(fd, given, DataType.Float) if like.dtype is torch.bfloat16 else given


def _as(fd: FusionDefinition, handle: Handle, dtype: DataType) -> Handle:
    return handle if handle.dtype() is dtype else fd.ops.cast(handle, dtype=dtype)


def results(made: Handle | tuple[Handle, ...]) -> tuple[Handle, ...]:
    """What a definition gives, as a tuple."""
    return made if isinstance(made, tuple) else (made,)


def tensors(made: object) -> Tensors:
    """What a peer gives, as a list."""
    found: list[torch.Tensor] = []
    several = cast("Sequence[object]", made) if isinstance(made, list | tuple) else [made]
    for tensor in several:
        assert isinstance(tensor, torch.Tensor)
        found.append(tensor)
    return found
