"""A segmented fusion as a picture: a Graphviz text, one colour per segment."""

from __future__ import annotations

from fuser.ir.nodes import Statement, Value, operands
from fuser.ir.printer import operation_name
from fuser.segmenter.plan import AliasStep, SegmentedFusion

_COLOURS = ("#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffff99", "#1f78b4", "#33a02c")


def draw(segmented: SegmentedFusion) -> str:
    """DOT text: operations in the colour of their segment, bookends dashed, bytes on the edges."""
    colours = _colours(segmented)
    nodes = {value: str(value) for value in segmented.fusion.inputs}
    lines = [f"{value} [shape=ellipse];" for value in segmented.fusion.inputs if value.is_tensor]
    for statement in segmented.fusion.statements:
        if not statement.outs[0].is_tensor:
            continue
        name = f"{statement.outs[0]}_op"
        nodes.update((out, name) for out in statement.outs)
        lines.append(f"{name} [{_look(statement, colours)}];")
        reads = (value for value in dict.fromkeys(operands(statement.op)) if value.is_tensor)
        lines += [f'{nodes[value]} -> {name} [label="{_bytes(value)}"];' for value in reads]
    for value in dict.fromkeys(segmented.fusion.output_values):
        lines.append(f'out_{value} [shape=ellipse, label="{value}"];')
        lines.append(f'{nodes[value]} -> out_{value} [label="{_bytes(value)}"];')
    body = "".join(f"  {line}\n" for line in ["node [shape=box, style=filled];", *lines])
    return f"digraph segmented_fusion {{\n{body}}}\n"


def _colours(segmented: SegmentedFusion) -> dict[Value, str]:
    """The colour of each value a kernel or torch computes; what only relabels has none."""
    colours: dict[Value, str] = {}
    steps = [step for step in segmented.steps if not isinstance(step, AliasStep)]
    for number, step in enumerate(steps):
        for statement in step.fusion.statements:
            colour = _COLOURS[number % len(_COLOURS)]
            colours.update((out, colour) for out in statement.outs)
    return colours


def _look(statement: Statement, colours: dict[Value, str]) -> str:
    label = f"{', '.join(map(str, statement.outs))} = {operation_name(statement.op)}"
    colour = colours.get(statement.outs[0])
    return f'label="{label}", ' + (f'fillcolor="{colour}"' if colour else "style=dashed")


def _bytes(value: Value) -> str:
    return f"{value.elements * value.dtype.itemsize:,} B"
