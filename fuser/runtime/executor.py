"""Running a plan: allocate, launch, hand out. Everything that can be decided before is decided."""

from __future__ import annotations

import copy
import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from fuser.codegen import IndexCheck, KernelSource, Pointer, Scalar, Size, Workspace
from fuser.errors import ExternError, FuserError
from fuser.ir.indexing import index_error
from fuser.ir.interpret import interpret
from fuser.ir.nodes import GeneratorState, Number, Output, Statement, Value
from fuser.ir.random_numbers import draw_state
from fuser.ir.strided import Strided
from fuser.runtime.cuda_driver import refuse_capture
from fuser.runtime.kernel import Launcher, scalar_argument
from fuser.runtime.output_pool import POOL, POOLED_BYTES
from fuser.runtime.stats import count
from fuser.segmenter import ExternStep, Segment, SegmentedFusion

Environment = list["torch.Tensor | Number | None"]
"""The inputs, then a slot for each buffer that the plan makes."""

Action = Callable[[Environment], None]
ReadTensor = Callable[[Environment], torch.Tensor]


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A segment's kernel, ready to be called."""

    segment: Segment
    source: KernelSource
    launch: Launcher
    tail: tuple[object, ...] = ()
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
        self._sole_alias = _sole_aliases(segmented)
        self._actions: list[Action] = []
        self.kernels = kernels
        self._ends: list[int] = []  # how many actions are done when each step is
        drawn = (s for s in segmented.fusion.statements if isinstance(s.op, GeneratorState))
        self._actions += [self._draw(statement) for statement in drawn]
        for step in segmented.steps:
            if isinstance(step, Segment):
                buffers = dict.fromkeys(step.memory[value].base for value in step.stores)
                new = [base for base in buffers if base not in self._slots]
                self._actions += [self._allocate(base, segmented) for base in new]
                if step.name in kernels:
                    self._actions.append(self._kernel(kernels[step.name]))
                elif not step.is_empty:  # no loops can be made for it
                    self._actions.append(self._interpreted(step))
            elif isinstance(step, ExternStep):
                self._actions.append(self._extern(step))
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
            torch.autograd.graph.increment_version(environment[slot])  # pyright: ignore
        return outputs

    def marked(self, mark: Callable[[], object]) -> Runner:
        """The same, but that it calls `mark` after each step."""

        def marking(environment: Environment) -> None:
            mark()

        runner, ends = copy.copy(self), [0, *self._ends]
        parts = [[*self._actions[a:b], marking] for a, b in itertools.pairwise(ends)]
        runner._actions = [*itertools.chain.from_iterable(parts), *self._actions[ends[-1] :]]
        return runner

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
            empty = torch.empty_strided

            def allocate(environment: Environment) -> None:
                environment[slot] = empty(sizes, strides, dtype=dtype, device=device)

        return allocate

    def _kernel(self, loaded: LoadedKernel) -> Action:
        """Call the kernel with addresses, runtime scalars and the plan's sizes."""
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
        sizes = [argument.number for argument in source.arguments if isinstance(argument, Size)]
        workspaces = [a for a in source.arguments if isinstance(a, Workspace)]
        device = self._device
        tail = loaded.tail

        def run(environment: Environment, *errors: int) -> None:
            addresses = [environment[slot].data_ptr() for slot in pointers]  # pyright: ignore
            numbers = [scalar_argument(environment[slot], dtype) for slot, dtype in scalars]  # pyright: ignore
            # What is freed after the launch is reused by later work of the same stream only.
            rooms = [_room(workspace, device) for workspace in workspaces]
            launch(
                *addresses, *(room.data_ptr() for room in rooms), *numbers, *sizes, *errors, *tail
            )

        return _checking(run, source.checks, device) if source.checks else run

    def _extern(self, step: ExternStep) -> Action:
        compute = self._in_torch(step)
        values = step.fusion.output_values
        places = [(self._new_slot(value), step.memory[value].strides) for value in values]

        def run(environment: Environment) -> None:
            for (slot, strides), result in zip(places, compute(environment), strict=True):
                environment[slot] = _laid_out(result, strides)

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
            return lambda environment: environment[slot]  # pyright: ignore[reportReturnType]
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
            return lambda environment: environment[slot]  # pyright: ignore[reportReturnType]
        return self._strided(lies)


def _laid_out(result: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A result of torch under the strides that the plan has; copied if it lies otherwise."""
    spans = zip(result.shape, result.stride(), strides, strict=True)
    if result.numel() == 0 or all(have == want for size, have, want in spans if size > 1):
        return result.as_strided(result.shape, strides) if result.stride() != strides else result
    made = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return made.copy_(result)


def _room(workspace: Workspace, device: torch.device) -> torch.Tensor:
    """The memory of a workspace, for one call."""
    make = torch.zeros if workspace.zeroed else torch.empty
    return make(workspace.elements, dtype=workspace.dtype.torch, device=device)


def _checking(
    run: Callable[..., None], checks: Sequence[IndexCheck], device: torch.device
) -> Action:
    """Run a kernel, wait for it, and raise IndexOutOfRangeError if an index was out of range."""

    def raise_for(number: int, index: int) -> None:
        if number:
            check = checks[number - 1]
            raise index_error(check.operation, index, check.size, wraps=check.wraps)

    def run_on_cpu(environment: Environment) -> None:
        errors = (ctypes.c_longlong * 2)()
        run(environment, ctypes.addressof(errors))
        raise_for(*errors)

    def run_on_device(environment: Environment) -> None:
        refuse_capture("FUSER_CHECK=index waits for the kernel; leave it off")
        errors = torch.zeros(2, dtype=torch.int64, device=device)
        run(environment, errors.data_ptr())
        raise_for(int(errors[0]), int(errors[1]))

    return run_on_cpu if device.type == "cpu" else run_on_device


def _sole_aliases(segmented: SegmentedFusion) -> dict[Value, Value]:
    """Buffers handed out once, and only under another shape: they are made in that shape."""
    handed: dict[Value, set[Value]] = {}
    for value in segmented.fusion.output_values:
        handed.setdefault(segmented.memory[value].base, set()).add(value)
    read_by_torch = {
        lies.base
        for step in segmented.steps
        if isinstance(step, ExternStep)
        for lies in step.memory.values()
    }
    read_by_torch |= {
        segmented.memory[output.value].base
        for output in segmented.fusion.outputs
        if output.alias_of is not None
    }
    sole: dict[Value, Value] = {}
    for base, values in handed.items():
        (value, *others) = values
        lies = segmented.memory[value]
        same_elements = lies.elements == segmented.memory[base].elements
        if not others and value is not base and same_elements and base not in read_by_torch:
            sole[base] = value
    return sole
