"""The report as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from fuser.explanation.model import MERGE, Break, Graph, Partition, total_traffic
from fuser.explanation.words import (
    added_words,
    count,
    graph_words,
    input_words,
    launch_words,
    partition_words,
    tidy,
    traffic_words,
)
from fuser.runtime.plans.plan import KernelStep, read_words
from fuser.segmenter import byte_count

WIDTH = 100


def text_of(graphs: Sequence[Graph], breaks: Sequence[Break], notes: Sequence[str]) -> str:
    """Each graph with its partitions, then where Dynamo broke, then the total."""
    blocks = [_graph(graph) for graph in graphs]
    if breaks:
        lines = [f"{count(len(breaks), 'graph break')}:"]
        for found in breaks:
            lines += _wrapped(f"{found.place}: {found.reason}", 2)
        blocks.append(lines)
    blocks.append(_total(graphs))
    blocks += [_wrapped(f"note: {note}", 0) for note in notes]
    return "\n\n".join("\n".join(block) for block in blocks)


def _total(graphs: Sequence[Graph]) -> list[str]:
    parts = sum(len(graph.partitions) for graph in graphs)
    kernels = sum(len(graph.kernels) for graph in graphs)
    head = f"{count(len(graphs), 'graph')}, {count(parts, 'partition')}, {count(kernels, 'kernel')}"
    traffic = total_traffic(graph.traffic for graph in graphs)
    return _wrapped(f"total: {head}; {traffic_words(traffic)}" if parts else f"total: {head}", 0)


def _graph(graph: Graph) -> list[str]:
    lines = [f"{graph.name}: {graph_words(graph)}"]
    if graph.coverage is not None:
        for missed in graph.coverage.uncovered:
            lines += _wrapped(f"torch: {missed.count} x {missed.overload}: {missed.reason}", 2)
    if graph.partitions:
        lines += _wrapped(traffic_words(graph.traffic), 2)
    for part in graph.partitions:
        lines += ["", *(f"  {line}".rstrip() for line in _partition(part))]
    return lines


def _partition(part: Partition) -> list[str]:
    lines = [f"{part.name}: {partition_words(part)}"]
    if part.failure is not None:
        lines += _wrapped(f"failed: {part.failure}", 2)
    lines += [f"  {line}" for line in part.definition.splitlines()]
    if part.plan is None:
        return lines
    lines += _wrapped(f"inputs: {input_words(part.plan)}", 2)
    lines += [f"  {line}" for line in str(part.plan).splitlines()]
    lines += _wrapped(added_words(part.plan), 2)
    lines += _wrapped(traffic_words(part.traffic), 2)
    for number, kernel in enumerate(part.plan.kernels):
        lines += _kernel(part, number, kernel)
    lines += [f"  torch runs {step.name}: {step.reason}" for step in part.plan.externs]
    others = [line for line in part.plan.log if not line.startswith(MERGE)]
    if others:
        lines += ["  decisions besides:", *(s for line in others for s in _wrapped(tidy(line), 4))]
    return lines


def _kernel(part: Partition, number: int, kernel: KernelStep) -> list[str]:
    moved = f"reads {read_words(kernel)}, writes {byte_count(kernel.bytes_written)}"
    lines = _wrapped(f"kernel {kernel.name}, {launch_words(kernel)}: {moved}", 2)
    if kernel.mapping:
        lines += _wrapped(kernel.mapping, 4)
    if kernel.not_chosen:
        lines += _wrapped("; ".join(kernel.not_chosen), 4)
    merges = len(part.merges(number))
    if merges:
        lines.append(f"    {count(merges, 'merge')} made it, which the page lists")
    return lines


def _wrapped(words: str, indent: int) -> list[str]:
    """Lines of at most WIDTH characters; those after the first are indented by two more."""
    first, later = " " * indent, " " * (indent + 2)
    return textwrap.wrap(
        words, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    )
