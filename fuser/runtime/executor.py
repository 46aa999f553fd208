"""Running a plan: allocate, launch, hand out. Everything that can be decided before is decided."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import torch

from fuser.codegen import KernelSource, Pointer, Scalar, Size, Workspace
from fuser.errors import ExternError, FuserError
from fuser.ir.interpret import interpret
from fuser.ir.nodes import GeneratorState, Number, Output, Statement, Value
from fuser.ir.random_numbers import draw_state
from fuser.ir.strided import Strided
from fuser.runtime.buffers import laid_out, room, sole_aliases
from fuser.runtime.checked import checking
from fuser.runtime.environment import Action, Environment, ReadTensor
from fuser.runtime.kernel import Launcher, c_type, scalar_argument
from fuser.runtime.output_pool import POOL, POOLED_BYTES
from fuser.runtime.stats import count
from fuser.runtime.torch_shortcuts import empty_strided
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion, Step

if TYPE_CHECKING:
    from fuser.runtime.kernel import CNumber


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A segment's kernel, ready to be called."""

    segment: Segment
    source: KernelSource
    launch: Launcher
    tail: tuple[CNumber, ...] = ()
    """What it is called with after its arguments."""
    load_seconds: float = 0.0
    """What it took to compile, or to find, and to load."""


