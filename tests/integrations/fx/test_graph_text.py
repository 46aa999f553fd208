"""A graph as a function of plain lines gives what the graph gives, and drops what is read."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule, Node

from fuser.integrations.fx.graph_text import Forward, GraphWriter


def graph_of(build: Callable[..., Any], names: str = "x y") -> GraphModule:
    """A graph of inputs with these names; `build` gets it and them, and gives the results."""
    graph, root = Graph(), torch.nn.Module()
    root.register_buffer("kept", torch.arange(3.0))
    root.inner = torch.nn.Module()
    root.inner.register_buffer("kept", torch.arange(3.0) * 10)
    graph.output(build(graph, *map(graph.placeholder, names.split())))
    return GraphModule(root, graph)


def written(module: GraphModule) -> Forward:
    writer = GraphWriter(module)
    for node in module.graph.nodes:
        if node.op != "placeholder":
            writer.call(node)
    return writer.function()


def show(*args: object, **kwargs: object) -> tuple[object, ...]:
    return args, kwargs


@pytest.mark.parametrize(
    "arguments",
    [
        lambda x, y: ((x, [y, [x]], (y,), ()), {}),
        lambda x, y: ((float("inf"), float("nan"), -0.0, 1e300, 2, True, None, "a\nb", 3j), {}),
        lambda x, y: ((torch.float32, torch.device("cpu"), torch.strided), {"memory": torch.int8}),
        lambda x, y: (({"a": x, "b": [y, {"c": 1}]}, slice(None, y, 2)), {"last": {"d": x}}),
        lambda x, y: ((torch.Size([2, 3]),), {"of": x}),
    ],
)
def test_arguments_are_what_the_graph_has(arguments: Any) -> None:
    def build(graph: Graph, x: Node, y: Node) -> Node:
        return graph.call_function(show, *arguments(x, y))

    module = graph_of(build)
    assert repr(written(module)([1, 2])) == repr(module(1, 2))


def test_attributes_and_items_are_there() -> None:
    def build(graph: Graph, x: Node, y: Node) -> Sequence[object]:
        kept, inner = graph.get_attr("kept"), graph.get_attr("inner.kept")
        made = graph.call_function(torch.add, (kept, inner), {"alpha": 2.0})
        pair = graph.call_function(divmod, (x, y))
        return [made, graph.call_function(operator.getitem, (pair, 1)), None]

    made, rest, nothing = written(graph_of(build))([7, 4])
    assert torch.equal(made, torch.arange(3.0) * 21)
    assert (rest, nothing) == (3, None)


def test_inputs_are_taken_from_the_list() -> None:
    given = [3, 4]
    assert written(graph_of(lambda _, x, y: (y, x)))(given) == (4, 3)
    assert given == []


class Thing:
    """Something that tells when it is dropped."""


def test_what_is_not_read_again_is_dropped() -> None:
    alive: list[list[bool]] = []
    things: list[weakref.ref[Thing]] = []

    def watch(*_: object) -> Thing:
        alive.append([thing() is not None for thing in things])
        made = Thing()
        things.append(weakref.ref(made))
        return made

    def build(graph: Graph, x: Node, y: Node) -> Node:
        first = graph.call_function(watch, (x,))
        second = graph.call_function(watch, (first,))
        graph.call_function(watch, (y,))  # nobody reads it
        third = graph.call_function(watch, (second,))
        return graph.call_function(watch, (third,))

    given = [Thing(), Thing()]
    things += map(weakref.ref, given)
    run = written(graph_of(build))
    alive.clear()
    inputs: list[Any] = [given.pop(0), given.pop(0)]
    run(inputs)
    assert alive == [
        [True, True],
        [False, True, True],
        [False, True, False, True],
        [False, False, False, True, False],
        [False, False, False, False, False, True],
    ]


def pair_graph() -> tuple[GraphModule, Node, Node]:
    def build(graph: Graph, x: Node, y: Node) -> Node:
        pair = graph.call_function(divmod, (x, y))
        return graph.call_function(operator.getitem, (pair, 1))

    module = graph_of(build)
    _, _, pair, item, _ = module.graph.nodes
    return module, pair, item


def unpacked(function: Any, instead: Any) -> Forward:
    module, pair, item = pair_graph()
    writer = GraphWriter(module)
    writer.unpack(pair, [None, item], function, instead)
    writer.call(module.graph.output_node())
    return writer.function()


def test_outputs_are_unpacked() -> None:
    assert unpacked(lambda given: divmod(*given), None)([7, 4]) == 3


def test_another_function_is_called_where_one_raises() -> None:
    run = unpacked(lambda given: divmod(*given), lambda given: ["nothing", given])
    assert run([7, 4]) == 3
    assert run([7, 0]) == [7, 0]


def test_errors_are_the_callers_where_there_is_no_other_function() -> None:
    with pytest.raises(ZeroDivisionError):
        unpacked(lambda given: divmod(*given), None)([7, 0])


def test_what_was_laid_is_read_by_other_calls_alone() -> None:
    def build(graph: Graph, x: Node, y: Node) -> list[Node]:
        product = graph.call_function(operator.mul, (x, y))
        return [graph.call_function(operator.add, (product, 1)) for _ in range(2)]

    module = graph_of(build)
    writer = GraphWriter(module)
    _, _, product, first, second, output = module.graph.nodes
    writer.call(product)
    writer.lay(product, operator.neg)
    writer.call(first)
    writer.call_instead(second, operator.add, (product, 1))
    writer.call(output)
    assert writer.function()([3, 4]) == [13, -11]


def test_a_node_may_have_any_name() -> None:
    module = graph_of(lambda g, *xs: g.call_function(show, xs), "INPUTS_1 run CALL UNUSED_2")
    assert written(module)([1, 2, 3, 4]) == ((1, 2, 3, 4), {})
