"""Extremes of floats of 16 bits, found among integers in the same order.

    load T0; T1 = float32 of T0              load T0
    T2 folds T1 by maximum           ->      T2_rank folds the rank of T0 by maximum
                                             once: T2 = the number that has this rank

A vector holds twice as many of them, none is widened, and NaN takes no comparison of its own: its
rank is beyond those of all numbers.
"""

from __future__ import annotations

import dataclasses

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Fold, RowBody, Sweep, without_dead_code
from fuser.schedule.code.widening import unwidened, widened_in
from fuser.schedule.tree.expressions import Call, Expression, Ref, convert
from fuser.schedule.tree.folds import is_extreme
from fuser.schedule.tree.statements import Let
from fuser.schedule.tree.vectors import FLOATS_OF_16


def fold_ranks(body: RowBody, *, but: Sweep | None = None) -> RowBody:
    """`body` with such extremes of each row folded as ranks; those of one sweep are left."""
    stages = (
        stage for sweep in body.stages for stage in ([sweep] if sweep is but else by_rank(sweep))
    )
    return dataclasses.replace(body, stages=tuple(stages))


def by_rank(sweep: Sweep) -> list[Sweep]:
    """A sweep that folds ranks, and what is done once a row after it, if it folds extremes of
    floats of 16 bits; else as it is."""
    widened = widened_in(sweep.code)
    folds: list[Fold] = []
    numbers: list[Let] = []
    for fold in sweep.folds:
        source = unwidened(fold.value, widened)
        if not _is_ranked(fold, source):
            folds.append(fold)
            continue
        end = "largest" if fold.operation == "maximum" else "smallest"
        rank = Ref(f"{fold.name}_rank", DataType.Int16)
        value = Call(f"{end}_rank", (source,), rank.dtype)
        folds.append(Fold(rank.name, fold.operation, value, rank.dtype))
        number = Call(f"{source.dtype.spelling}_of_{end}_rank", (rank,), source.dtype)
        numbers.append(Let(fold.name, fold.dtype, convert(number, fold.dtype)))
    if not numbers:
        return [sweep]
    ranked = without_dead_code(dataclasses.replace(sweep, folds=tuple(folds)))
    return [ranked, Sweep((), tuple(numbers))]


def _is_ranked(fold: Fold, source: Expression) -> bool:
    """Whether a fold finds a row's extreme, and `source`, of which it does, is of 16 bits."""
    return is_extreme(fold.operation) and fold.slots is None and source.dtype in FLOATS_OF_16
