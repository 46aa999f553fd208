"""Working with a finished definition: repeat it as a script, check its results, time its steps."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from fuser import debug
from fuser.errors import CallError, NothingSavedError
from fuser.frontend.arguments import boolean, integer, sequence
from fuser.frontend.calls import explained_calls
from fuser.frontend.flattened import Inputs, flattened, listed
from fuser.frontend.profiler import PROFILERS
from fuser.frontend.repro import Form, forms_of, repro_script
from fuser.frontend.validating import (
    all_results,
    before_updates,
    drawing_alike,
    with_updates_shown,
    without_updates,
)
from fuser.ir import nodes
from fuser.ir.comparison import check_results
from fuser.pipeline import Executor, Plan
from fuser.runtime.calls.call import Device
from fuser.runtime.calls.placed import Run
from fuser.runtime.cpu.toolchain import find_compiler, why_none
from fuser.runtime.plans.profile import Profile


@dataclasses.dataclass(frozen=True, slots=True)
class Saved:
    """What `execute(..., save_repro_inputs=True)` was called with; no tensor is kept."""

    forms: Sequence[Form]
    target: str | None
    device: Device


_IGNORED_OPTIONS = frozenset(
    {"_disable_options", "_enable_options", "auto_schedule", "override_user_schedule"}
)
_OPTIONS = ("capture_debug_output", "print_repro", "profile", "save_repro_inputs")
_KNOWN = _IGNORED_OPTIONS.union(_OPTIONS)
_SWITCHES = ", ".join(f"{option}=False" for option in _OPTIONS)
_SIGNATURES = {
    "execute": f"(inputs, *, target=None, device=None, {_SWITCHES})",
    "validate": f"(inputs, reference_outputs=None, device=None, *, target=None, {_SWITCHES})",
}
"""How methods that take options of an execution are called, as their errors show it."""
NO_INPUTS: Any = object()
"""What it is given where it is given nothing."""


@explained_calls()
class Workbench(ABC):
    """`repro_script_for`, `last_repro_script`, `validate` and `profile` of what can be executed."""

    def __init__(self) -> None:
        self._failure: str | None = None
        self._saved: Saved | None = None
        self._profile: Profile | None = None
        self._printed: str | None = None

    @property
    @abstractmethod
    def ir(self) -> nodes.Fusion:
        """The inputs, statements and outputs written so far."""

    @abstractmethod
    def id(self) -> int:
        """A number no other of the process has."""

    @abstractmethod
    def execute(
        self,
        inputs: Inputs = NO_INPUTS,
        *,
        target: str | None = None,
        device: Device = None,
        **options: object,
    ) -> list[torch.Tensor]:
        """The outputs for these inputs."""

    @abstractmethod
    def _checked(self, operation: str) -> Executor:
        """The executor. Raises the reason why there is none."""

    def repro_script_for(
        self,
        inputs: Inputs | None = None,
        *,
        target: str | None = None,
        device: Device = None,
        numbers: bool = False,
    ) -> str:
        """A script that repeats `execute(inputs, ...)`: versions, the definition, the inputs.

        The inputs have the sizes, strides, dtype, device and alignment of the ones given, and lie
        in each other as those do; scalars are the same. Tensors have random numbers, or with
        `numbers` their own, which is for small ones. Without `inputs`, the script defines only.
        """
        kept = boolean("repro_script_for", "numbers", numbers)
        forms = None if inputs is None else forms_of(listed(inputs), numbers=kept)
        return repro_script(self.ir, forms, target=target, device=device, failure=self._failure)

    def last_repro_script(self) -> str:
        """The script of the last `execute(..., save_repro_inputs=True)`, failed or not.

        Raises NothingSavedError if there was none.
        """
        if self._saved is None:
            raise NothingSavedError(
                operation="last_repro_script",
                missing="no inputs were saved",
                remedy="call execute(inputs, save_repro_inputs=True) first, or "
                "repro_script_for(inputs)",
            )
        saved = self._saved
        return repro_script(self.ir, saved.forms, target=saved.target, device=saved.device)

    def validate(
        self,
        inputs: Inputs,
        reference_outputs: Sequence[torch.Tensor] | None = None,
        device: Device = None,
        *,
        target: str | None = None,
        **options: object,
    ) -> list[torch.Tensor]:
        """The outputs of `execute`, after they were compared with references.

        Those are `reference_outputs`, one for each output that is returned, or else what torch
        computes, one operation at a time; then inputs that are updated in place are compared too.
        Two results may differ by what roundings of the coarsest type on the way, and as many as
        there are on the way, make of them; integers must be equal. Both have the same random
        numbers; those of `sdpfa_fwd` if no other thread draws meanwhile. Raises
        OutputDifferenceError, ReferenceOutputError, ReferenceRefusedError, and what `execute`
        raises.
        """
        check_call(inputs, (), options, operation="validate")
        if reference_outputs is not None:
            sequence("validate", "reference_outputs", reference_outputs)
        fusion = with_updates_shown(self.finished("validate"))
        flat = flattened(inputs)
        before = before_updates(fusion, flat)
        with drawing_alike(fusion, flat) as alike:
            outputs = self.execute(inputs, target=target, device=device, **options)
            fusion = alike(fusion)
            if reference_outputs is not None:
                check_results(fusion, before, outputs, reference_outputs)
            else:
                check_results(without_updates(fusion), before, all_results(fusion, flat, outputs))
        return outputs

    def profile(
        self,
        inputs: Inputs | None = None,
        *,
        target: str | None = None,
        device: Device = None,
        runs: int = 10,
        cold: bool = False,
    ) -> Profile:
        """The time of every step, beside that of copying the bytes it moves; print it to read it.

        Times are medians of `runs` executions, after one that is not counted; with `cold`, a large
        buffer is written before each, so that inputs come from memory and not from a cache. Inputs
        updated in place are updated every time. Without `inputs`, it is the profile of the last
        `execute(..., profile=True)`, of that one run. Raises what `execute` raises, ArgumentError,
        NothingSavedError, and TargetError where there is no compiler.
        """
        if inputs is None:
            return self._last_profile()
        executor = self._checked("profile")
        profile = executor.profile(
            flattened(inputs),
            target=target,
            device=device,
            runs=integer("profile", "runs", runs),
            cold=boolean("profile", "cold", cold),
        )
        return self._numbered(profile)

    def finished(self, operation: str) -> nodes.Fusion:
        """The definition, once it is complete. Raises the reason why it cannot be executed."""
        self._checked(operation)
        return self.ir

    def last_plan(self, operation: str = "last_plan") -> Plan:
        """What the last `execute` ran. Raises NothingSavedError if nothing was planned for it.

        `operation` is what asks for it, for errors.
        """
        plan = self._checked(operation).last_plan()
        if plan is None:
            why, first = "", "call execute(inputs) first, or plan(inputs)"
            if find_compiler() is None:
                why = f" ({why_none()}, so what CPU tensors need runs unfused in torch)"
                first = "plan(inputs) tells what kernels there would be"
            missing = f"nothing was planned and executed{why}"
            raise NothingSavedError(operation=operation, missing=missing, remedy=first)
        return plan

    def is_compiled(
        self, inputs: Inputs, *, target: str | None = None, device: Device = None
    ) -> bool:
        """Whether `execute` would plan and compile nothing for these inputs."""
        executor = self._checked("is_compiled")
        return executor.is_ready(flattened(inputs), target=target, device=device)

    def settled(
        self, inputs: nodes.Inputs, *, target: str | None = None, device: Device = None
    ) -> Run | None:
        """What runs, as `execute_apart`, any tensors that lie as these, without looking at them;
        those that are updated must overlap no other.

        None where nothing has run these yet, or a call depends on more than how inputs lie.
        """
        return self._checked("settled").settled(inputs, target=target, device=device)

    def debug_output(self) -> str | None:
        """The dumps of the last `execute(..., capture_debug_output=True)`, which are not printed.

        What other threads dump meanwhile is not there. None if there was no such call.
        """
        return self._printed

    def _last_profile(self) -> Profile:
        if self._profile is None:
            raise NothingSavedError(
                operation="profile",
                missing="no execution was timed",
                remedy="call execute(inputs, profile=True) first, or profile(inputs)",
            )
        return self._profile

    def _execute_with(
        self, options: dict[str, object], inputs: Inputs, target: str | None, device: Device
    ) -> list[torch.Tensor]:
        """`execute` with what is asked for beside the outputs."""
        executor = self._checked("execute")
        if options.get("save_repro_inputs"):
            self._saved = Saved(forms_of(listed(inputs)), target, device)
        if options.get("print_repro"):
            print(self.repro_script_for(inputs, target=target, device=device), end="")
        given = flattened(inputs)
        with self._capturing() if options.get("capture_debug_output") else nullcontext():
            is_timed = options.get("profile") or (
                PROFILERS and executor.has_kernels(given, target=target, device=device)
            )
            if not is_timed:
                return executor.execute(given, target=target, device=device)
            outputs, profile = executor.profile_call(given, target=target, device=device)
        self._profile = self._numbered(profile)
        for profiler in tuple(PROFILERS):
            profiler.take(self._profile)
        return outputs

    @contextmanager
    def _capturing(self) -> Generator[None]:
        """Dumps in the block are kept for `debug_output`, though it fails."""
        with debug.captured() as printed:
            try:
                yield
            finally:
                self._printed = printed.getvalue()

    def _numbered(self, profile: Profile) -> Profile:
        """A profile that says whose it is."""
        return dataclasses.replace(profile, fusion_id=self.id())


def check_call(
    inputs: Inputs, surplus: Sequence[object], options: Iterable[str], operation: str = "execute"
) -> None:
    """Raises CallError for what `execute` does not take, or is not given, to `operation`."""
    reasons = [f"got an unexpected keyword argument {o!r}" for o in options if o not in _KNOWN]
    if surplus:
        reasons.append("takes its inputs in one list, and all else by name")
    if inputs is NO_INPUTS:
        reasons.append("missing a required argument: 'inputs'")
    if reasons:
        raise CallError(operation=operation, reason=reasons[0], signature=_SIGNATURES[operation])
