"""Plans: exactly what `execute` runs, for a person to read."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from fuser.codegen import KernelSource
from fuser.runtime.resources import Resources


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A generated kernel. Bytes are of distinct elements in device memory."""

    name: str
    scheduler: str
    operations: tuple[str, ...]
    kernel_source: KernelSource
    parameters: str
    bytes_read: int
    bytes_written: int
    reason: str
    compiler: Callable[[KernelSource], Resources]

    kind = "kernel"

    @property
    def source(self) -> str:
        """The full text of the kernel."""
        return self.kernel_source.text

    def compile(self) -> Resources:
        """Compile for the plan's target, without running; raises CompilationError."""
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
    """The steps of one execution, in order, for one set of input sizes, strides and dtypes."""

    target: str
    steps: tuple[Step, ...]
    log: tuple[str, ...]

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
        """Bytes read and written by all steps."""
        return sum(step.bytes_read + step.bytes_written for step in self.steps)

    def __str__(self) -> str:
        head = ("step", "kind", "scheduler", "operations", "read", "written", "ends here because")
        rows = [_row(number, step) for number, step in enumerate(self.steps)]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        widths[3], widths[6] = min(widths[3], 44), min(widths[6], 60)
        lines = [f"plan for {self.target}", *_wrapped(head, widths)]
        lines.append("  ".join("-" * width for width in widths))
        for row in rows:
            lines += _wrapped(row, widths)
        kernels, aliases, externs = map(len, (self.kernels, self.aliases, self.externs))
        lines.append(
            f"total: {kernels} kernel(s), {aliases} alias(es), {externs} torch call(s), "
            f"{megabytes(self.bytes_moved)} moved"
        )
        return "\n".join(lines)


def megabytes(count: int) -> str:
    """Bytes for a person: `805.3 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _row(number: int, step: Step) -> tuple[str, ...]:
    return (
        str(number),
        step.kind,
        step.scheduler,
        ", ".join(step.operations) or "-",
        megabytes(step.bytes_read),
        megabytes(step.bytes_written),
        step.reason,
    )


def _wrapped(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    """A table row, long cells continued on further lines."""
    columns = [
        textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)
    ]
    lines: list[str] = []
    for depth in range(max(map(len, columns))):
        parts = [column[depth] if depth < len(column) else "" for column in columns]
        padded = [part.ljust(width) for part, width in zip(parts, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return lines
