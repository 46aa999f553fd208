"""What a row reads more than once is loaded once, and kept for its sweeps.

    sweep  load T0; ... T1 = fold              sweep  load T0; keep T0
    sweep  load T0; ... T4 = fold        ->    sweep  kept T0; ... T1 = fold
    sweep  load T0; ... store T5               sweep  kept T0; ... T4 = fold
                                               sweep  kept T0; ... store T5

Every sweep gives its points to the same threads, so that a thread reads back what it kept itself.
So is a costly value, such as a softmax's exponential, where there are registers for it too.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence

from fuser.schedule.code.row_body import Code, Fold, RowBody, Sweep, names_in, nodes_read
from fuser.schedule.indices.index import Axes, Axis
from fuser.schedule.rows.buffers import keep_in_row
from fuser.schedule.rows.vectors import consecutive_loads
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import Load

VALUE_BYTES = 4
"""Of a point, for values: one of float32."""


def loads_to_keep(
    sweeps: Sequence[Sweep],
    rows: Collection[Axis],
    lanes: int,
    *,
    least: int = 2,
    apart: bool = False,
) -> list[Load]:
    """The loads that at least so many of these sweeps over the same axes make.

    What is the same for all rows, or along one of the axes, is not among them: caches have it. With
    several lanes, only consecutive elements are, unless those that lie `apart` may be, too.
    """
    counts: Counter[Load] = Counter()
    for sweep in sweeps:
        axes, made = sweep.axes, {node.name for node in sweep.code}
        loads = sweep.loads if lanes == 1 or apart else consecutive_loads(sweep.code, axes[-1])
        known = [load for load in loads if made.isdisjoint(names_in((load,)))]
        counts.update(n for n in dict.fromkeys(known) if all(map(n.at.coefficient, axes)))
    followed = [load for load, count in counts.items() if count >= least]
    return [n for n in followed if not rows or any(map(n.at.coefficient, rows))]


def keep_loads(stages: Sequence[Sweep], axes: Axes, loads: Collection[Load]) -> list[Sweep]:
    """The stages with these loads of sweeps over `axes` made first, and then those that a row makes
    once, if they wait for none of its folds: all of them are under way at once, and not one after
    the other."""
    if not loads:
        return list(stages)

    kept: dict[Load, Kept] = {load: Kept(load.name, load.dtype, axes) for load in loads}

    def read(sweep: Sweep) -> Sweep:
        code = (kept.get(n, n) if isinstance(n, Load) else n for n in sweep.code)
        return dataclasses.replace(sweep, code=tuple(code))

    def needs(sweep: Sweep) -> bool:
        return sweep.axes == axes and not kept.keys().isdisjoint(sweep.code)

    fill: list[Load | Keep] = []
    for load in loads:
        fill += (load, Keep(load.name, load.dtype, axes))
    sweeps = [read(sweep) if needs(sweep) else sweep for sweep in stages]
    places = frozenset(names_in(loads))
    once = _loaded_once(sweeps, places)
    before = nodes_read(once, set(places), reporting=False)
    after = tuple(node for node in once if node not in before)
    filled = [
        Sweep((), before),
        Sweep(axes, tuple(fill)),
        Sweep((), after),
    ]
    rest = (_without(sweep, once) for sweep in sweeps)
    return [sweep for sweep in (*filled, *rest) if sweep.code or sweep.folds or sweep.stores]


def _loaded_once(stages: Sequence[Sweep], places: Collection[str]) -> tuple[Code, ...]:
    """What a row loads once that does not wait for its folds, and what these loads need; and the
    `places` of others, which may be known to be in range and so be computed from what it loads."""
    waiting: set[str] = set()
    known: list[Code] = []
    for sweep in stages:
        for node in (*sweep.code, *sweep.folds):
            if sweep.axes or isinstance(node, Fold) or not waiting.isdisjoint(names_in((node,))):
                waiting.add(node.name)
            else:
                known.append(node)
    return nodes_read(known, {node.name for node in known if isinstance(node, Load)} | {*places})


def _without(sweep: Sweep, made: Collection[Code]) -> Sweep:
    """A sweep; of what is done once a row, what is left beside `made`."""
    if sweep.axes:
        return sweep
    return dataclasses.replace(sweep, code=tuple(node for node in sweep.code if node not in made))


def keep_values(
    body: RowBody, stages: Sequence[Sweep], axes: Axes
) -> tuple[list[Sweep], list[Keep]]:
    """The stages with costly values of the sweeps over `axes` kept, and what keeps them."""
    made = list(stages)
    along = [number for number, sweep in enumerate(stages) if sweep.axes == axes]
    alone = dataclasses.replace(body, stages=tuple(stages[number] for number in along))
    loads = {node for node in alone.code if isinstance(node, Keep)}
    kept = keep_in_row(alone, point_count(axes) * VALUE_BYTES).stages
    for number, sweep in zip(along, kept, strict=True):
        made[number] = sweep
    values = [n for s in made for n in s.code if isinstance(n, Keep) and n not in loads]
    return made, values
