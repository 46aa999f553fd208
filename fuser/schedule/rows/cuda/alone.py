"""What one thread of a block does for a row: what none of the others needs.

    T2 = labels[i0]                                      the first thread
    for each x: keep x
    T5 = x[i0, T2]                                       the first thread
    for each x: fold T3 = the largest; fold T4 = sum of exp(x - T3)
    T6 = log(T4) - (T5 - T3); fold T6 over the rows      the first thread

Other warps go on to their next row meanwhile. What a row has one of, such as its label, is asked
for before the row itself. Of what all threads read, compilers wait for it before they ask for the
rest of the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fuser.schedule.code.row_body import Code, Fold, Sweep, contents, names_in
from fuser.schedule.tree.expressions import Ref
from fuser.schedule.tree.statements import Let, Load


@dataclass(frozen=True, slots=True)
class Divided:
    """A stage that is done once a row: what `everyone` does of it, and what one thread does
    `alone`. That `reads` names of such parts of earlier stages, and makes some for `later` ones."""

    everyone: Sweep
    alone: Sweep
    reads: tuple[Ref, ...] = ()
    later: tuple[Ref, ...] = ()


def divided_stages(stages: Sequence[Sweep]) -> list[Sweep | Divided]:
    """The stages, those that are done once a row divided where one thread does something alone;
    before them, what that thread loads for them wherever the row is."""
    needed = _needed_by_all(stages)
    parts = _loading_first(_divided_points(stages, needed))
    made: dict[str, tuple[int, Ref]] = {}
    for number, part in enumerate(parts):
        if not isinstance(part, Divided):
            continue
        code = [node for node in part.alone.code if isinstance(node, Load | Let)]
        own = {node.name for node in part.alone.code}
        names = dict.fromkeys(names_in(contents((part.alone,))))
        found = [made[name] for name in names if name in made and name not in own]
        for maker, ref in found:
            before = parts[maker]
            assert isinstance(before, Divided)
            parts[maker] = replace(before, later=tuple(dict.fromkeys((*before.later, ref))))
        parts[number] = replace(part, reads=tuple(ref for _, ref in found))
        made |= {node.name: (number, Ref(node.name, node.dtype)) for node in code}
    return parts


def _loading_first(parts: list[Sweep | Divided]) -> list[Sweep | Divided]:
    """Parts with what one thread loads after the first sweep loaded before it instead, if nothing
    but the row says where that is."""
    sweeps = (number for number, part in enumerate(parts) if isinstance(part, Sweep) and part.axes)
    first = next(sweeps, len(parts))
    before, after = parts[:first], parts[first:]
    later = [part.alone for part in after if isinstance(part, Divided)]
    loads = [n for alone in later for n in alone.code if isinstance(n, Load) and n.at.is_of_axes]
    loads = list(dict.fromkeys(load for load in loads if load.drawn is None))
    if not loads:
        return parts
    alone = Sweep((), tuple(loads))
    rest = (part if isinstance(part, Sweep) else _without(part, loads) for part in after)
    return [*before, Divided(Sweep((), ()), alone), *rest]


def _without(part: Divided, loads: Sequence[Load]) -> Sweep | Divided:
    alone = replace(part.alone, code=tuple(n for n in part.alone.code if n not in loads))
    done = alone.code or alone.folds or alone.stores
    return replace(part, alone=alone) if done else part.everyone


def _needed_by_all(stages: Sequence[Sweep]) -> set[str]:
    """Names that sweeps read, with all that makes them; and what one stage makes and a later one
    reads that is neither loaded nor computed, but folded or checked."""
    points = [stage for stage in stages if not stage.axes]
    needed = set(names_in(contents(stage for stage in stages if stage.axes)))
    for number, stage in enumerate(points):
        others = set(names_in(contents(points[number + 1 :])))
        handed = (node.name for node in _named(stage) if not isinstance(node, Load | Let))
        needed.update(others.intersection(handed))
    for stage in reversed(points):
        for node in reversed(list(_named(stage))):
            if node.name in needed:
                needed.update(names_in((node,)))
    return needed


def _named(stage: Sweep) -> Iterator[Code | Fold]:
    """What makes a name that later stages may read, in order."""
    yield from stage.code
    yield from (fold for fold in stage.folds if fold.slots is None)


def _divided_points(stages: Sequence[Sweep], needed: set[str]) -> list[Sweep | Divided]:
    """The stages, those that are done once a row in two."""
    parts: list[Sweep | Divided] = []
    before: set[str] = set()
    for stage in stages:
        part = stage if stage.axes else _divided(stage, needed, before)
        parts.append(part)
        if isinstance(part, Divided):
            before.update(node.name for node in part.alone.code)
    return parts


def _divided(stage: Sweep, needed: set[str], before: set[str]) -> Sweep | Divided:
    """A stage in two; as it is, where what it folds or stores, which one thread does anyway, needs
    nothing that this one makes alone, here or `before`."""
    alone = tuple(node for node in stage.code if node.name not in needed)
    folds = tuple(fold for fold in stage.folds if fold.slots is None and fold.name in needed)
    others = tuple(fold for fold in stage.folds if fold not in folds)
    if not alone and before.isdisjoint(names_in((*others, *stage.stores))):
        return stage
    code = tuple(node for node in stage.code if node.name in needed)
    everyone = replace(stage, code=code, folds=folds, stores=())
    return Divided(everyone, replace(stage, code=alone, folds=others))
