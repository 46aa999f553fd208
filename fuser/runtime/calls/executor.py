"""Running a plan: allocate, launch, hand out. Everything that can be decided before is decided.

What a call does is one Python function, written for the plan, a line for each thing:

    def run(inputs):
        T0, T1 = inputs
        T3 = empty((8, 64), (64, 1), dtype_0)
        launch_1(T0.data_ptr(), T1.data_ptr(), T3.data_ptr(), *sizes_2)
        count_3()
        return [T3]

Of small tensors, a call takes longer than its kernels: it is to look nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import torch

from fuser.codegen import KernelSource, Pointer, Scalar, Size, Workspace
from fuser.ir.nodes import GeneratorState, Inputs, Output, Statement, Value
from fuser.ir.random_numbers import draw_state
from fuser.ir.strided import Strided
from fuser.runtime.calls.buffers import room_maker, sole_aliases
from fuser.runtime.calls.checked import IndexReports
from fuser.runtime.calls.function_writer import FunctionWriter, bracketed
from fuser.runtime.calls.output_pool import POOL, POOLED_BYTES
from fuser.runtime.calls.torch_shortcuts import empty_strided
from fuser.runtime.calls.torch_steps import extern, interpreted, separated, update
from fuser.runtime.kernels.kernel import Launcher, scalar_argument
from fuser.runtime.kernels.stats import launch_counter
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion, Step


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A segment's kernel, ready to be called."""

    segment: Segment
    source: KernelSource
    launch: Launcher
    sizes: tuple[object, ...]
    """The plan's, in the form that is passed with the least work."""
    tail: tuple[object, ...] = ()
    """What it is called with after its arguments."""
    load_seconds: float = 0.0
    """What it took to compile, or to find, and to load."""


Kernels = Mapping[str, LoadedKernel]


class Runner:
    """Executes one plan. Holds no state between calls, so threads may share it."""

    def __init__(self, segmented: SegmentedFusion, kernels: Kernels, device: torch.device) -> None:
        self.kernels, self._plan = kernels, (segmented, kernels, device)

    @cached_property
    def run(self) -> Callable[[Inputs], list[torch.Tensor]]:
        """Gives the outputs for inputs of the plan's sizes, strides and dtypes."""
        return _CallWriter(*self._plan).function()

    @cached_property
    def run_apart(self) -> Callable[[Inputs], list[torch.Tensor]]:
        """The same; no output is in memory of an input, or of another output."""
        writer = _CallWriter(*self._plan)
        return writer.function(apart=True) if writer.shares else self.run

    @cached_property
    def marked(self) -> Callable[[Inputs, Callable[[], object]], list[torch.Tensor]]:
        """As `run`; it calls what it is given besides after each step."""
        return _CallWriter(*self._plan).function(marked=True)


