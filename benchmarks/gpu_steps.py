"""What is measured of cases on the GPU: one step for all of them, then the next, until time is up.

    fuser and a copy       every case: checked against float64, then timed
    eager and Liger        every case, beside fuser again: ratios are of the same rounds
    torch.compile          every case, in its default mode, which compiles in a few seconds
    max-autotune           where this may decide whether a goal is met

What costs most for a figure comes last, so that a run that is cut off has a whole table of the
rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from case import Case, Peer
from checks import bound, check_ours, working
from harness import OURS, Call, Clock, Measured, alternate, wall_clock
from liger import HAS_LIGER
from report import COMPILED, COPY, EAGER, LIGER, Row, failed, gpu_goals, is_near_goal, ratios
from rotation import Rotation, writes_over
from torch_calls import compiled, forget_compiled

from fuser import FusionDefinition

AUTOTUNED = "max-autotune-no-cudagraphs"
PEER_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Place:
    """Where cases run: a GPU, or for a dry run the emulator."""

    device: str
    target: str | None

    @property
    def is_dry(self) -> bool:
        return self.device == "cpu"


GPU = Place("cuda", None)
DRY = Place("cpu", "emulator")


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a case so far. `fd` is its definition, whose kernels are compiled; `done`,
    the names of the steps it has been through."""

    case: Case
    fd: FusionDefinition | None = None
    error: float = 0.0
    host_seconds: float = 0.0
    measured: Mapping[str, Measured] = field(default_factory=dict[str, Measured])
    notes: Sequence[str] = ()
    failure: str = ""
    done: frozenset[str] = frozenset()

    @property
    def facts(self) -> dict[str, Any]:
        """What another process may go on from."""
        names = ("error", "host_seconds", "measured", "notes", "failure", "done")
        return {name: getattr(self, name) for name in names}

    def after_end_in(self, step: str, why: str) -> Found:
        """The same, where a process ended in a step: a failure, or of peers a note."""
        done = self.done | {step}
        if self.measured:
            notes = [*self.notes, f"{step} left out: {why}"]
            return dataclasses.replace(self, notes=notes, done=done)
        return dataclasses.replace(self, failure=why, done=done)

    @property
    def ratios(self) -> dict[str, float]:
        """Of the best way of each kind of peer."""
        return ratios(self.measured, (EAGER, COMPILED, LIGER))

    def row(self, place: Place) -> Row:
        """The row of the table."""
        if self.failure:
            return failed(self.case, self.failure)
        of_copy = self.measured[COPY].ratio
        return Row(
            case=self.case.name,
            dtype=self.case.dtype_name,
            moved=sum(self.case.least_bytes()),
            seconds=self.measured[OURS].seconds,
            of_copy=of_copy,
            ratios=self.ratios,
            host_seconds=self.host_seconds,
            error=self.error,
            goals=[] if place.is_dry else gpu_goals(self.case, self.ratios, of_copy),
            notes=self.notes,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What is measured of each case that is `wanted`; `guess` is how many seconds that takes."""

    name: str
    guess: float
    measure: Callable[[Found], Found]
    wanted: Callable[[Found], bool]


def carry_out(
    step: Step,
    found: dict[str, Found],
    order: Iterable[str],
    left: Callable[[], float],
    keep: Callable[[Found], None],
) -> list[str]:
    """Add to `found` what a step measures, while a case has as much time `left` as one took so far.

    Each is handed to `keep`. Gives the names of the cases that there was no time for.
    """
    taken: list[float] = []
    missing: list[str] = []
    for name in order:
        known = found[name]
        if step.name in known.done or not step.wanted(known):
            continue
        before = left()
        if before < (statistics.mean(taken) if taken else step.guess):
            missing.append(name)
            continue
        measured = step.measure(known)
        found[name] = dataclasses.replace(measured, done=known.done | {step.name})
        taken.append(before - left())
        keep(found[name])
    return missing


def steps(place: Place, rounds: int) -> list[Step]:
    """The steps in order."""
    has_figures: Callable[[Found], bool] = lambda found: bool(found.fd or found.measured)  # noqa: E731
    peer_rounds = min(rounds, PEER_ROUNDS)

    def peers_of(ways: Callable[[Case], dict[str, Peer]]) -> Callable[[Found], Found]:
        return lambda found: measure_peers(found, ways(found.case), place, peer_rounds)

    own = Step(
        "fuser and a copy",
        1.5,
        lambda found: measure_own(found, place, rounds),
        lambda found: not found.measured and not found.failure,
    )
    called = Step("eager and Liger", 1, peers_of(lambda case: eager(case, place)), has_figures)
    if place.is_dry:
        return [own, called]
    return [
        own,
        called,
        Step("torch.compile", 5, peers_of(lambda case: inductor(case, "default")), has_figures),
        Step(
            f"torch.compile, {AUTOTUNED}",
            15,
            peers_of(lambda case: inductor(case, AUTOTUNED)),
            lambda found: has_figures(found) and is_near_goal(found.case, found.ratios),
        ),
    ]


def eager(case: Case, place: Place) -> dict[str, Peer]:
    """The ways eager torch offers, and Liger's."""
    made: dict[str, Peer] = {f"{EAGER}: {name}": way for name, way in case.kind.eager.items()}
    if case.kind.liger is not None and HAS_LIGER and not place.is_dry:
        made[LIGER] = case.kind.liger
    return made


def inductor(case: Case, mode: str) -> dict[str, Peer]:
    """torch.compile in one of its modes."""
    return {f"{COMPILED}: {mode}": compiled(case.kind.written, mode)}


def measure_own(found: Found, place: Place, rounds: int) -> Found:
    """fuser's results checked, its time and a copy's."""
    try:
        return _own(found, place, rounds)
    except Exception as reason:  # whatever it is, the other cases are measured
        return dataclasses.replace(found, failure=_brief(reason))
    finally:
        _give_back(place)


def _own(found: Found, place: Place, rounds: int) -> Found:
    case = found.case
    inputs = case.inputs()
    fd = case.definition()
    made = fd.execute(inputs, target=place.target)
    error = check_ours(case, made, case.exact(inputs))
    del made
    rotation = Rotation(case, inputs)
    ours = rotation.call(OURS, _ours(fd, place))
    clock: Clock = wall_clock if place.is_dry else rotation.seconds
    measured = alternate({OURS: ours, COPY: rotation.moving()}, rounds, clock=clock)
    return dataclasses.replace(
        found, fd=fd, error=error, measured=measured, host_seconds=rotation.host_seconds(ours)
    )


def measure_peers(found: Found, ways: Mapping[str, Peer], place: Place, rounds: int) -> Found:
    """The ratios of peers to fuser; what fails is a note."""
    try:
        measured, notes = _peers(found, ways, place, rounds)
    except Exception as reason:  # no memory for them, say
        measured, notes = {}, [f"{', '.join(ways)} left out: {_brief(reason)}"]
    finally:
        _give_back(place)
    return dataclasses.replace(
        found, measured={**found.measured, **measured}, notes=[*found.notes, *notes]
    )


def _peers(
    found: Found, ways: Mapping[str, Peer], place: Place, rounds: int
) -> tuple[dict[str, Measured], list[str]]:
    case = found.case
    fd = found.fd or case.definition()
    forget_compiled()
    inputs = case.inputs()
    calls: dict[str, Call] = {}
    for name, peer in ways.items():
        given = [t.clone() for t in inputs] if writes_over(case, name) else inputs
        calls[name] = bound(peer, given)
    kept, _, notes = working(calls, case.exact(inputs), drawn=case.kind.drawn)
    del calls
    if not kept:
        return {}, notes
    rotation = Rotation(case, inputs)
    candidates = {OURS: rotation.call(OURS, _ours(fd, place))}
    candidates |= {name: rotation.call(name, ways[name]) for name in kept}
    clock: Clock = wall_clock if place.is_dry else rotation.seconds
    measured = alternate(candidates, rounds, clock=clock)
    del measured[OURS]
    return measured, notes


def _ours(fd: FusionDefinition, place: Place) -> Peer:
    return lambda *given: fd.execute(given, target=place.target)


def _brief(reason: Exception) -> str:
    return f"{type(reason).__name__}: {reason}".partition("\n")[0]


def _give_back(place: Place) -> None:
    """What one case has left to torch's allocator is too much beside another's."""
    if not place.is_dry:
        with contextlib.suppress(RuntimeError):  # that of the case's own kernels comes once more
            torch.cuda.empty_cache()
