"""The graph of a partition on a page: what is read of a node, and the step that computes it."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.nodes import Statement, Value
from fuser.ir.printer import print_statement
from fuser.markup import Markup
from fuser.segmenter import (
    Look,
    Node,
    Remark,
    Segment,
    SegmentedFusion,
    drawing_of,
    is_legible,
    picture_of,
)


def graph_of(
    segmented: SegmentedFusion, prefix: str, steps: Sequence[str], label: str
) -> Markup | None:
    """The graph, its nodes numbered after `prefix`; None where there are too many.

    `steps` are the page's names of the steps, which the nodes refer to.
    """
    picture = picture_of(segmented)
    if not is_legible(picture):
        return None
    told = _Told(segmented, steps)
    remarks = {
        node.name: told.remark(node, f"{prefix}-n{number}", number == 0)
        for number, node in enumerate(picture.nodes)
    }
    return drawing_of(picture, remarks, label)


class _Told:
    """What is said of a node: its operation, and where its tensors lie."""

    def __init__(self, segmented: SegmentedFusion, names: Sequence[str]) -> None:
        self._segmented = segmented
        self._statements: dict[Value, Statement] = segmented.fusion.definitions()
        self._segments = {segment.name: segment for segment in segmented.segments}
        self._steps = {
            step.name if isinstance(step, Segment) else f"torch{number}": name
            for number, (step, name) in enumerate(zip(segmented.steps, names, strict=True))
        }

    def remark(self, node: Node, name: str, first: bool) -> Remark:
        """A tooltip, and what the page's script reads; the first node is reached by keys."""
        step = self._steps.get(node.group or node.name.rpartition("_")[0])
        lines = self._lines(node)
        attributes = {
            "id": name,
            "data_step": step,
            "tabindex": "0" if first else "-1",
            "role": "button" if step else "img",
            "aria_label": ", ".join(lines),
        }
        return Remark("\n".join(lines), attributes)

    def _lines(self, node: Node) -> list[str]:
        """The statement, and the type and the place of every tensor."""
        statement = self._statements.get(node.values[0]) if node.values else None
        computed = node.look not in (Look.INPUT, Look.OUTPUT)
        first = print_statement(statement) if computed and statement else " ".join(node.label[:1])
        segment = self._segments.get(node.group or "")
        return [first, *(self._place(value, node.look, segment) for value in node.values)]

    def _place(self, value: Value, look: Look, segment: Segment | None) -> str:
        lies = self._segmented.memory.get(value)
        if segment is not None and value not in segment.stores:
            return f"{value}: {value.type}, in registers"
        if lies is None:
            return f"{value}: {value.type}, {look.value}"
        words = f"{value}: {value.type}, strides {list(lies.strides)}"
        words += "" if lies.base is value else f", memory of {lies.base}"
        return words + (f" from element {lies.offset} on" if lies.offset else "")
