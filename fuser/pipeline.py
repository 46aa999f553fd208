"""Running a definition: a plan for each kind of inputs, its kernels loaded, and what is kept."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fuser import debug
from fuser.errors import ArgumentError, CompilationError, FuserError, TargetError, VerifyError
from fuser.ir.binding import check_inputs, check_updates
from fuser.ir.concretize import concretize_for, size_inputs
from fuser.ir.nodes import Fusion, Inputs, Number, Scatter
from fuser.kept_plans import kept_plan
from fuser.planning import Compiled, compile_plan
from fuser.runtime.at_once import each_at_once
from fuser.runtime.calls.call import (
    Device,
    check_memory,
    device_of,
    is_traced,
    key_of,
    plan_key_of,
    refuse_tracing,
)
from fuser.runtime.calls.executor import LoadedKernel, Runner
from fuser.runtime.calls.oracle import oracle_runner
from fuser.runtime.calls.overlaps import are_apart, overlapping
from fuser.runtime.calls.placed import Run, apart, are_elsewhere, copied, current, moved, placed
from fuser.runtime.calls.torch_shortcuts import Recognizes, never, recognizer
from fuser.runtime.cpu.toolchain import find_compiler, warn_without_compiler, why_none
from fuser.runtime.cuda.driver import refuse_capture
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.plans.plan import Plan
from fuser.runtime.plans.profile import Profile
from fuser.runtime.plans.timed_runs import profile, profile_call
from fuser.runtime.plans.watching import PLANS
from fuser.runtime.target_name import TargetName, check_is_name, check_runs_on, resolve_target

KEPT_PLANS = 4096
"""Plans one definition keeps; the oldest goes first. Their kernels stay compiled."""

KEPT_ON_DISK = 16
"""Plans of one definition that a process keeps on disk: of a definition that is called with ever
other sizes, more would take the place of others' kernels."""

