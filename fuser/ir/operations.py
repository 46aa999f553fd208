"""Operations: one frozen class each, holding operands and attributes only.

Equal operations are therefore common subexpressions. Each question about an operation (`infer`,
`interpret`, `print`) is one `match`, closed with `assert_never`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.scatter import Scatter
from fuser.ir.values import Extent, Number, Value

# -- scalars -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal. Equality is by dtype and bits, so NaN equals itself and -0.0 differs from 0.0.

    One that `is_size` follows from the sizes of a call: kernel text has a parameter in its place.
    """

    value: Number
    dtype: DataType
    is_size: bool = False

    def _key(self) -> tuple[DataType, bytes | int, bool]:
        if isinstance(self.value, int):
            return self.dtype, int(self.value), self.is_size
        number = complex(self.value)
        return self.dtype, struct.pack("dd", number.real, number.imag), self.is_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of one dimension, as an Int scalar."""

    arg: Value
    dim: int


# -- pointwise -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A row of the pointwise table applied to operands, which broadcast as in torch.

    `alike`: it is to be rounded alike in whichever kernels it is made. A pass says so.
    """

    op: str
    args: tuple[Value, ...]
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Cast:
    arg: Value
    dtype: DataType


# -- metadata ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """The same elements in row-major order under another shape."""

    arg: Value
    shape: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Permute:
    """Result dimension i is operand dimension `dims[i]`."""

    arg: Value
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Inserts a size-1 dimension where `is_broadcast` is True."""

    arg: Value
    is_broadcast: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Repeats size-1 dimensions up to `shape`; -1 keeps a dimension."""

    arg: Value
    shape: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Removes dimensions of size 1."""

    arg: Value
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements starts[d], starts[d] + steps[d], ... below ends[d] of each dimension."""

    arg: Value
    starts: tuple[Extent, ...]
    ends: tuple[Extent, ...]
    steps: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Flip:
    """The elements in reverse order along `dims`."""

    arg: Value
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StrideOrder:
    """The same values, laid out so that dimension d has stride rank `order[d]` (0 is fastest)."""

    arg: Value
    order: tuple[int, ...]


# -- factories -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GeneratorState:
    """A seed and an offset from torch's generator, which is advanced: others in every execution."""


@dataclass(frozen=True, slots=True)
class Full:
    shape: tuple[Extent, ...]
    fill: Value
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Iota:
    """start, start + step, ... : `length` elements."""

    length: Extent
    start: Value
    step: Value
    dtype: DataType


@dataclass(frozen=True, slots=True)
class Random:
    """Random numbers of a distribution ("uniform": low, high; "normal": mean, deviation).

    Each is a pure function of seed, offset and its row-major index: see `random_numbers.py`.
    """

    distribution: str
    shape: tuple[Extent, ...]
    parameters: tuple[Value, Value]
    seed: Value
    offset: Value
    dtype: DataType


# -- across elements -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction over `dims`. `dtype` None keeps torch's choice.

    `var_mean` gives two values; `welford` three: the mean, the sum of squared deviations from it
    and the number of elements.
    """

    op: str
    arg: Value
    dims: tuple[int, ...]
    keepdim: bool = False
    dtype: DataType | None = None
    correction: int = 1


@dataclass(frozen=True, slots=True)
class Scan:
    """cumsum, cumprod, cummax or cummin along `dim`; in `reverse`, from its last element on."""

    op: str
    arg: Value
    dim: int
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Pad:
    """(before, after) widths per dimension; negative widths cut."""

    arg: Value
    widths: tuple[tuple[Extent, Extent], ...]
    fill: Value


@dataclass(frozen=True, slots=True)
class Cat:
    args: tuple[Value, ...]
    dim: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Reads `arg` at `index` along `dim`; mode: index_select, gather, take_along_axis or select.

    `in_range`: every index is 0 or more, and below the size. A pass says so, and nobody checks.
    """

    mode: str
    arg: Value
    index: Value
    dim: int
    in_range: bool = False


@dataclass(frozen=True, slots=True)
class CheckIndex:
    """`arg`, whose elements must be in 0 to size - 1; `operation` is named where one is not."""

    arg: Value
    size: int
    operation: str


@dataclass(frozen=True, slots=True)
class Extern:
    """An operation torch runs: a row of `externs.TABLE`. Optional tensors may be None."""

    function: str
    args: tuple[Value | None, ...]
    options: tuple[object, ...] = ()


Operation = (
    Constant
    | SizeOf
    | GeneratorState
    | Pointwise
    | Cast
    | View
    | Permute
    | Broadcast
    | Expand
    | Squeeze
    | Slice
    | Flip
    | StrideOrder
    | Full
    | Iota
    | Random
    | Reduce
    | Scan
    | Pad
    | Cat
    | Gather
    | Scatter
    | CheckIndex
    | Extern
)

MetadataOperation = View | Permute | Broadcast | Expand | Squeeze | Slice | Flip
