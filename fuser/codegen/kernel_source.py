"""What codegen hands on: the text of a kernel, and what it is called with."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.tree.loop_nest import Launch


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of the buffer in which `value` lies."""

    value: Value

    def __str__(self) -> str:
        return f"{self.value.name}: the address of {self.value.type}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """The number a runtime scalar holds."""

    value: Value

    def __str__(self) -> str:
        return f"{self.value.name}: {self.value.type}"


def scalar_passed_as(dtype: DataType) -> str:
    """The C type in which a runtime scalar is passed.

    16-bit floats travel as float32, complex numbers as a plain struct: the library's own types have
    copy constructors, and a C++ compiler passes the address of such an argument.
    """
    if dtype.is_complex:
        return f"{dtype.spelling}_parts"
    return dtype.compute.spelling


@dataclass(frozen=True, slots=True)
class Size:
    """An extent, stride or offset, in elements."""

    name: str
    number: int
    dtype: DataType

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}, {self.number}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The address of `elements` that the kernel uses while it runs, all 0 at first if `zeroed`, and
    again at the end if `restored`."""

    name: str
    dtype: DataType
    elements: int
    zeroed: bool = False
    restored: bool = False

    def __str__(self) -> str:
        zeros = (", 0 at first" * self.zeroed) + (" and at the end" * self.restored)
        return f"{self.name}: the address of {self.elements} {self.dtype.name} to work with{zeros}"


Argument = Pointer | Workspace | Scalar | Size


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What an index must be: from 0 to `size` - 1, or from -`size` where it `wraps`."""

    operation: str
    size: int
    wraps: bool


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel's text and arguments.

    `code` holds no size: the sizes are in `arguments`, so kernels of other sizes have equal code
    and are compiled once. `header` is the comment above it, for the reader.
    """

    name: str
    header: str
    code: str
    arguments: tuple[Argument, ...]
    launch: Launch
    checks: tuple[IndexCheck, ...] = ()
    """Where there are some, the kernel takes an address of two numbers after its arguments: which
    check failed, counted from 1, and the index. They are 0 before the launch."""
    contracts: bool = True
    """Whether the compiler may round a product and a sum at once: see `compared_values.py`."""
    compares_choices: bool = False
    """Whether something is compared that depends on a choice, here or in a function, or made an
    integer, or truth values are combined one after the other, or a place is read that a choice
    tells."""
    calls_in_lanes: bool = False
    """Whether functions of all lanes at once are called between loops over lanes."""
    has_long_loops: bool = False
    """Whether a loop of many rounds is so long that its compiler takes long for each copy of it."""
    has_long_bodies: bool = False
    """Whether a loop, of however many rounds, is so long."""

    @property
    def key(self) -> str:
        """What a compiled kernel depends on, beside the target."""
        compiled_for = (self.contracts, self.compares_choices, self.has_long_loops)
        return f"{compiled_for} {self.has_long_bodies}\n{self.code}"

    @property
    def text(self) -> str:
        return self.header + self.code

    @property
    def kernel(self) -> str:
        """The text without the library before the kernel."""
        return self.header + self.code[self.code.index('extern "C"') :]
