"""What a random definition is drawn with: facts about numbers, the writer, input tensors."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.errors import OperandDtypeError
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import NUMBERS
from fuser.ir.nodes import Number, Pointwise, Reduce, Scan, Scatter, Value, operands

T = TypeVar("T")
Step = Callable[[FusionDefinition, list[Handle]], Handle]
FLOATS = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)
INTEGERS = (DataType.Int, DataType.Int32)
DTYPES = (*FLOATS, *INTEGERS, DataType.Bool)
OTHERS = tuple(dtype for dtype in NUMBERS if dtype not in DTYPES and not dtype.is_float4)
EVERY_DTYPE = (*DTYPES, *DTYPES, *OTHERS)
"""Those that less is computed in are drawn less often."""

_COPIES = ("set", "segment_set", "where", "complex")

MAX_RANK = 4
MAX_INEXACT = 64.0
MAX_SCALED = 2.0**23
"""No exact number, taken in units of its last fraction bit, is larger: it fits float32."""


@dataclass(frozen=True)
class Scale:
    """How large tensors are: the sizes of dimensions, the most elements of a tensor and of an
    index, and how many elements an index has that is as long as one likes."""

    sizes: tuple[int, ...]
    max_elements: int
    max_count: int
    counts: tuple[int, ...]


SMALL = Scale((0, 1, 1, 2, 3, 4, 6, 8), 4096, 64, (1, 2, 3, 4, 5, 6))
LARGE = Scale(
    (
        *(1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 64, 65, 96, 100, 127, 128, 256, 384, 511, 768),
        *(1000, 1023, 1024, 2048, 3072, 4096, 4099, 8192, 20_000, 30_522, 65_536, 100_003),
    ),
    *(1 << 18, 1 << 14, (1, 2, 3, 6, 33, 128, 1000)),
)


@dataclass(frozen=True)
class Known:
    """What is known of a value's numbers: |x| <= bound; multiples of 2**-bits, or inexact (None).

    A leaf is rounded from inexact numbers to 16 bits: two implementations may differ in the last
    bit, so nothing is computed from it. Where numbers are not `finite`, some may be NaN or
    infinite, of which C++ makes no integers. The bound of integers that may have wrapped around is
    infinite.
    """

    bound: float
    bits: int | None
    leaf: bool = False
    finite: bool = True

    @property
    def exact(self) -> bool:
        return self.bits is not None


def known(bound: float, bits: int | None) -> Known | None:
    """The facts of a result, or None where it grows too large to be compared as a float."""
    if bits is not None and bound * 2.0**bits <= MAX_SCALED:
        return Known(bound, bits)
    return Known(bound, None) if bound <= MAX_INEXACT else None


class Writer:
    """A definition as it is drawn, with static sizes, so that every shape is known."""

    def __init__(
        self,
        draw: st.DrawFn,
        fd: FusionDefinition,
        dtypes: Sequence[DataType],
        inputs: list[torch.Tensor | Number],
        scale: Scale = SMALL,
    ) -> None:
        self.draw = draw
        self.fd = fd
        self.dtypes = tuple(dtypes)
        self.scale = scale
        self.inputs = inputs
        """What the definition is executed with; a step that declares an input adds to it."""
        self.steps: list[Step] = []
        self.handles: list[Handle] = []
        self.facts: list[Known] = []
        self.infinite: set[Value] = set()
        """Floats of which some may be NaN or infinite."""
        self._followed = 0
        """Of how many statements that is known."""

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(options)))

    def add(self, step: Step, facts: Known | None) -> None:
        """Append a step, unless an operation refuses its types or its numbers grow too large."""
        try:
            handle = step(self.fd, self.handles)
        except OperandDtypeError:
            return
        statements = self.fd.fusion.statements
        for statement in statements[self._followed :]:
            if not self.infinite.isdisjoint(operands(statement.op)):
                self.infinite.update(v for v in statement.outs if not v.dtype.is_integral)
        self._followed = len(statements)
        facts = _settled(handle.dtype(), facts)
        if facts is None or self._is_open(handle.value):
            return
        self.handles.append(handle)
        self.facts.append(replace(facts, finite=handle.value not in self.infinite))
        self.steps.append(step)

    def _is_open(self, value: Value) -> bool:
        """Whether complex infinities were computed with. Where a part is 0, products of these are
        NaN or not: in torch that differs between vectors and single elements, and its sums are of
        multiples by 1."""
        if not value.dtype.is_complex or value not in self.infinite:
            return False
        op = self.fd.fusion.definitions()[value].op if value not in self.fd.fusion.inputs else None
        return isinstance(op, Reduce | Scan | Scatter) or (
            isinstance(op, Pointwise) and op.op not in _COPIES
        )

    def add_infinite(self, step: Step, facts: Known | None) -> None:
        """Append a step that may make NaN or infinities of any numbers."""
        made = len(self.handles)
        self.add(step, facts)
        for handle in self.handles[made:]:
            if not handle.dtype().is_integral:
                self.infinite.add(handle.value)
                self.facts[-1] = replace(self.facts[-1], finite=False)

    def declare(self, handles: Sequence[Handle], given: Sequence[torch.Tensor | Number]) -> None:
        """Begin with inputs that hold some numbers."""
        self.handles = list(handles)
        pairs = zip(handles, given, strict=True)
        self.facts = [facts_of(handle.dtype(), each) for handle, each in pairs]
        facts = zip(handles, self.facts, strict=True)
        self.infinite = {handle.value for handle, known in facts if not known.finite}

    def operand(self, accepts: Callable[[Handle, Known], bool]) -> int | None:
        """The position of a value that may be computed with and that `accepts` likes."""
        positions = [
            position
            for position, (handle, facts) in enumerate(zip(self.handles, self.facts, strict=True))
            if not facts.leaf and accepts(handle, facts)
        ]
        if not positions or self.draw(st.booleans()):
            return positions[-1] if positions else None
        return self.draw(st.sampled_from(positions))

    def shape(self, position: int) -> tuple[int, ...]:
        return self.handles[position].value.shape

    def dtype(self, position: int) -> DataType:
        return self.handles[position].dtype()


@st.composite
def shapes(draw: st.DrawFn, scale: Scale = SMALL) -> list[int]:
    """Up to MAX_RANK sizes of a scale."""
    shape: list[int] = []
    room = scale.max_elements
    for _ in range(draw(st.integers(0, MAX_RANK))):
        shape.append(draw(st.sampled_from([size for size in scale.sizes if size <= room])))
        room //= max(shape[-1], 1)
    return draw(st.permutations(shape))


@st.composite
def broadcast_with(draw: st.DrawFn, shape: Sequence[int]) -> list[int]:
    """Sizes that broadcast with `shape`: some of its first are left out, some others are 1."""
    kept = shape[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else shape
    one = draw(st.sampled_from([None, *range(len(kept))]))
    return [1 if dim == one else size for dim, size in enumerate(kept)]


@st.composite
def tensors(
    draw: st.DrawFn,
    dtypes: Sequence[DataType] = DTYPES,
    sizes: st.SearchStrategy[list[int]] | None = None,
    extreme: bool = False,
) -> torch.Tensor:
    """A tensor of small exact numbers: contiguous, permuted, strided, expanded, or part of a larger
    one, which begins between vectors. An `extreme` one has any numbers, and may overlap itself."""
    dtype = draw(st.sampled_from(list(dtypes)))
    shape = list(draw(shapes() if sizes is None else sizes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    layouts = ["contiguous", "permuted", "strided", "expanded", "part"]
    layouts += ["overlapping"] if extreme else []
    layout = draw(st.sampled_from(layouts)) if shape else "contiguous"
    whole = list(shape)
    dim = draw(st.integers(0, len(shape) - 1)) if shape else 0
    match layout:
        case "strided":
            whole[dim] *= 2
        case "part":
            whole[dim] += 1
        case "expanded":
            whole[dim] = 1
        case "overlapping":
            strides = [draw(st.sampled_from((1, 2, 3))) for _ in shape]
            whole = [sum(n * stride for n, stride in zip(shape, strides, strict=True)) + 1]
            return _numbers(dtype, whole, generator, extreme).as_strided(shape, strides)
        case _:
            pass
    tensor = _numbers(dtype, whole, generator, extreme)
    match layout:
        case "strided":
            return tensor[(slice(None),) * dim + (slice(None, None, 2),)]
        case "part":
            return tensor[(slice(None),) * dim + (slice(1, None),)]
        case "permuted":
            return tensor.permute(draw(st.permutations(range(tensor.dim()))))
        case _:
            return tensor.expand(shape)


def _numbers(
    dtype: DataType, shape: Sequence[int], generator: torch.Generator, extreme: bool
) -> torch.Tensor:
    """Small exact numbers, zeros of both signs among the floats. Extreme ones: integers of any
    size, and floats of which some are NaN or infinite."""

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, tuple(shape), generator=generator)

    if dtype is DataType.Float8_e8m0fnu:  # exponents, of powers of 2 about 1
        return drawn(124, 130).to(torch.uint8).view(dtype.torch)
    if dtype is DataType.Bool:
        return drawn(0, 2).bool()
    if dtype.is_integral and extreme:
        least, most = torch.iinfo(dtype.torch).min, torch.iinfo(dtype.torch).max
        ends = torch.tensor([least, min(most, _MOST), -1, 0])[drawn(0, 4)]
        return torch.where(drawn(0, 2) > 0, ends, drawn(-_MOST, _MOST)).to(dtype.torch)
    if dtype.is_integral:
        return drawn(0 if dtype in (DataType.UInt8, DataType.UInt64) else -8, 9).to(dtype.torch)
    real = drawn(0, 9) * (drawn(0, 2) * 2.0 - 1.0) / 4
    if extreme:
        others = torch.tensor([math.nan, math.inf, -math.inf])[drawn(0, 3)]
        real = torch.where(drawn(0, 8) > 0, real, others)
    if dtype.is_complex:
        return torch.complex(real, drawn(-8, 9) / 4).to(dtype.torch)
    return real.to(dtype.torch)


_MOST = 2**63 - 1


@st.composite
def views_of(draw: st.DrawFn, given: torch.Tensor) -> torch.Tensor:
    """A tensor again, or in another order, or some of it, in the same memory."""
    if not given.dim() or draw(st.booleans()):
        return given.view_as(given)
    dim, start = draw(st.integers(0, given.dim() - 1)), draw(st.integers(0, 1))
    if draw(st.booleans()):
        return given.permute(draw(st.permutations(range(given.dim()))))
    return given[(slice(None),) * dim + (slice(start, given.shape[dim] - 1 + start),)]


def scalars(extreme: bool) -> st.SearchStrategy[Number]:
    """A number of any type that a scalar may have."""
    numbers = [-1.5, 0.25, 2.0, 3, -2, 0, True, False, complex(0.5, -1.5)]
    edges = [math.nan, math.inf, -0.0, _MOST, -_MOST - 1, 2**31, complex(math.inf, 1)]
    return st.sampled_from(numbers + edges if extreme else numbers)


def _facts_of_number(given: Number) -> Known:
    if isinstance(given, bool):
        return Known(1, 0)
    if isinstance(given, int):
        return Known(abs(given) if abs(given) <= 8 else math.inf, 0)
    return Known(4 if isinstance(given, complex) else 2, 2, finite=cmath.isfinite(given))


def facts_of(dtype: DataType, given: torch.Tensor | Number) -> Known:
    """What is known of an input's numbers."""
    if not isinstance(given, torch.Tensor):
        return _facts_of_number(given)
    if dtype.is_integral:
        small = bool((given.double().abs() <= 8).all())
        facts = _settled(dtype, Known(8, 0) if small else None)
        assert facts is not None
        return facts
    if dtype is DataType.Float8_e8m0fnu:
        return Known(math.inf, None)
    finite = bool((given if dtype.is_complex else given.double()).isfinite().all())
    return Known(4 if dtype.is_complex else 2, 2, finite=finite)


def _settled(dtype: DataType, facts: Known | None) -> Known | None:
    """The facts of a result of some type: integers wrap around, and are exact."""
    if dtype is DataType.Bool:
        return Known(1, 0)
    if dtype.is_integral and dtype.itemsize < 4:
        return Known(max(torch.iinfo(dtype.torch).max + 1, 255), 0)
    if dtype.is_integral and (facts is None or dtype is DataType.UInt64):
        return Known(math.inf, 0)
    if dtype.is_complex and facts is not None:  # of the products of parts, two are added
        return replace(facts, bound=2 * facts.bound)
    return facts


def overlaps_itself(given: torch.Tensor) -> bool:
    """Whether elements may lie at one place: dimensions are not nested in each other."""
    spans = [span for span in zip(given.stride(), given.shape, strict=True) if span[1] > 1]
    reached = 1
    for stride, size in sorted(spans):
        if stride < reached:
            return True
        reached = size * stride
    return False
