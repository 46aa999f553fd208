"""A segmented fusion drawn: as Graphviz text, and as a file."""

from __future__ import annotations

from html import escape

from fuser.segmenter.draw_svg import is_legible, svg_file
from fuser.segmenter.picture import Edge, Entry, Look, Node, Picture, picture_of
from fuser.segmenter.plan import SegmentedFusion

_NODE = 'shape=box, style="filled,rounded", fillcolor="#ffffff", fontname="Helvetica", fontsize=11'
_EDGE = 'fontname="Helvetica", fontsize=9, arrowsize=0.6'
_LOOKS = {
    Look.INPUT: "shape=ellipse",
    Look.OUTPUT: "shape=ellipse, penwidth=2",
    Look.KERNEL: "",
    Look.HOST: 'style="filled,rounded,dashed"',
    Look.TORCH: "shape=hexagon, style=filled",
}
_STROKES = {look: "dashed" if look is Look.HOST else "solid" for look in Look}


def render(segmented: SegmentedFusion) -> tuple[str, str]:
    """The picture and its file suffix: SVG, or DOT text where there are too many nodes for that."""
    picture = picture_of(segmented)
    return (svg_file(picture), ".svg") if is_legible(picture) else (dot_text(picture), ".dot")


def dot_text(picture: Picture) -> str:
    """DOT text: a colour for each kernel, host metadata dashed, torch calls as hexagons.

    Edges are tensors with their bytes, grey where they stay in a kernel's registers.
    """
    lines = [f"node [{_NODE}];", f"edge [{_EDGE}];", *_legend(picture.legend)]
    lines += [_node(node) for node in picture.nodes]
    lines += [_edge(edge) for edge in picture.edges]
    return "digraph segmented_fusion {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _node(node: Node) -> str:
    colour = "" if node.look in (Look.INPUT, Look.OUTPUT) else f'fillcolor="{node.colour}"'
    words = "\\n".join(node.label)
    attributes = [f'label="{words}"', _LOOKS[node.look], colour]
    return f"{node.name} [{', '.join(filter(None, attributes))}];"


def _edge(edge: Edge) -> str:
    tone = ', color="#999999", fontcolor="#777777"' if edge.in_registers else ""
    return f'{edge.source} -> {edge.target} [label="{edge.label}"{tone}];'


def _legend(entries: tuple[Entry, ...]) -> list[str]:
    """A node without frame that holds a table."""
    if not entries:
        return []
    rows = [
        f'<tr><td width="24" bgcolor="{entry.colour}" style="{_STROKES[entry.look]}"></td>'
        f'<td border="0" align="left">{escape(entry.words)}</td></tr>'
        for entry in entries
    ]
    table = f'<table border="0" cellborder="1" cellspacing="3">{"".join(rows)}</table>'
    return [f"legend [shape=plain, style=solid, label=<{table}>];"]
