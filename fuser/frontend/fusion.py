"""`Fusion`: what a finished definition is kept in, and run by."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Never, NoReturn, Self
from weakref import WeakValueDictionary

import torch

from fuser import debug
from fuser.errors import (
    ArgumentError,
    ArgumentTypeError,
    DefinitionFailedError,
    DefinitionNotOpenError,
    DefinitionOpenError,
    EmptyDefinitionError,
    FuserError,
    NoOutputError,
    RedefinitionError,
    UnknownMemberError,
)
from fuser.frontend.calls import explained_calls
from fuser.frontend.close_names import close_names
from fuser.frontend.flattened import Inputs, flattened
from fuser.frontend.handles import Handle
from fuser.frontend.left_out import MEMBERS
from fuser.frontend.profiler import PROFILERS
from fuser.frontend.recorder import Recorder, State
from fuser.frontend.workbench import NO_INPUTS, Workbench, check_call
from fuser.ir import nodes
from fuser.ir.printer import print_fusion
from fuser.locks import forkable_rlock
from fuser.pipeline import Executor, Plan
from fuser.runtime.calls.call import Device
from fuser.runtime.calls.torch_steps import separated
from fuser.runtime.untraced import untraced_methods


@untraced_methods
@explained_calls(but=("execute", "execute_apart"))
class Fusion(Workbench):
    """Holds a finished definition and runs it. A FusionDefinition fills it.

    `Fusion(id)` runs what the Fusion of that number does, while something holds that one.
    """

    _ids = itertools.count()

    def __init__(self, fusion_id: int | None = None) -> None:
        super().__init__()
        self._recorder: Recorder | None = None
        self._executor: Executor | None = None
        self._later: Callable[[], None] | None = None
        self._defining = forkable_rlock()
        if fusion_id is None:
            self._id = next(self._ids)
            _FUSIONS[self._id] = self
        else:
            named = fusion_of_number(fusion_id, "Fusion")
            self._id = named._id
            self._executor = named._checked("Fusion")
            self._recorder = named._recorder

    @classmethod
    def of(cls, fusion: nodes.Fusion) -> Self:
        """One that is defined as a fusion that is finished."""
        slot, recorder = cls(), Recorder()
        slot.begin(recorder, "Fusion")
        recorder.copy(fusion)
        slot.finish(None)
        return slot

    def execute(
        self,
        inputs: Inputs = NO_INPUTS,
        *surplus: Never,
        target: str | None = None,
        device: Device = None,
        **options: object,
    ) -> list[torch.Tensor]:
        """The outputs for these inputs.

        `target` is "cpu", "cuda", "cuda:sm_90" or "emulator", by default what the inputs are on;
        `device` is where it runs without tensor inputs. `save_repro_inputs=True` keeps what
        `last_repro_script` needs, `print_repro=True` prints that script first. `profile=True` times
        the call for `profile()`, `capture_debug_output=True` keeps what FUSER_DUMP asks for, for
        `debug_output()`. nvFuser's other options are accepted and change nothing. Raises
        EmptyDefinitionError, NoOutputError, and the Input...Errors.
        """
        executor = self._executor
        if executor is None or options or surplus or PROFILERS or inputs is NO_INPUTS:
            check_call(inputs, surplus, options)
            return self._execute_with(options, inputs, target, device)
        return executor.execute(flattened(inputs), target=target, device=device)

    def execute_apart(
        self, inputs: nodes.Inputs, *, target: str | None = None, device: Device = None
    ) -> list[torch.Tensor]:
        """As `execute`, of tensors and numbers; no output is in memory of an input, or of another
        output."""
        executor = self._executor
        if executor is None or PROFILERS:
            return separated(self._execute_with({}, inputs, target, device), inputs)
        return executor.execute(inputs, target=target, device=device, apart=True)

    def plan(self, inputs: Inputs, *, target: str | None = None, device: Device = None) -> Plan:
        """What `execute` would run for these inputs, which may be meta tensors with a `target`."""
        executor = self._executor or self._checked("plan")
        return executor.plan(flattened(inputs), target=target, device=device)

    def defined(self) -> bool:
        """Whether a definition has filled it."""
        return self._executor is not None

    def id(self) -> int:
        """A number no other Fusion of the process has."""
        return self._id

    def print(self) -> None:
        """Print the definition as a Python function."""
        print(self, end="")

    def validate_definition(self) -> tuple[bool, str | None]:
        """Whether it can be executed, and if not, why."""
        try:
            self._checked("execute")
        except FuserError as error:
            return False, str(error)
        return True, None

    @property
    def ir(self) -> nodes.Fusion:
        """The inputs, statements and outputs written so far."""
        self._define_now()
        return nodes.Fusion() if self._recorder is None else self._recorder.fusion

    def __repr__(self) -> str:
        return print_fusion(self.ir)

    def __getattr__(self, name: str) -> NoReturn:
        """Raises UnknownMemberError, which is an AttributeError."""
        hint = f"; {MEMBERS[name]}" if name in MEMBERS else close_names(name, dir(self))
        raise UnknownMemberError(owner="Fusion", name=name, hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles and copies have the definition; what it runs is planned again, where it runs."""
        return type(self).of, (self.finished("pickle"),)

    def begin(self, recorder: Recorder, kind: str) -> None:
        """Start the only definition it can have. Raises DefinitionOpenError,
        RedefinitionError, and DefinitionFailedError."""
        if self._recorder is not None and self._recorder.state is State.OPEN:
            raise DefinitionOpenError(operation="with")
        if self._failure is not None:
            raise DefinitionFailedError(operation="with", error=self._failure)
        if self._recorder is not None:
            raise RedefinitionError(kind=kind)
        self._recorder = recorder
        recorder.state = State.OPEN

    def finish(self, error: BaseException | None) -> None:
        """The definition's block has ended, by `error` if there is one. Raises
        DefinitionNotOpenError."""
        if self._recorder is None:
            raise DefinitionNotOpenError(operation="__exit__")
        self._recorder.state = State.CLOSED
        if error is not None:
            self._failure = self._recorder.failure = f"{type(error).__name__}: {error}"
        else:
            debug.dump("python_definition", f"fusion {self._id}", self.__repr__)
            if self._recorder.fusion.outputs:
                self._executor = Executor(self._recorder.fusion)
        self._later = None

    def handles(self, values: Iterable[nodes.Value]) -> list[Handle]:
        """Values of the definition as their user holds them."""
        return [] if self._recorder is None else list(map(self._recorder.handle, values))

    def define_by(self, later: Callable[[], None]) -> None:
        """Call `later`, which defines it, when the definition is first needed."""
        if self._recorder is None:
            self._later = later

    def _define_now(self) -> None:
        if self._later is not None:
            with self._defining:  # other threads wait until it is finished
                if self._recorder is None:
                    self._later()

    def _checked(self, operation: str) -> Executor:
        """The executor. Raises the reason why there is none."""
        self._define_now()
        if self._executor is not None:
            return self._executor
        if self._failure is not None:
            raise DefinitionFailedError(operation=operation, error=self._failure)
        if self._recorder is not None and self._recorder.state is not State.CLOSED:
            raise DefinitionOpenError(operation=operation)
        if self.ir == nodes.Fusion():
            raise EmptyDefinitionError()
        raise NoOutputError()


_FUSIONS: WeakValueDictionary[int, Fusion] = WeakValueDictionary()
"""Those of the process that are alive, by their number."""


def fusion_of_number(given: object, operation: str) -> Fusion:
    """The Fusion of a number. Raises ArgumentError, ArgumentTypeError."""
    if not isinstance(given, int) or isinstance(given, bool):
        expected = "a Fusion, or what id() of one told"
        raise ArgumentTypeError(operation, "fusion", type(given).__name__, expected)
    found = _FUSIONS.get(given)
    if found is None:
        expected = "no Fusion of this number is alive; hold it, or its definition"
        raise ArgumentError(operation, "fusion", given, expected)
    return found
