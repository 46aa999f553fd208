"""Named sizes: every extent, stride and divisor of a kernel's text becomes a parameter."""

from __future__ import annotations

from collections.abc import Collection

from fuser.codegen.kernel_source import Size
from fuser.ir.dtypes import DataType, holds
from fuser.schedule.indices.index import Axis, Clamped, Index, Quotient, Remainder, Term
from fuser.schedule.tree.counts import inverse_of
from fuser.schedule.tree.vectors import PERMUTED_STEPS

NEAR = 16
"""Elements between accesses of one tensor, up to which these are a number of the text."""


class Sizes:
    """The size parameters of one kernel, in the order of their first use."""

    def __init__(
        self, axes: tuple[Axis, ...], dtype: DataType, in_text: Collection[Axis] = ()
    ) -> None:
        self._axes = axes
        self._in_text = in_text
        self.dtype = dtype
        self._names = {axis: f"i{depth}" for depth, axis in enumerate(axes)}
        self._extents = {axis: f"n{depth}" for depth, axis in enumerate(axes)}
        self._parameters: dict[str, Size] = {}
        self._divisors = 0
        self.sections: dict[str, None] = {}
        """The device functions that indices use."""
        self.lane_arrays: set[str] = set()
        """Variables that hold one number a lane."""
        self.has_pieces = False
        """Whether axes are those of several pieces, not one inside the other."""
        self._bases: dict[str, list[int]] = {}
        """By owner, what its accesses count from."""
        self._lanes: set[Axis] = set()
        """Axes whose neighbours are in vector lanes."""

    @property
    def parameters(self) -> tuple[Size, ...]:
        return tuple(self._parameters.values())

    def name_axis(self, axis: Axis, name: str) -> None:
        """Use `name` for an axis that is not one of the kernel's own."""
        self._names[axis] = name

    def axis(self, axis: Axis) -> str:
        return self._names[axis]

    def in_lanes(self, axis: Axis) -> None:
        """From now on, steps along an axis that a compiler permutes are numbers of the text: it
        moves whole vectors then, instead of one element at a time."""
        self._lanes.add(axis)

    def extent(self, axis: Axis) -> str:
        """`n0` for `i0`, or a number of the text."""
        if axis in self._in_text:
            return str(axis.extent)
        return self.parameter(self._extents[axis], axis.extent)

    def bound(self, axis: Axis, place: int) -> str:
        """Where a part of an axis begins or ends."""
        return self.parameter(f"{self._extents[axis]}_part", place) if place else "0"

    def parameter(self, name: str, number: int) -> str:
        """Declare (once) a parameter and return its name."""
        name = self._own_name(name, number)
        self._parameters.setdefault(name, Size(name, number, self.dtype))
        assert holds(self.dtype, number), f"{name} is {number}, too large for {self.dtype.name}"
        return name

    def _own_name(self, name: str, number: int) -> str:
        """A name for a number of which there may be another: `T0_offset`, `T0_offset_2`."""
        own, copies = name, 1
        while own in self._parameters and self._parameters[own].number != number:
            copies += 1
            own = f"{name}_{copies}"
        return own

    def count(self, owner: str, number: int) -> str:
        """A parameter for one more number that follows from sizes, in what makes `owner`."""
        so_far = sum(name.startswith(f"{owner}_count") for name in self._parameters)
        return self.parameter(f"{owner}_count{f'_{so_far}' if so_far else ''}", number)

    def index(self, index: Index, owner: str) -> str:
        """The text of an index; parameters it needs are named after `owner`, the tensor accessed.

        Accesses of one tensor share the numbers that are equal: of a stencil, the strides."""
        parts = [self._product(term, coefficient, owner) for term, coefficient in index.terms]
        base = self._base(index, owner)
        if base:
            parts.append(self.parameter(f"{owner}_offset", base))
        if index.constant != base:
            parts.append(str(index.constant - base))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def _base(self, index: Index, owner: str) -> int:
        """What an access counts from: what another of the tensor does, if that is near. How far
        apart they are is a number of the text then: of lanes that take steps, compilers see that
        both store to one vector, and of a stencil, that one address serves many loads.

        Only what overlaps along the innermost axis is near, not halves of a row, nor rows: how far
        these lie apart follows from sizes.
        """
        constant, bases = index.constant, self._bases.setdefault(owner, [])
        step = next((step for term, step in index.terms if self._is_permuted(term, step)), 1)
        if step > 1:
            near = (base for base in (0, *bases) if 0 <= constant - base < 2 * step)
        else:
            room = _overlap(index)
            near = (base for base in bases if abs(constant - base) < room)
        found = next(near, None)
        if found is None:
            found = constant - constant % step
            bases.append(found)
        return found

    def _product(self, term: Term, coefficient: int, owner: str) -> str:
        if isinstance(term, Quotient | Remainder | Clamped):
            return self._scaled(self._called(term, owner), coefficient, owner)
        if isinstance(term, Axis):
            name = self._names[term]
        else:
            name = f"{term.name}[lane]" if term.name in self.lane_arrays else term.name
        if coefficient in (1, -1):
            return name if coefficient == 1 else f"-{name}"
        if self._is_permuted(term, coefficient):
            return f"{name} * {coefficient}"
        nested = self._nested(term, coefficient) if isinstance(term, Axis) else None
        return f"{name} * {nested or self._stride(name, coefficient, owner)}"

    def _is_permuted(self, term: Term, coefficient: int) -> bool:
        """Whether a coefficient is a number of the text."""
        return isinstance(term, Axis) and term in self._lanes and coefficient in PERMUTED_STEPS

    def _nested(self, axis: Axis, coefficient: int) -> str | None:
        """The stride of an axis of a row-major tensor: the product of the extents inside it."""
        if axis not in self._axes or self.has_pieces:
            return None
        product, names = 1, list[str]()
        inner_axes = self._axes[self._axes.index(axis) + 1 :]
        for inner in inner_axes:
            product *= inner.extent
            names.append(self._extents[inner])
            if product == coefficient:
                return " * ".join(self.extent(a) for a in inner_axes[: len(names)])
        return None

    def _stride(self, name: str, coefficient: int, owner: str) -> str:
        """The step of an access; others of the tensor have the same, and compilers see that."""
        suffix = name.removeprefix("i").removesuffix("[lane]")
        return self.parameter(f"{owner}_stride_{suffix}", coefficient)

    def _called(self, term: Quotient | Remainder | Clamped, owner: str) -> str:
        """The call of a function of another index and a number."""
        count = self._divisors
        self._divisors += 1
        inner = self.index(term.of, f"{owner}_part_{count}")  # `T0_1` is the second load of T0
        match term:
            case Clamped(extent=number):
                within = self.parameter(f"{owner}_within_{count}", number)
                return self._use("clamped_to_last" if self.is_narrow else "clamped", inner, within)
            case Quotient(divisor=number):
                return self.quotient(inner, f"{owner}_divisor_{count}", number)
            case Remainder(divisor=number):
                divisor = self.parameter(f"{owner}_divisor_{count}", number)
                if not self.is_narrow:
                    return self._use("rest", inner, divisor)
                return self._use("rest_by_inverse", inner, divisor, *self._inverse(divisor, number))

    @property
    def is_narrow(self) -> bool:
        """Whether indices have 32 bits, as a GPU's do where these are enough: divisions are made
        by inverses then."""
        return self.dtype is DataType.Int32

    def quotient(self, index: str, name: str, divisor: int) -> str:
        """An index that is not negative over a number, which is called so."""
        if self.is_narrow:
            return self._use("quotient_by_inverse", index, *self._inverse(name, divisor))
        return self._use("quotient", index, self.parameter(name, divisor))

    def _inverse(self, name: str, divisor: int) -> tuple[str, str]:
        """What an index is divided by: a factor, as the bits of a parameter, and a shift."""
        factor, shift = inverse_of(max(divisor, 1))
        bits = factor - (1 << 32) if factor >> 31 else factor
        return self.parameter(f"{name}_inverse", bits), self.parameter(f"{name}_shift", shift)

    def _use(self, function: str, *arguments: str) -> str:
        """The call of a device function."""
        self.sections[function] = None
        return f"{function}({', '.join(arguments)})"

    def _scaled(self, text: str, coefficient: int, owner: str) -> str:
        if coefficient == 1:
            return text
        return f"({text}) * {self.parameter(f'{owner}_factor_{self._divisors}', coefficient)}"


def _overlap(index: Index) -> int:
    """How far from an access another is that does not overlap it along the innermost axis, or is
    rather in another row; no more than what is near."""
    extents = [t.extent for t, step in index.terms if isinstance(t, Axis) and abs(step) == 1]
    half_rows = [abs(step) // 2 for _, step in index.terms if abs(step) > 1]
    return min([NEAR + 1, max(extents, default=NEAR + 1), *half_rows])
