"""Variances in one sweep, where what they are of would be read from memory for each of two.

    kernel 0    T4 = sum of T1 [128, 3, 50176]       kernel 0    T2 = mean of a sixteenth of T1
    kernel 1    T5 = T4 / n                     ->   kernel 1    T3 = T1 - T2
                T6 = T1 - T5                                     T4 = sum of T3, T7 = sum of T3^2
                T8 = sum of T6^2                                 T5 = T2 + T4 / n
                                                                 T8 = |T7 - T4 * (T4 / n)|

The difference cancels little, whatever the numbers are. The mean of m of n elements is off that of
all by at most sqrt(n / m) standard deviations, since m such distances squared are no more than n
times the variance. So T7 is at most 1 + n / m times the difference: 17 times the rounding of one
sum, not a number that depends on the mean. Where the part has no finite mean, 0 is taken for it,
and the sums are what they are. Source: T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for
computing the sample variance, 1983.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Cast,
    Constant,
    Fusion,
    Operation,
    Pointwise,
    Reduce,
    Squeeze,
    Statement,
    Value,
)
from fuser.ir.shapes import with_size
from fuser.passes.dead_code import remove_dead_code
from fuser.passes.rewrite import Emitter, rewrite
from fuser.segmenter.plan import SegmentedFusion

PART = 16
"""What part of a row is read first, to know about where its mean is: one of so many."""


@dataclass(frozen=True, slots=True)
class _Variance:
    """`squares` sums the squared distances of `of` from its `mean`, the `total` over its `count`
    of elements along `dims`."""

    of: Value
    dims: tuple[int, ...]
    total: Value
    count: Value
    mean: Value
    squares: Value

    @property
    def part(self) -> tuple[int, ...]:
        """The sizes of what is read first: a part of the outermost dimension that has so many."""
        shape = self.of.shape
        long = (dim for dim in self.dims if shape[dim] >= PART)
        dim = next(long, max(self.dims, key=lambda dim: shape[dim]))
        return with_size(shape, dim, max(shape[dim] // PART, 1))

    @property
    def part_count(self) -> int:
        """The elements of that for each mean."""
        return math.prod(self.part[dim] for dim in self.dims)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What is known of a variance after one sweep: `offs` sums distances from where the mean is
    about, of which `off` is the mean and `distances` are all; the `mean` follows."""

    distances: Value
    offs: Value
    off: Value
    mean: Operation


def sample_variances(segmented: SegmentedFusion) -> tuple[Fusion, list[str]]:
    """The fusion with such variances in one sweep each, and a note of each for people; also where
    one kernel reads what they are of from memory again."""
    kernels = {
        out: segment
        for segment in segmented.segments
        for statement in segment.fusion.statements
        for out in statement.outs
    }

    def is_read_twice(variance: _Variance) -> bool:
        first, second = (kernels.get(sum_) for sum_ in (variance.total, variance.squares))
        return first is not second or (first is not None and first.bytes_read_again > 0)

    several = (each for each in _variances(segmented.fusion) if each.part_count > 1)
    found = [variance for variance in several if is_read_twice(variance)]
    if not found:
        return segmented.fusion, []
    fusion = remove_dead_code(rewrite(segmented.fusion, _Sampling(found).rule))
    notes = [
        f"sampled:          {each.of} is read once for {each.mean} and {each.squares}, about the "
        "mean of a part of it"
        for each in found
    ]
    return fusion, notes


def _variances(fusion: Fusion) -> list[_Variance]:
    made = {out: s.op for s in fusion.statements if len(s.outs) == 1 for out in s.outs}
    found = (_variance(statement, made) for statement in fusion.statements)
    return [variance for variance in found if variance is not None]