class _CallWriter(FunctionWriter):
    """Writes the function of a plan. A value is named in it as it is in the plan."""

    def __init__(self, segmented: SegmentedFusion, kernels: Kernels, device: torch.device) -> None:
        super().__init__()
        self._segmented, self._kernels, self._device = segmented, kernels, device
        self._memory = segmented.memory
        self._inputs = frozenset(segmented.fusion.inputs)
        self._overwritten = segmented.sharing.union(update.into for update in segmented.updates)
        self._sole_alias = sole_aliases(segmented)
        self._made: set[Value] = set(self._inputs)
        self._names["torch"] = torch

    @property
    def shares(self) -> bool:
        """Whether an output may be in memory of an input, or of another output."""
        return self._may_share or any(self._shared())

    def function(self, *, apart: bool = False, marked: bool = False) -> Callable[..., Any]:
        """The function, which takes the inputs, and what to call after steps if it is `marked`."""
        segmented = self._segmented
        self._lines = [f"{_tuple(segmented.fusion.inputs)} = inputs"] if self._inputs else []
        for statement in segmented.fusion.statements:
            if isinstance(statement.op, GeneratorState):
                self._draw(statement)
        read_last = self._read_last()
        for number, step in enumerate(segmented.steps):
            self._step(step)
            self._lines += [f"del {base}" for base in read_last.get(number, ())]
            self._lines += ["mark()"] if marked else []
        for value, lies in self._memory.items():
            if lies.base is value and value not in self._made and lies.elements == 0:
                self._allocate(value)  # nobody computes it
        if self._kernels:
            self._lines.append(f"{self._name('count', launch_counter(len(self._kernels)))}()")
        self._hand_out(apart=apart)
        self._lines.append("return outputs")
        return self._function_of("inputs, mark" if marked else "inputs", "<call of a plan>")

    # -- steps -----------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        """What is done for a step; nothing for an alias, which is made where it is read."""
        match step:
            case Segment():
                for base in dict.fromkeys(self._memory[value].base for value in step.stores):
                    if base not in self._made:
                        self._allocate(base)
                if step.name in self._kernels:
                    self._kernel(self._kernels[step.name])
                elif not step.is_empty:
                    run = self._name("interpreted", interpreted(step, self._device))
                    stores = bracketed(self._strided(step.memory[value]) for value in step.stores)
                    self._lines.append(f"{run}({self._operands(step)}, {stores})")
            case ExternStep():
                run = self._name("extern", extern(step, self._device))
                values = step.fusion.output_values
                self._lines.append(f"{_tuple(values)} = {run}({self._operands(step)})")
                self._made.update(values)
            case AliasStep():
                pass
            case _:
                assert_never(step)

    def _read_last(self) -> dict[int, list[Value]]:
        """By number, the steps after which memory that the plan makes is not needed any more."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self._segmented.steps):
            if not isinstance(step, AliasStep):
                values = (*step.fusion.inputs, *step.fusion.output_values)
                places = (step.memory[value] for value in values if value in step.memory)
                last |= {lies.base: number for lies in places}
        outputs = self._segmented.fusion.outputs
        shown = (value for output in outputs for value in (output.value, output.shown_in) if value)
        kept = self._inputs.union(self._memory[value].base for value in shown)
        found: dict[int, list[Value]] = {}
        for base, number in last.items():
            if base not in kept:
                found.setdefault(number, []).append(base)
        return found

    def _draw(self, statement: Statement) -> None:
        """A seed and an offset from torch's generator, for the kernels that read them."""
        draw, device = self._name("draw", draw_state), self._name("device", self._device)
        self._lines.append(f"{_tuple(statement.outs)} = {draw}({device})")
        self._made.update(statement.outs)

    def _allocate(self, value: Value) -> None:
        """Make the buffer of a stored value, already in the form it is handed out in."""
        lies = self._memory[self._sole_alias.get(value, value)]
        nbytes = self._memory[value].elements * value.dtype.itemsize
        given = f"{lies.shape}, {lies.strides}, {self._name('dtype', value.dtype.torch)}"
        if self._device.type == "cpu" and nbytes >= POOLED_BYTES:
            made = f"{self._name('pool', POOL)}.empty_strided({given}, {nbytes})"
        else:
            made = f"{self._name('empty', empty_strided(self._device))}({given})"
        self._lines.append(f"{value} = {made}")
        self._made.add(value)

    def _kernel(self, loaded: LoadedKernel) -> None:
        """Call the kernel with addresses, runtime scalars and the plan's sizes, which are converted
        once."""
        source, device = loaded.source, self._device
        arguments, rooms = list[str](), list[str]()
        for argument in source.arguments:
            match argument:
                case Pointer(value):
                    arguments.append(f"{loaded.segment.memory[value].base}.data_ptr()")
                case Workspace():
                    made = self._name("room", room_maker(argument, device))
                    rooms.append(f"{made}_held")
                    self._lines.append(f"{rooms[-1]} = {made}()")
                    arguments.append(f"{rooms[-1]}.data_ptr()")
                case Scalar(value) if value not in self._inputs:  # the plan's own, of its type
                    arguments.append(str(value))
                case Scalar(value):
                    convert = self._name("scalar", scalar_argument)
                    dtype = self._name("dtype", value.dtype)
                    arguments.append(f"{convert}({value}, {dtype})")
                case Size():
                    pass
        sizes, after = loaded.sizes, [f"del {', '.join(rooms)}"] if rooms else []
        if source.checks:
            reports = self._name("reports", IndexReports(source.checks, device))
            self._lines.append(f"{reports}_taken = {reports}.take()")
            after.append(f"{reports}.close({reports}_taken)")
            arguments += [f"*{self._name('sizes', sizes)}", f"{reports}_taken.address"]
            sizes = ()
        arguments.append(f"*{self._name('sizes', (*sizes, *loaded.tail))}")
        launch = self._name("launch", loaded.launch)
        self._lines += [f"{launch}({', '.join(arguments)})", *after]

    # -- tensors that are read, and handed out ---------------------------------------------------

    def _operands(self, step: Segment | ExternStep) -> str:
        """How torch sees what a step reads: scalars, buffers, and strided views of those."""
        places = ((value, step.memory.get(value)) for value in step.fusion.inputs)
        return bracketed(
            str(value) if lies is None else self._strided(lies) for value, lies in places
        )

    def _strided(self, lies: Strided) -> str:
        base, detached = lies.base, ".detach()" if lies.base in self._inputs else ""
        offset = f"{base}.storage_offset()" + (f" + {lies.offset}" if lies.offset else "")
        return f"{base}{detached}.as_strided({lies.shape}, {lies.strides}, {offset})"

    def _hand_out(self, *, apart: bool) -> None:
        """The outputs; then inputs are updated, which has to come last, but for copies of what
        shows them."""
        self._lines.append(f"outputs = {bracketed(map(self._output, self._returned))}")
        late = [update for update in self._segmented.updates if update.refusal]
        if late:
            into = bracketed(str(each.into) for each in late)
            results = bracketed(self._old_value(each.output) for each in late)
            self._lines.append(f"{self._name('update', update)}({into}, {results})")
        stored = [each.into for each in self._segmented.updates if not each.refusal]
        if stored:  # as torch's own functions do, for what autograd has saved of the old value
            self._lines.append(
                f"torch.autograd.graph.increment_version({bracketed(map(str, stored))})"
            )
        for number in [n for n, shared in enumerate(self._shared()) if apart and shared]:
            copy = f"outputs[{number}].clone(memory_format=torch.preserve_format)"
            self._lines.append(f"outputs[{number}] = {copy}")
        if apart and self._may_share:
            self._lines.append(f"outputs = {self._name('separated', separated)}(outputs, inputs)")

    def _old_value(self, value: Value) -> str:
        """A value that must outlive an update of the inputs: a copy if it is one."""
        lies = self._memory[value]
        return self._strided(lies) + (".clone()" if lies.base in self._inputs else "")

    def _output(self, output: Output) -> str:
        lies = self._memory[output.shown_in or output.value]
        if output.shown_in is not None:
            return self._strided(lies)
        if lies.base in self._overwritten:
            return self._old_value(output.value)
        made = lies.base not in self._inputs
        if made and (lies.base is output.value or self._sole_alias.get(lies.base) is output.value):
            return str(lies.base)
        return self._strided(lies)

    @property
    def _returned(self) -> list[Output]:
        return [output for output in self._segmented.fusion.outputs if output.alias_of is None]

    def _shared(self) -> list[bool]:
        """Of which outputs the memory is an input's, or an earlier output's.

        Of no elements, too: as two results, one tensor would have a gradient as both, or as none.
        """
        shared, taken = list[bool](), set(self._inputs)
        for output in self._returned:
            lies = self._memory[output.shown_in or output.value]
            copied = output.shown_in is None and lies.base in self._overwritten & self._inputs
            shared.append(lies.base in taken and not copied)
            taken.add(lies.base)
        return shared

    @property
    def _may_share(self) -> bool:
        """Whether torch makes an output, which may then be an operand of its own."""
        made = (s for s in self._segmented.steps if isinstance(s, ExternStep))
        by_torch = {value for step in made for value in step.fusion.output_values}
        return any(self._memory[output.value].base in by_torch for output in self._returned)


def _tuple(values: Sequence[Value]) -> str:
    return f"({', '.join(map(str, values))},)"
