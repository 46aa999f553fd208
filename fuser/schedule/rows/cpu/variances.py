"""Sums and squared deviations of rows of 16-bit floats, in one sweep.

    sweep   T4 folds T1                     once    T1_taken = T1 at the first point
    once    T5 = T4 / n                     sweep   T1_off = T1 - T1_taken
    sweep   T6 = (T1 - T5)^2; T7 folds T6           T4_off folds T1_off; T7_off folds T1_off^2
                                        ->  once    T7 = |T7_off - T4_off * (T4_off / n)|
                                                    T5 = T1_taken + T4_off / n

The difference cancels, but not much: the square of what one element is off the mean by is at most n
times the variance, of which n epsilons of float32 are then lost. In rows that are not too long,
that is less than what rounding to 16 bits costs, if elements and results are so rounded. Where such
a square is past 1e38 / n, the variance is infinite. Source: T. F. Chan, G. H. Golub, R. J. LeVeque,
Algorithms for computing the sample variance, 1983.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.resolve import replaced
from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep, contents, names_in, nodes_read
from fuser.schedule.indices.index import ZERO
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Call, Convert, Expression, Literal, Ref, SizeValue
from fuser.schedule.tree.statements import Let, Load

_SAFETY = 4
"""How many epsilons of float32 each point of a row may cost, of that of a 16-bit type."""

_APART = 256.0
"""A number of which so many have a finite sum is a finite distance from every bfloat16."""


@dataclass(frozen=True, slots=True)
class _Variance:
    """`sums` folds a value to a `total`, of which `mean` is made; `deviations` folds the `squares`
    of its distance from that. `value` is made by `code`."""

    sums: Sweep
    total: Fold
    mean: Let
    deviations: Sweep
    squares: Fold
    value: Ref
    code: tuple[Load | Let, ...]


def sum_variances_at_once(body: RowBody) -> RowBody:
    """`body` with both sums of each such variance in one sweep, if all results have 16 bits."""
    stages = body.stages
    stored = {store.dtype for sweep in body.sweeps for store in sweep.stores}
    most_points = min(map(_most_points, stored), default=0.0)
    while variance := _a_variance(stages, most_points):
        stages = _at_once(stages, variance)
    return dataclasses.replace(body, stages=stages)


# -- what is a variance ----------------------------------------------------------------------------


def _a_variance(stages: Sequence[Sweep], most_points: float) -> _Variance | None:
    totals = {
        fold.name: (sweep, fold)
        for sweep in stages
        for fold in sweep.folds_of_row
        if fold.operation == "add"
    }
    means: dict[str, tuple[Let, Sweep, Fold]] = {}
    for node in (let for sweep in stages for let in sweep.lets):
        name, number = _divided(node)
        if name in totals and number == point_count(totals[name][0].axes):
            means[node.name] = node, *totals[name]
    for deviations in stages:
        match _squared(deviations):
            case Call("sub", (Ref() as value, Ref(name))) if name in means:
                mean, sums, total = means[name]
                code = _code_of(value, sums, deviations, most_points)
                if total.value == value and code:
                    (squares,) = deviations.folds
                    return _Variance(sums, total, mean, deviations, squares, value, code)
            case _:
                pass
    return None


def _divided(node: Let) -> tuple[str, float]:
    """Which total a node divides, and by what number; if it does."""
    match node.expression:
        case Call("truediv", (Ref(total), Convert(SizeValue(number)) | Literal(number))):
            return total, float(number.real)
        case _:
            return "", 1.0


def _squared(sweep: Sweep) -> Expression | None:
    """What a sweep sums the squares of, if it does nothing else."""
    if sweep.stores or len(sweep.folds) != 1 or sweep.folds[0].slots is not None:
        return None
    made = {let.name: let.expression for let in sweep.lets}
    (fold,) = sweep.folds
    square = made.get(fold.value.name) if isinstance(fold.value, Ref) else fold.value
    match square:
        case Call("mul", (Ref(one), Ref(other))) if fold.operation == "add" and one == other:
            return made.get(one)
        case _:
            return None


def _code_of(
    value: Ref, sums: Sweep, deviations: Sweep, most_points: float
) -> tuple[Load | Let, ...]:
    """What makes the value in both sweeps, if it comes of 16-bit floats in rows not too long."""
    made, again = (nodes_read(sweep.code, {value.name}) for sweep in (sums, deviations))
    code = tuple(node for node in made if isinstance(node, Load | Let))
    read = [node.dtype for node in code if isinstance(node, Load)]
    if made != again or code != made or sums.axes != deviations.axes or not read:
        return ()
    return code if point_count(sums.axes) <= min(most_points, *map(_most_points, read)) else ()


def _most_points(dtype: DataType) -> float:
    """The longest rows in which less is lost than by rounding to a type: none of 32 bits or more,
    and none where nothing is rounded."""
    return dtype.epsilon / (_SAFETY * DataType.Float.epsilon) if dtype.is_floating else 0.0


# -- how it is summed ------------------------------------------------------------------------------


def _at_once(stages: Sequence[Sweep], variance: _Variance) -> tuple[Sweep, ...]:
    """The stages with both sums in the sweep of the first."""
    given, mean = (variance.sums, variance.deviations), variance.mean
    others = [
        dataclasses.replace(stage, code=tuple(node for node in stage.code if node != mean))
        for stage in stages
        if stage not in given
    ]
    read = set(names_in(contents(others)))
    place = stages.index(variance.sums)
    made = {node.name for stage in others[:place] for node in stage.code}
    at_once = [_first_point(variance, made), _both_sums(variance), _results(variance, read)]
    stages = (*others[:place], *at_once, *others[place:])
    return tuple(stage for stage in stages if stage.code or stage.stores)


def _first_point(variance: _Variance, made: Container[str]) -> Sweep:
    """What makes the value at a row's first point, but for what is `made` there for variances
    before it. Where n of it have no finite sum, or other elements no finite distance from it, 0 is
    taken, which leaves the sums what they are."""
    at_first = replace_axes(Sweep((), variance.code), dict.fromkeys(variance.sums.axes, ZERO))
    known = {node.name: Ref(f"{node.name}_first", node.dtype) for node in at_first.code}
    code = (_named(n, known) for n in at_first.code if known[n.name].name not in made)
    value, dtype = known[variance.value.name], variance.value.dtype
    count = Call("add", (_count(variance), Literal(_APART, dtype)), dtype)
    several = Call("mul", (value, count), dtype)
    finite = Call("isfinite", (several,), DataType.Bool)
    taken = Call("where", (finite, value, Literal(0.0, dtype)), dtype)
    return Sweep((), (*code, Let(_taken(variance).name, dtype, taken)))


def _count(variance: _Variance) -> Expression:
    """How many points a row has, as what the total is divided by."""
    assert isinstance(variance.mean.expression, Call)
    _, count = variance.mean.expression.args
    return count


def _named(node: Code, names: Mapping[str, Ref]) -> Code:
    """A node that makes and reads what else has these names."""
    name = names[node.name].name
    if isinstance(node, Let):
        return Let(name, node.dtype, replaced(node.expression, names))
    return dataclasses.replace(node, name=name)


def _taken(variance: _Variance) -> Ref:
    return Ref(f"{variance.value.name}_taken", variance.value.dtype)


def _both_sums(variance: _Variance) -> Sweep:
    """The sweep that sums how far elements are off the first, and the squares of that."""
    sums, value = variance.sums, variance.value
    off = Ref(f"{value.name}_off", value.dtype)
    square = Call("mul", (off, off), off.dtype)
    offs, squares = (
        dataclasses.replace(fold, name=f"{fold.name}_off", value=summed)
        for fold, summed in ((variance.total, off), (variance.squares, square))
    )
    others = tuple(fold for fold in sums.folds if fold != variance.total)
    distance = Let(off.name, off.dtype, Call("sub", (value, _taken(variance)), off.dtype))
    return dataclasses.replace(sums, code=(*sums.code, distance), folds=(*others, offs, squares))


def _results(variance: _Variance, read: Container[str]) -> Sweep:
    """The mean and the sum of squared deviations, and the total where that is read besides."""
    total, mean, squares = variance.total, variance.mean, variance.squares
    count, dtype = _count(variance), mean.dtype
    offs, all_squares = (Ref(f"{fold.name}_off", fold.dtype) for fold in (total, squares))
    off = Ref(f"{mean.name}_off", dtype)
    left = Call("sub", (all_squares, Call("mul", (offs, off), dtype)), dtype)
    code = [
        Let(off.name, dtype, Call("truediv", (offs, count), dtype)),
        Let(mean.name, dtype, Call("add", (_taken(variance), off), dtype)),
        Let(squares.name, dtype, Call("abs", (left,), dtype)),  # below 0 by rounding alone
    ]
    if total.name in read:
        sum_ = Call("mul", (Ref(mean.name, dtype), count), dtype)
        code.append(Let(total.name, dtype, sum_))
    return Sweep((), tuple(code))