class Runner:
    """Executes one plan. Holds no state between calls, so threads may share it."""

    def __init__(
        self,
        segmented: SegmentedFusion,
        kernels: Mapping[str, LoadedKernel],
        device: torch.device,
    ) -> None:
        self._device = device
        self._inputs = frozenset(segmented.fusion.inputs)
        self._slots: dict[Value, int] = {v: i for i, v in enumerate(segmented.fusion.inputs)}
        self._sole_alias = sole_aliases(segmented)
        self._actions: list[Action] = []
        self.kernels = kernels
        self._ends: list[int] = []  # how many actions are done when each step is
        drawn = (s for s in segmented.fusion.statements if isinstance(s.op, GeneratorState))
        self._actions += [self._draw(statement) for statement in drawn]
        for step in segmented.steps:
            self._actions += self._step(step, segmented)
            self._ends.append(len(self._actions))
        for value, lies in segmented.memory.items():
            if lies.base is value and value not in self._slots and lies.elements == 0:
                self._actions.append(self._allocate(value, segmented))  # nobody computes it
        self._made = len(self._slots) - len(segmented.fusion.inputs)
        self._replaced = frozenset(update.into for update in segmented.updates)
        self._outputs = [
            self._output(output, segmented)
            for output in segmented.fusion.outputs
            if output.alias_of is None
        ]
        self._overwritten = [self._slots[u.into] for u in segmented.updates if not u.refusal]
        self._updates = [
            (self._slots[update.into], self._old_value(update.output, segmented))
            for update in segmented.updates
            if update.refusal
        ]

    def run(self, inputs: Sequence[torch.Tensor | Number]) -> list[torch.Tensor]:
        """The outputs for inputs of the plan's sizes, strides and dtypes."""
        environment: Environment = [*inputs, *([None] * self._made)]
        for action in self._actions:
            action(environment)
        count("kernels_launched", len(self.kernels))
        outputs = [output(environment) for output in self._outputs]
        if self._updates:
            self._update_inputs(environment)
        for slot in self._overwritten:
            # As torch's own functions do, for what autograd has saved of the old value.
            torch.autograd.graph.increment_version(environment[slot])
        return outputs

    def marked(self, mark: Callable[[], object]) -> Runner:
        """The same, but that it calls `mark` after each step."""

        def marking(environment: Environment) -> None:
            mark()

        runner, ends = copy.copy(self), [0, *self._ends]
        parts = [[*self._actions[a:b], marking] for a, b in itertools.pairwise(ends)]
        runner._actions = [*itertools.chain.from_iterable(parts), *self._actions[ends[-1] :]]
        return runner

    def _step(self, step: Step, segmented: SegmentedFusion) -> list[Action]:
        """What is done for a step; nothing for an alias, which is made where it is read."""
        match step:
            case Segment():
                buffers = dict.fromkeys(step.memory[value].base for value in step.stores)
                new = [base for base in buffers if base not in self._slots]
                made = [self._allocate(base, segmented) for base in new]
                if step.name in self.kernels:
                    return [*made, self._kernel(self.kernels[step.name])]
                return made if step.is_empty else [*made, self._interpreted(step)]
            case ExternStep():
                return [self._extern(step)]
            case AliasStep():
                return []
            case _:
                assert_never(step)

    def _new_slot(self, value: Value) -> int:
        return self._slots.setdefault(value, len(self._slots))

    def _draw(self, statement: Statement) -> Action:
        """A seed and an offset from torch's generator, for the kernels that read them."""
        seed, offset = (self._new_slot(value) for value in statement.outs)
        device = self._device

        def draw(environment: Environment) -> None:
            environment[seed], environment[offset] = draw_state(device)

        return draw

    def _allocate(self, value: Value, segmented: SegmentedFusion) -> Action:
        """Make the buffer of a stored value, already in the form it is handed out in."""
        slot = self._new_slot(value)
        lies = segmented.memory[self._sole_alias.get(value, value)]
        sizes, strides, dtype = lies.shape, lies.strides, value.dtype.torch
        nbytes = segmented.memory[value].elements * value.dtype.itemsize
        device = self._device
        if device.type == "cpu" and nbytes >= POOLED_BYTES:

            def allocate(environment: Environment) -> None:
                environment[slot] = POOL.empty_strided(sizes, strides, dtype, nbytes)
        else:
            empty = empty_strided(device)

            def allocate(environment: Environment) -> None:
                environment[slot] = empty(sizes, strides, dtype)

        return allocate

    def _kernel(self, loaded: LoadedKernel) -> Action:
        """Call the kernel with addresses, runtime scalars and the plan's sizes, which are converted
        once."""
        source, launch = loaded.source, loaded.launch
        pointers = [
            self._slots[loaded.segment.memory[argument.value].base]
            for argument in source.arguments
            if isinstance(argument, Pointer)
        ]
        scalars = [
            (self._slots[argument.value], argument.value.dtype)
            for argument in source.arguments
            if isinstance(argument, Scalar)
        ]
        sizes = [c_type(a)(a.number) for a in source.arguments if isinstance(a, Size)]
        workspaces = [a for a in source.arguments if isinstance(a, Workspace)]
        device, tail = self._device, loaded.tail
        if not (scalars or workspaces or source.checks):
            constants = (*sizes, *tail)
            return lambda environment: launch(
                *[environment[slot].data_ptr() for slot in pointers],
                *constants,
            )

        def run(environment: Environment, *errors: int) -> None:
            addresses = [environment[slot].data_ptr() for slot in pointers]
            numbers = [scalar_argument(environment[slot], dtype) for slot, dtype in scalars]
            rooms = [room(workspace, device) for workspace in workspaces]
            launch(
                *addresses, *(held.data_ptr() for held in rooms), *numbers, *sizes, *errors, *tail
            )

        return checking(run, source.checks, device) if source.checks else run

    def _extern(self, step: ExternStep) -> Action:
        compute = self._in_torch(step)
        values = step.fusion.output_values
        places = [(self._new_slot(value), step.memory[value].strides) for value in values]

        def run(environment: Environment) -> None:
            for (slot, strides), result in zip(places, compute(environment), strict=True):
                environment[slot] = laid_out(result, strides)

        return run

    def _interpreted(self, step: Segment) -> Action:
        """A segment run by torch, one operation at a time, into the buffers of its stores."""
        compute = self._in_torch(step)
        stores = [self._strided(step.memory[value]) for value in step.stores]

        def run(environment: Environment) -> None:
            for store, result in zip(stores, compute(environment), strict=True):
                store(environment).copy_(result)

        return run

    def _in_torch(self, step: ExternStep | Segment) -> Callable[[Environment], list[torch.Tensor]]:
        """The results of a step, by the oracle."""
        reads = [self._reader(step.memory.get(value), value) for value in step.fusion.inputs]
        fusion, device, name = step.fusion, self._device, step.name

        def compute(environment: Environment) -> list[torch.Tensor]:
            operands = [read(environment) for read in reads]
            try:
                with torch.no_grad():
                    return interpret(fusion, operands, device)
            except FuserError:
                raise
            except (RuntimeError, IndexError) as error:
                raise ExternError(operation=name, reason=error) from error

        return compute

    def _update_inputs(self, environment: Environment) -> None:
        """Write results into the inputs they replace, once everything has read the old values."""
        with torch.no_grad():
            results = [(environment[slot], read(environment)) for slot, read in self._updates]
            for held, result in results:
                assert isinstance(held, torch.Tensor)
                held.copy_(result)

    def _old_value(self, value: Value, segmented: SegmentedFusion) -> ReadTensor:
        """How to read a value that must outlive an update of the inputs: a copy if it is one."""
        read = self._strided(segmented.memory[value])
        if segmented.memory[value].base not in self._inputs:
            return read
        return lambda environment: read(environment).clone()

    def _reader(
        self, lies: Strided | None, value: Value
    ) -> Callable[[Environment], torch.Tensor | Number]:
        """How torch sees a value: a scalar, a buffer, or a strided view of one."""
        if lies is None:
            slot = self._slots[value]
            return lambda environment: environment[slot]
        return self._strided(lies)

    def _strided(self, lies: Strided) -> ReadTensor:
        slot = self._slots[lies.base]
        shape, strides, offset = lies.shape, lies.strides, lies.offset

        def of_input(environment: Environment) -> torch.Tensor:
            base = environment[slot]
            assert isinstance(base, torch.Tensor)
            return base.detach().as_strided(shape, strides, base.storage_offset() + offset)

        def of_buffer(environment: Environment) -> torch.Tensor:
            base = environment[slot]
            assert isinstance(base, torch.Tensor)
            return base.as_strided(shape, strides, base.storage_offset() + offset)

        return of_input if lies.base in self._inputs else of_buffer

    def _output(self, output: Output, segmented: SegmentedFusion) -> ReadTensor:
        if output.shown_in is not None:
            return self._strided(segmented.memory[output.shown_in])
        value = output.value
        lies = segmented.memory[value]
        if lies.base in self._replaced:
            return self._old_value(value, segmented)
        made = lies.base not in self._inputs
        if made and (lies.base is value or self._sole_alias.get(lies.base) is value):
            slot = self._slots[lies.base]
            return lambda environment: environment[slot]
        return self._strided(lies)
