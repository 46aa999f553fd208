"""Plans: exactly what `execute` runs, for a person to read."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

from fuser.codegen import KernelSource
from fuser.errors import NotGeneratedError
from fuser.ir.nodes import Fusion
from fuser.runtime.kernels.resources import Resources
from fuser.runtime.plans.table import table
from fuser.schedule import LoopNest, print_nest
from fuser.segmenter import SegmentedFusion, byte_count


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel. Bytes are of distinct elements in device memory; `bytes_read_again` are of those
    that later sweeps of its rows read once more, as no cache has room for them. `leaves` tells how
    values leave it, and `apart`, by number, of which steps it might have been a part, and why it is
    not.

    Where no loops can be made yet for its operations, there is no `kernel_source`: torch runs them
    one by one, and the scheduler is "torch". `definition` is the segment as a definition.
    """

    name: str
    scheduler: str
    operations: tuple[str, ...]
    definition: str
    kernel_source: KernelSource | None
    nest: LoopNest | None = field(repr=False, compare=False)
    bytes_read: int
    bytes_written: int
    leaves: tuple[str, ...]
    apart: tuple[tuple[int, str], ...]
    compiler: Callable[[KernelSource], Resources]
    bytes_read_again: int = 0

    kind = "kernel"

    @property
    def reason(self) -> str:
        """Why it ends where it does."""
        words = (f"not merged with step {number}: {reason}" for number, reason in self.apart)
        return "; ".join((*self.leaves, *words))

    @property
    def ends(self) -> str:
        """The same in short: the plan has the reasons below its steps."""
        numbers = ", ".join(str(number) for number, _ in sorted(self.apart))
        return "; ".join((*self.leaves, *([f"not merged with step {numbers}"] if numbers else [])))

    @property
    def source(self) -> str:
        """The full text of the kernel; the definition, where there is no kernel text."""
        return self.definition if self.kernel_source is None else self.kernel_source.text

    @property
    def mapping(self) -> str:
        """How its loops are mapped, in words; nothing, where there are none."""
        return "" if self.nest is None else self.nest.mapping

    @property
    def not_chosen(self) -> tuple[str, ...]:
        """The mappings that were tried before, each with the reason why it does not fit."""
        return () if self.nest is None else tuple(map(str, self.nest.not_chosen))

    @property
    def chosen(self) -> str:
        """The mapping and the launch, and why none of the mappings before it."""
        return "" if self.nest is None else self.nest.chosen

    @property
    def constants(self) -> str:
        """The parameters by which the heuristic chose them."""
        return "" if self.nest is None else self.nest.constants

    @property
    def loops(self) -> str:
        """The scheduled loop nest; the definition, where there is none."""
        return self.definition if self.nest is None else print_nest(self.nest)

    def compile(self) -> Resources:
        """Compile for the plan's target, without running.

        Raises CompilationError, and NotGeneratedError where torch runs the operations.
        """
        if self.kernel_source is None:
            raise NotGeneratedError(kernel=self.name, operations=", ".join(self.operations))
        return self.compiler(self.kernel_source)


@dataclass(frozen=True, slots=True)
class AliasStep:
    """An output that is another tensor's memory, relabelled."""

    output: str
    source: str
    operations: tuple[str, ...]
    reason: str

    kind = "alias"
    scheduler = "host"
    bytes_read = 0
    bytes_written = 0

    @property
    def name(self) -> str:
        return self.output


@dataclass(frozen=True, slots=True)
class ExternStep:
    """Operations that torch runs."""

    name: str
    operations: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    reason: str

    kind = "extern"
    scheduler = "torch"


Step = KernelStep | AliasStep | ExternStep


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one execution, in order, for one set of input sizes, strides and dtypes.

    `boundaries` say why kernels that might have been one are not; `log` tells every decision.
    `updates` say how each updated input gets its new value, and `bytes_copied` what that takes
    where no kernel can store it in place. `definition` is what was planned, for the sizes at hand
    and before any pass; `segmented` is what became of it, its segments in the order of `kernels`.
    """

    target: str
    steps: tuple[Step, ...]
    boundaries: tuple[str, ...]
    log: tuple[str, ...]
    definition: Fusion = field(repr=False, compare=False)
    segmented: SegmentedFusion = field(repr=False, compare=False)
    updates: tuple[str, ...] = ()
    bytes_copied: int = 0

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        return tuple(step for step in self.steps if isinstance(step, KernelStep))

    @property
    def aliases(self) -> tuple[AliasStep, ...]:
        return tuple(step for step in self.steps if isinstance(step, AliasStep))

    @property
    def externs(self) -> tuple[ExternStep, ...]:
        return tuple(step for step in self.steps if isinstance(step, ExternStep))

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written by all steps, and by the copies into inputs after them: of what a
        kernel reads again, once."""
        return self.bytes_copied + sum(step.bytes_read + step.bytes_written for step in self.steps)

    @property
    def bytes_read_again(self) -> int:
        """Bytes that later sweeps of kernels' rows read once more."""
        return sum(kernel.bytes_read_again for kernel in self.kernels)

    def __str__(self) -> str:
        head = ("step", "kind", "scheduler", "operations", "read", "written", "ends here because")
        rows = [_row(number, step) for number, step in enumerate(self.steps)]
        lines = [f"plan for {self.target}", *table(head, rows, {3: 44, 6: 60})]
        if self.boundaries:
            lines += ["why this is not one kernel:", *_listed(self.boundaries)]
        if self.updates:
            lines += ["inputs that are updated:", *_listed(self.updates)]
        kernels, aliases, externs = map(len, (self.kernels, self.aliases, self.externs))
        in_torch = sum(kernel.kernel_source is None for kernel in self.kernels)
        unfused = f" ({in_torch} run by torch, one operation at a time)" if in_torch else ""
        lines.append(
            f"total: {kernels} kernel(s){unfused}, {aliases} alias(es), {externs} torch call(s), "
            f"{byte_count(self.bytes_moved)} moved{self._moved_besides()}"
        )
        return "\n".join(lines)

    def _moved_besides(self) -> str:
        """What of the bytes moved is no step's, and what is moved beside them."""
        copied, again = byte_count(self.bytes_copied), byte_count(self.bytes_read_again)
        words = f", {copied} of that by copies into inputs" if self.bytes_copied else ""
        return words + (f", and {again} read again" if self.bytes_read_again else "")


def read_words(step: Step) -> str:
    """The bytes that a step reads, in words."""
    again = step.bytes_read_again if isinstance(step, KernelStep) else 0
    return byte_count(step.bytes_read) + (f" + {byte_count(again)} again" if again else "")


def _listed(words: tuple[str, ...]) -> list[str]:
    """Each of some sentences, indented, on lines of its own."""
    return [
        line
        for each in words
        for line in textwrap.wrap(each, 100, initial_indent="  ", subsequent_indent="    ")
    ]


def _row(number: int, step: Step) -> tuple[str, ...]:
    return (
        str(number),
        step.kind,
        step.scheduler,
        ", ".join(step.operations) or "-",
        read_words(step),
        byte_count(step.bytes_written),
        step.ends if isinstance(step, KernelStep) else step.reason,
    )