def _variance(statement: Statement, made: Mapping[Value, Operation]) -> _Variance | None:
    match statement.op:
        case Reduce("sum", squared, dims):
            pass
        case _:
            return None
    match made.get(squared):
        case Pointwise("mul", (away, other)) if away == other:
            pass
        case _:
            return None
    match made.get(away):
        case Pointwise("sub", (Value() as of, Value() as mean)) if of.dtype.is_floating:
            pass
        case _:
            return None
    match made.get(mean):
        case Pointwise("truediv", (Value() as total, Value() as count)):
            pass
        case _:
            return None
    match made.get(total):
        case Reduce("sum", summed, over, keepdim=True) if (summed, over) == (of, dims):
            pass
        case _:
            return None
    match made.get(count):
        case Constant(number) if number == math.prod(of.shape[dim] for dim in dims):
            return _Variance(of, dims, total, count, mean, statement.out)
        case _:  # that is no mean: distances from it do not sum to zero
            return None


class _Sampling:
    """Rewrites the means and the sums of squares of some variances."""

    def __init__(self, variances: list[_Variance]) -> None:
        self._of_mean = {variance.mean: variance for variance in variances}
        self._of_squares = {variance.squares: variance for variance in variances}
        self._sums: dict[Value, _Sums] = {}
        """By mean."""

    def rule(self, statement: Statement, emit: Emitter) -> Operation | Value | None:
        """What becomes of a statement."""
        if len(statement.outs) != 1:
            return None
        out = statement.out
        if out in self._of_mean:
            sums = self._sums[out] = _sums(self._of_mean[out], emit)
            return sums.mean
        variance = self._of_squares.get(out)
        sums = None if variance is None else self._sums.get(variance.mean)
        if variance is None or sums is None or emit.producer(variance.mean) != sums.mean:
            return None
        return _squares(variance, sums, emit, keepdim=len(out.shape) == len(variance.of.shape))


def _sums(variance: _Variance, emit: Emitter) -> _Sums:
    of, dims = variance.of, variance.dims
    part = _Leading(variance.part, emit).of(of)
    total = emit.add(Reduce("sum", part, dims, keepdim=True))
    count = emit.add(Constant(variance.part_count, DataType.Int, is_size=True))
    about = emit.add(Pointwise("truediv", (total, count)))
    is_finite = emit.add(Pointwise("isfinite", (about,)))
    zero = emit.add(Constant(0.0, of.dtype))
    about = emit.add(Pointwise("where", (is_finite, about, zero)))
    distances = emit.add(Pointwise("sub", (of, about)))
    offs = emit.add(Reduce("sum", distances, dims, keepdim=True))
    off = emit.add(Pointwise("truediv", (offs, variance.count)))
    return _Sums(distances, offs, off, Pointwise("add", (about, off)))


def _squares(variance: _Variance, sums: _Sums, emit: Emitter, *, keepdim: bool) -> Operation:
    squared = emit.add(Pointwise("mul", (sums.distances, sums.distances)))
    total = emit.add(Reduce("sum", squared, variance.dims, keepdim=True))
    cancelled = emit.add(Pointwise("mul", (sums.offs, sums.off)))
    left = emit.add(Pointwise("sub", (total, cancelled)))
    made = Pointwise("abs", (left,))  # below 0 by rounding alone
    return made if keepdim else Squeeze(emit.add(made), variance.dims)


class _Leading:
    """Makes the first elements of values from the first elements of what they are computed from, so
    that no more is read."""

    def __init__(self, shape: tuple[int, ...], emit: Emitter) -> None:
        self._shape = shape
        self._emit = emit
        self._made: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """So many along each dimension as the shape has; of one of size 1, that one."""
        if value not in self._made:
            self._made[value] = self._of(value)
        return self._made[value]

    def _of(self, value: Value) -> Value:
        if not value.is_tensor:
            return value
        aligned = self._shape[len(self._shape) - len(value.shape) :]
        own = tuple(map(min, value.shape, aligned))
        if own == value.shape:
            return value
        match self._emit.producer(value):
            case Cast(arg, dtype):
                return self._emit.cast(self.of(arg), dtype)
            case Pointwise(op, args):
                return self._emit.add(Pointwise(op, tuple(map(self.of, args))))
            case _:
                return self._emit.leading(value, own)
