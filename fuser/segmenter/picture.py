"""A segmented fusion as a picture: nodes, the tensors between them, and a legend.

`draw.py` spells it for Graphviz, `draw_svg.py` lays it out and draws it.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from enum import Enum

from fuser.ir.nodes import Statement, Value, operands
from fuser.ir.printer import operation_name
from fuser.segmenter.plan import AliasStep, ExternStep, Segment, SegmentedFusion
from fuser.segmenter.traffic import byte_count

WHITE = "#ffffff"
GREY = "#dddddd"


class Look(Enum):
    """What a node is."""

    INPUT = "input"
    OUTPUT = "output"
    KERNEL = "kernel"
    HOST = "host"
    TORCH = "torch"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation, input or output. `group` names the kernel it belongs to, if any.

    `values` are the tensors that it makes or is.
    """

    name: str
    label: tuple[str, ...]
    look: Look
    colour: str = WHITE
    group: str | None = None
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor from the node that has it to one that reads it.

    `in_registers` says that both are in one kernel, so that no memory is read for it.
    """

    source: str
    target: str
    value: str
    label: str
    in_registers: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the legend."""

    words: str
    look: Look
    colour: str = WHITE


@dataclass(frozen=True, slots=True)
class Picture:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    legend: tuple[Entry, ...]


def picture_of(segmented: SegmentedFusion) -> Picture:
    """The picture; equal for equal segmentations."""
    return _Composer(segmented).compose()


def colour_of(number: int) -> str:
    """The colour of the kernel of that number: light, and far from those of its neighbours."""
    hue = (0.55 + number * 0.618034) % 1.0
    saturation = (0.38, 0.24, 0.55)[number // 8 % 3]
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, 0.97 - 0.06 * (number // 24 % 3))
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


@dataclass(slots=True)
class _Composer:
    """Walks the steps in order. `at` is the node that has each value which outlives its step."""

    segmented: SegmentedFusion
    nodes: list[Node] = field(default_factory=list[Node])
    edges: list[Edge] = field(default_factory=list[Edge])
    legend: list[Entry] = field(default_factory=list[Entry])
    at: dict[Value, str] = field(default_factory=dict[Value, str])
    definitions: dict[Value, Statement] = field(default_factory=dict[Value, Statement])

    def compose(self) -> Picture:
        fusion = self.segmented.fusion
        self.definitions = fusion.definitions()
        for value in fusion.inputs:
            if value.is_tensor:
                label = f"{value}", f"{value.type}"
                self.nodes.append(Node(f"{value}", label, Look.INPUT, values=(value,)))
                self.at[value] = f"{value}"
        for number, step in enumerate(self.segmented.steps):
            if not isinstance(step, AliasStep):
                self._step(step, number)
        for output in dict.fromkeys(fusion.outputs):
            value, name = output.value, f"out_{output.value}"
            words = f"{value}"
            if output.alias_of is not None:
                name += f"_into_{output.alias_of}"
                words += f" into {output.alias_of}"
            if value.is_tensor:
                label = words, f"{value.type}"
                self._on_host(value)
                self.nodes.append(Node(name, label, Look.OUTPUT, values=(value,)))
                self._connect(self.at[value], name, value)
        if any(node.look is Look.TORCH for node in self.nodes):
            self.legend.append(Entry("run by torch", Look.TORCH, GREY))
        if any(node.look is Look.HOST for node in self.nodes):
            self.legend.append(Entry("metadata on the host: no bytes", Look.HOST))
        return Picture(tuple(self.nodes), tuple(self.edges), tuple(self.legend))

    def _step(self, step: Segment | ExternStep, number: int) -> None:
        """The operations of one kernel or torch call, each where it is computed."""
        group = step.name if isinstance(step, Segment) else None
        prefix = group or f"torch{number}"
        look = Look.KERNEL if group else Look.TORCH
        colour = self._legend_colour(step) if isinstance(step, Segment) else GREY
        inside: dict[Value, str] = {}
        for value in step.fusion.inputs:
            if value.is_tensor:
                self._on_host(value)
        for statement in step.fusion.statements:
            if not statement.outs[0].is_tensor:
                continue
            name = f"{prefix}_{statement.outs[0]}"
            self.nodes.append(Node(name, (_label(statement),), look, colour, group, statement.outs))
            for value in _read(statement):
                source = inside.get(value)
                self._connect(source or self.at[value], name, value, source is not None)
            inside.update((out, name) for out in statement.outs)
        self.at.update((value, inside[value]) for value in step.fusion.output_values)

    def _legend_colour(self, segment: Segment) -> str:
        """A colour of its own for a kernel, noted in the legend."""
        colour = colour_of(len(self.legend))
        read, written = byte_count(segment.bytes_read), byte_count(segment.bytes_written)
        self.legend.append(
            Entry(f"{segment.name}: reads {read}, writes {written}", Look.KERNEL, colour)
        )
        return colour

    def _on_host(self, value: Value) -> None:
        """Nodes for the metadata operations that lead to `value` from what is in memory."""
        chain: list[Statement] = []
        while value not in self.at:
            chain.append(self.definitions[value])
            value = _read(chain[-1])[0]
        for statement in reversed(chain):
            name = f"host_{statement.out}"
            self.nodes.append(Node(name, (_label(statement),), Look.HOST, values=statement.outs))
            self._connect(self.at[_read(statement)[0]], name, _read(statement)[0])
            self.at[statement.out] = name

    def _connect(self, source: str, target: str, value: Value, in_registers: bool = False) -> None:
        lies = self.segmented.memory.get(value)
        size = value.elements * value.dtype.itemsize if lies is None else lies.bytes_touched
        self.edges.append(Edge(source, target, f"{value}", byte_count(size), in_registers))


def _label(statement: Statement) -> str:
    return f"{', '.join(map(str, statement.outs))} = {operation_name(statement.op)}"


def _read(statement: Statement) -> list[Value]:
    """The tensors a statement reads."""
    return [value for value in dict.fromkeys(operands(statement.op)) if value.is_tensor]
