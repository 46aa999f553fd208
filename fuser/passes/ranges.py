"""Integer tensors whose elements are a linear function of their coordinates: ranges and constants.

T1 = fd.ops.iota(8, start=S0, step=S1)                 3, 5, 7, ...:  3 + 2 i
T2 = fd.ops.broadcast(T1, is_broadcast_dim=[True, False])             3 + 2 j
T3 = fd.ops.expand(T2, shape=[4, 8])                                  3 + 2 j, the same in every row
T4 = fd.ops.sub(T3, S2)                                               1 + 2 j

Floating types are followed as long as every number is an integer that they hold exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Constant,
    Expand,
    Flip,
    Full,
    Iota,
    Operation,
    Permute,
    Pointwise,
    Slice,
    Squeeze,
    Statement,
    Value,
    View,
    static,
)
from fuser.passes.intervals import DECIDED
from fuser.passes.linear import Linear


@dataclass(frozen=True, slots=True)
class Range:
    """start, start + step, ...: `count` numbers."""

    start: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.start + max(self.count - 1, 0) * self.step

    @property
    def low(self) -> int:
        return min(self.start, self.last)

    @property
    def high(self) -> int:
        return max(self.start, self.last)

    def within(self, size: int, *, wraps: bool) -> Range | None:
        """The range as positions in a dimension of `size`; None where one is outside.

        If it `wraps`, positions below 0 count from the end.
        """
        if self.count == 0:
            return Range(0, 1, 0)
        start = self.start + size if wraps and self.high < 0 else self.start
        moved = Range(start, self.step if self.count > 1 else 1, self.count)
        return moved if moved.low >= 0 and moved.high < size else None


class Ranges:
    """The linear values of a fusion, which are found a statement at a time."""

    def __init__(self) -> None:
        self._known: dict[Value, Linear] = {}

    def note(self, statement: Statement) -> None:
        """Look at the next statement."""
        if len(statement.outs) > 1:
            return
        out = statement.out
        found = _linear(statement.op, out.shape, self._known.get)
        if found is not None and found.fits(out.shape, out.dtype):
            self._known[out] = found

    def number(self, value: Value) -> int | None:
        """What a scalar, or every element of a tensor, is."""
        found = self._known.get(value)
        return None if found is None or any(found.steps) else found.offset

    def bounds(self, value: Value) -> tuple[int, int] | None:
        """The smallest and the largest element, if there are any."""
        found = self._known.get(value)
        return None if found is None or 0 in value.shape else found.bounds(value.shape)

    def along(self, value: Value, dim: int) -> Range | None:
        """The range that a tensor is along `dim`, the same everywhere in the others."""
        found = self._known.get(value)
        if found is None:
            return None
        if not value.shape:
            return Range(found.offset, 0, 1)
        if any(step for other, step in enumerate(found.steps) if other != dim):
            return None
        return Range(found.offset, found.steps[dim], value.shape[dim])

    def flat(self, value: Value) -> Range | None:
        """The range that a tensor's elements are in row-major order."""
        found = self._known.get(value)
        if found is None:
            return None
        count = value.elements
        merged = found.viewed(value.shape, (count,)) if count else Linear(found.offset, (0,))
        return None if merged is None else Range(merged.offset, merged.steps[0], count)


Lookup = Callable[[Value], Linear | None]


def _linear(op: Operation, shape: tuple[int, ...], known: Lookup) -> Linear | None:
    match op:
        case Constant(int() as number):
            return Linear(int(number), ())
        case Constant(float() as number) if number.is_integer():
            return Linear(int(number), ())
        case Full():
            fill = known(op.fill)
            return None if fill is None else Linear(fill.offset, (0,) * len(shape))
        case Iota():
            start, step = known(op.start), known(op.step)
            if start is None or step is None:
                return None
            return Linear(start.offset, (step.offset,)).over(shape)
        case Pointwise():
            return _arithmetic(op, shape, known)
        case Cast() | Broadcast() | Expand() | Squeeze() | Permute() | View() | Slice() | Flip():
            found = known(op.arg)
            return None if found is None else _relabelled(op, found, shape)
        case _:
            return None


def _relabelled(
    op: Cast | Broadcast | Expand | Squeeze | Permute | View | Slice | Flip,
    found: Linear,
    shape: tuple[int, ...],
) -> Linear | None:
    offset, steps = found.offset, found.steps
    match op:
        case Cast() | Expand():
            return found
        case Broadcast():
            kept = iter(steps)
            return Linear(offset, tuple(0 if new else next(kept) for new in op.is_broadcast))
        case Squeeze():
            kept = tuple(step for dim, step in enumerate(steps) if dim not in op.dims)
            return Linear(offset, kept)
        case Permute():
            return Linear(offset, tuple(steps[dim] for dim in op.dims))
        case View():
            return found.viewed(op.arg.shape, shape)
        case Slice():
            starts = zip(static(op.starts), steps, strict=True)
            offset += sum(start * step for start, step in starts)
            paced = tuple(step * pace for step, pace in zip(steps, static(op.steps), strict=True))
            return Linear(offset, paced).over(shape)
        case Flip():
            offset += sum((shape[dim] - 1) * steps[dim] for dim in op.dims)
            turned = (-step if dim in op.dims else step for dim, step in enumerate(steps))
            return Linear(offset, tuple(turned)).over(shape)


def _arithmetic(op: Pointwise, shape: tuple[int, ...], known: Lookup) -> Linear | None:
    """Sums, differences and multiples, and comparisons that come out the same everywhere; None
    where an operand loses bits as it is converted."""
    if op.op not in ("add", "sub", "mul", "neg", "set", *DECIDED):
        return None
    args: list[Linear] = []
    for arg, dtype in zip(op.args, signature(op).args, strict=True):
        found = known(arg)
        if found is None or not found.fits(arg.shape, dtype):
            return None
        args.append(Linear(found.offset, (0,) * (len(shape) - len(arg.shape)) + found.steps))
    match op.op, args:
        case "set", [x]:
            return x
        case "neg", [x]:
            return x.times(-1)
        case "add", [x, y]:
            return x.plus(y)
        case "sub", [x, y]:
            return x.plus(y.times(-1))
        case "mul", [x, y] if not any(y.steps):
            return x.times(y.offset)
        case "mul", [x, y] if not any(x.steps):
            return y.times(x.offset)
        case compared, [x, y] if compared in DECIDED:
            chosen = DECIDED[compared](*x.plus(y.times(-1)).bounds(shape))
            return None if chosen is None else Linear(int(chosen), (0,) * len(shape))
        case _:
            return None