__all__ = ["Executor", "Plan"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What runs a call, also with outputs `apart`, and its plan, of which there is none without a
    compiler. `recognizes` says of the inputs of another call whether they need the same."""

    run: Run
    apart: Run
    plan: Plan | None
    recognizes: Recognizes


class Executor:
    """Runs one definition. Plans are made once per sizes, strides, dtypes and alignments; who needs
    what is being made by another thread waits for it."""

    def __init__(self, fusion: Fusion) -> None:
        debug.check()
        self._fusion = fusion
        self._sized_by = [fusion.inputs.index(value) for value in size_inputs(fusion)]
        self._scatters = any(isinstance(s.op, Scatter) for s in fusion.statements)
        self._updated = fusion.updated
        self._prepared: CompileCache[Prepared] = CompileCache(KEPT_PLANS)
        self._compiled: CompileCache[Compiled] = CompileCache(KEPT_PLANS)
        self._runners: CompileCache[Runner] = CompileCache(KEPT_PLANS)
        self._planned = itertools.count()
        self._last: Plan | None = None
        self._recent: Prepared | None = None

    def execute(
        self,
        inputs: Inputs,
        *,
        target: str | None = None,
        device: Device = None,
        apart: bool = False,
    ) -> list[torch.Tensor]:
        """The outputs for these inputs; nothing is launched if an input is refused. If they are to
        be `apart`, none is in memory of an input, or of another output."""
        if is_traced():
            refuse_tracing()
        prepared, by_default = self._recent, target is None and device is None
        if prepared is None or not (by_default and prepared.recognizes(inputs)):
            check_is_name(target)
            place = None if device is None else device_of(inputs, device)
            key = (target, place, *self._key(inputs))
            prepared = self._prepared.find(key)
            if prepared is None:
                prepared = self._prepared.get(key, lambda: self._prepare(inputs, target, place))
            self._recent = prepared if by_default else None
        self._last = prepared.plan
        return prepared.apart(inputs) if apart else prepared.run(inputs)

    def settled(
        self, inputs: Inputs, *, target: str | None = None, device: Device = None
    ) -> Run | None:
        """What runs any tensors of the sizes, strides and dtypes of these, aligned for any kernel,
        of which those that are updated overlap no other, with outputs that are apart. None where
        nothing has run these, or where a call depends on a setting of torch's."""
        if self._scatters:
            return None
        place = None if device is None else device_of(inputs, device)
        prepared = self._prepared.find((target, place, *self._key(inputs)))
        return prepared.apart if prepared is not None and prepared.recognizes(inputs) else None

    def plan(self, inputs: Inputs, *, target: str | None = None, device: Device = None) -> Plan:
        """What `execute` would run. With a named architecture, inputs may be on any device."""
        check_inputs(self._fusion, inputs)
        named = resolve_target(target, device_of(inputs, device))
        with _repro_note():
            return self._compile(inputs, named).plan

    def last_plan(self) -> Plan | None:
        """What the last call ran; None if there was none, or no compiler for it."""
        return self._last

    def is_ready(self, inputs: Inputs, *, target: str | None = None, device: Device = None) -> bool:
        """Whether `execute` would plan and compile nothing."""
        check_inputs(self._fusion, inputs)
        check_is_name(target)
        place = None if device is None else device_of(inputs, device)
        return self._prepared.find((target, place, *self._key(inputs))) is not None

    def _key(
        self, inputs: Inputs, of: Callable[[torch.Tensor | Number], object] = key_of
    ) -> tuple[object, ...]:
        """Everything about inputs that what runs them depends on, or what else it is `of` each."""
        try:
            sizes = tuple(inputs[at] for at in self._sized_by)
            hash(sizes)  # an array has none
            meeting = overlapping(inputs, self._updated) if self._updated else ()
            ordered = self._scatters and torch.are_deterministic_algorithms_enabled()
            return (*map(of, inputs), *sizes, meeting, ordered)
        except (RuntimeError, IndexError, TypeError):  # no strides, too few, no hash: say which
            check_inputs(self._fusion, inputs)
            check_memory(self._fusion, inputs)
            raise

    def _compile(self, inputs: Inputs, target: TargetName) -> Compiled:
        """The plan for these inputs, which serves others that lie alike on any device."""
        key = (target, *self._key(inputs, plan_key_of))

        def make() -> Compiled:
            return compile_plan(self._fusion, inputs, target)

        def find() -> Compiled:
            is_kept = next(self._planned) < KEPT_ON_DISK
            return kept_plan(self._fusion, key, make) if is_kept else make()

        return self._compiled.get(key, find)

    def profile(
        self,
        inputs: Inputs,
        *,
        target: str | None = None,
        device: Device = None,
        runs: int = 10,
        cold: bool = False,
    ) -> Profile:
        """The time of every step, the median of `runs`; what they update are copies of inputs.

        Raises ArgumentError, and TargetError where there is no compiler.
        """
        if runs < 1:
            raise ArgumentError("profile", "runs", runs, "1 or more")
        plan, runner, place = self._timed(inputs, target, device)
        with current(place):
            kept = [copied(t) if n in self._updated else t for n, t in enumerate(inputs)]
            given = moved(kept, place)
            return profile(runner, plan, given, place, runs=runs, cold=cold)

    def profile_call(
        self, inputs: Inputs, *, target: str | None = None, device: Device = None
    ) -> tuple[list[torch.Tensor], Profile]:
        """What `execute` returns and does, and the time of every step of that one run."""
        plan, runner, place = self._timed(inputs, target, device)
        self._last = plan
        taken: list[Profile] = []

        def run(given: Inputs) -> list[torch.Tensor]:
            outputs, timed = profile_call(runner, plan, given, place)
            taken.append(timed)
            return outputs

        outputs = placed(self._fusion, run, inputs, place)(inputs)
        return outputs, taken[0]

    def has_kernels(
        self, inputs: Inputs, *, target: str | None = None, device: Device = None
    ) -> bool:
        """Whether `execute` runs kernels, and not the whole definition in torch."""
        return _has_kernels(self._placed(inputs, target, device)[0])

    def _timed(
        self, inputs: Inputs, target: str | None, device: Device
    ) -> tuple[Plan, Runner, torch.device]:
        """What is timed, and where it runs."""
        named, place = self._placed(inputs, target, device)
        if not _has_kernels(named):
            reason = f"there are no kernels to be timed without a C++ compiler, and {why_none()}"
            raise TargetError(target=str(named), reason=reason)
        with _repro_note():
            return self._compile(inputs, named).plan, self._runner(inputs, named, place), place

    def _placed(
        self, inputs: Inputs, target: str | None, device: Device
    ) -> tuple[TargetName, torch.device]:
        """The target and the device of a call, whose inputs fit."""
        check_inputs(self._fusion, inputs)
        check_memory(self._fusion, inputs)
        place = device_of(inputs, device)
        named = resolve_target(target, place)
        check_runs_on(named, place)
        return named, place

    def _prepare(self, inputs: Inputs, target: str | None, device: Device) -> Prepared:
        """What runs the inputs, and its plan."""
        named, place = self._placed(inputs, target, device)
        if not _has_kernels(named):
            warn_without_compiler()
            static = concretize_for(self._fusion, inputs)
            check_updates(static, inputs)
            run = oracle_runner(static, inputs, place)
            return Prepared(run, apart(run), None, never)
        if place.type == "cuda":
            refuse_capture("a first call with such inputs loads kernels; make one before")
        with _repro_note():
            runner = self._runner(inputs, named, place)
            plan = self._compile(inputs, named).plan
        recognizes = self._recognizer(inputs)
        run = placed(self._fusion, runner.run, inputs, place)
        if are_elsewhere(inputs, place):  # what is handed on is what was given, not what was moved
            return Prepared(run, apart(run), plan, recognizes)
        runs_apart = placed(self._fusion, runner.run_apart, inputs, place)
        return Prepared(run, runs_apart, plan, recognizes)

    def _recognizer(self, inputs: Inputs) -> Recognizes:
        """What tells calls that need what this one does. Of inputs that are updated, it depends on
        which of them overlap, too; of scatters, on whether the same sums are wanted each time."""
        if self._updated and overlapping(inputs, self._updated):
            return never
        recognizes = recognizer(inputs, are_apart(inputs, self._updated) if self._updated else None)
        if not self._scatters:
            return recognizes
        ordered = torch.are_deterministic_algorithms_enabled
        was = ordered()
        return lambda given: ordered() is was and recognizes(given)

    def _runner(self, inputs: Inputs, target: TargetName, place: torch.device) -> Runner:
        """Runs the plan for these inputs, its kernels compiled and loaded."""

        def make() -> Runner:
            compiled = self._compile(inputs, target)
            runner = Runner(compiled.segmented, _load(compiled, place), place)
            PLANS.tell(self._fusion, compiled.plan)
            return runner

        return self._runners.get((target, place, *self._key(inputs)), make)


def _load(compiled: Compiled, place: torch.device) -> dict[str, LoadedKernel]:
    """The kernels by the name of their segment, several compiled at a time."""

    def load(name: str) -> LoadedKernel:
        begin = time.perf_counter()
        loaded = compiled.backend.load(name, place)
        return dataclasses.replace(loaded, load_seconds=time.perf_counter() - begin)

    segments = compiled.segmented.segments
    generated = compiled.backend.sources
    names = [s.name for s in segments if s.name in generated and not s.is_empty]
    return dict(zip(names, each_at_once(load, names), strict=True))


def _has_kernels(target: TargetName) -> bool:
    return target.kind != "cpu" or find_compiler() is not None


@contextmanager
def _repro_note() -> Generator[None]:
    """Errors of the compiler itself get a note that tells how to repeat them.

    Those are what is no FuserError, and FuserErrors about generated code.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, FuserError) or isinstance(error, CompilationError | VerifyError):
            error.add_note(
                "This is a failure of fuser, not of the definition. repro_script_for(inputs) gives "
                "a script that repeats it."
            )
        raise
