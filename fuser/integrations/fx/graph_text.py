"""A graph as the text of a function, in which each line is one call and nothing is looked up.

def run(INPUTS):
    [a, b] = INPUTS
    INPUTS.clear()
    try:
        [c] = RUN_0([a, b])
    except Exception:
        [c] = INSTEAD_1([a, b])
    del a
    mm = CALL_2(c, b)
    del b, c
    return (mm,)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from torch.fx import GraphModule, Node

from fuser.runtime.calls.function_writer import FunctionWriter, bracketed

Forward: TypeAlias = Callable[[list[Any]], Any]
"""A function of a list of inputs, which it empties."""


class GraphWriter(FunctionWriter):
    """Writes the function, node by node, in the order of the graph.

    What a node makes has its name, and is dropped after the last node that reads it. What is there
    before has a name that no node has; attributes have their node's.
    """

    def __init__(self, outer: GraphModule) -> None:
        super().__init__()
        self._outer = outer
        self._laid: dict[Node, str] = {}
        self._last: dict[Node, Node] = {}
        for node in outer.graph.nodes:
            self._last |= dict.fromkeys((node, *node.all_input_nodes), node)
        inputs = [node for node in outer.graph.nodes if node.op == "placeholder"]
        self._lines = [f"{bracketed(map(str, inputs))} = INPUTS", "INPUTS.clear()"]
        self._drop(inputs, inputs)

    def call(self, node: Node) -> None:
        """A node as it is."""
        if node.op == "get_attr":
            self._names[str(node)] = operator.attrgetter(str(node.target))(self._outer)
        elif node.op == "output":
            self._lines.append(f"return {self._text(node.args[0])}")
        elif node.target is operator.getitem:
            read, key = node.args
            self._lines.append(f"{node} = {self._text(read)}[{self._text(key)}]")
            self._drop_after(node)
        else:
            given = [f"{key}={self._text(value)}" for key, value in node.kwargs.items()]
            self._assign(node, cast("Any", node.target), [*map(self._text, node.args), *given])

    def call_instead(
        self, node: Node, function: Callable[..., object], arguments: Sequence[object]
    ) -> None:
        """Another call in the place of a node, which reads what was `lay`ed."""
        self._assign(node, function, [self._laid_text(argument) for argument in arguments])

    def lay(self, node: Node, function: Callable[..., object]) -> None:
        """What `call_instead` and `unpack` read is what the function makes of what the node has
        made; all others read that itself."""
        self._laid[node] = f"LAID_{len(self._laid)}"
        self._lines.append(f"{self._laid[node]} = {self._name('LAY', function)}({node})")

    def unpack(
        self,
        node: Node,
        outputs: Sequence[Node | None],
        function: Callable[..., object],
        instead: Callable[..., object] | None,
    ) -> None:
        """The `outputs` of a node, None for those that are not read, of a function of the list of
        what it reads; of the other one, if any, where that raises."""
        taken = bracketed("UNUSED" if output is None else str(output) for output in outputs)
        given = bracketed(map(self._laid_text, node.args))
        line = f"{taken} = {self._name('RUN', function)}({given})"
        if instead is None:
            self._lines.append(line)
        else:
            caught = f"{taken} = {self._name('INSTEAD', instead)}({given})"
            self._lines += ["try:", f"    {line}", "except Exception:", f"    {caught}"]
        self._lines += ["del UNUSED"] if None in outputs else []
        self._drop(node.all_input_nodes, [node])
        made = [output for output in outputs if output is not None]
        self._drop(made, made)

    def function(self) -> Forward:
        """The function, of nodes that were all written."""
        return self._function_of("INPUTS", "<graph>")

    def _assign(self, node: Node, function: Callable[..., object], texts: Iterable[str]) -> None:
        self._lines.append(f"{node} = {self._name('CALL', function)}({', '.join(texts)})")
        self._drop_after(node)

    def _drop_after(self, node: Node) -> None:
        """What no later node reads."""
        self._drop([node, *node.all_input_nodes], [node])

    def _drop(self, nodes: Sequence[Node], done: Sequence[Node]) -> None:
        """Those of the nodes of which the last reader, or they themselves, is done."""
        over = [node for node in nodes if self._last[node] in done]
        held = [str(node) for node in over if str(node) not in self._names]
        held += [self._laid[node] for node in over if node in self._laid]
        self._lines += [f"del {', '.join(held)}"] if held else []

    def _laid_text(self, value: object) -> str:
        laid = self._laid.get(value) if isinstance(value, Node) else None
        return laid or self._text(value)

    def _text(self, value: object) -> str:
        """An argument: of nodes, numbers, and what holds those; others have a name."""
        if isinstance(value, Node):
            return str(value)
        if isinstance(value, list):
            return bracketed(map(self._text, cast("list[object]", value)))
        if type(value) is tuple:
            parts = map(self._text, cast("tuple[object, ...]", value))
            return f"({''.join(f'{part}, ' for part in parts)})"
        if isinstance(value, dict):
            pairs = cast("dict[object, object]", value).items()
            return f"{{{', '.join(f'{key!r}: {self._text(held)}' for key, held in pairs)}}}"
        if isinstance(value, slice):
            whole = cast("slice[object, object, object]", value)
            return f"slice{self._text((whole.start, whole.stop, whole.step))}"
        if value is None or type(value) in (bool, str, int):
            return repr(value)
        if type(value) is float and math.isfinite(value):
            return repr(value)
        return self._name("HELD", value)
