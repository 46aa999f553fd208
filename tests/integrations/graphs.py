"""Graphs of one node, with the metadata that tracing gives them, and graphs that are rewritten."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fuser.integrations.fx.nodes import is_one, is_view, meta_of, same_numbers, tensors_of
from fuser.integrations.partitions.partition_call import define
from fuser.integrations.partitions.support import Support, support
from fuser.integrations.rewrites.joint import rewrite_graph
from fuser.ir.interpret import interpret

CPU = torch.device("cpu")


def one_node(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Graph, Node]:
    """A graph of one call, whose tensors are its inputs; it returns every tensor of the result."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    graph, leaves = Graph(), pytree.tree_flatten((list(args), kwargs))
    nodes, fakes = [], []
    for leaf in leaves[0]:
        if isinstance(leaf, torch.Tensor):
            fakes.append(mode.from_tensor(leaf, static_shapes=True))
            nodes.append(graph.placeholder(f"x{len(fakes)}"))
            nodes[-1].meta["val"] = fakes[-1]
        else:
            fakes.append(leaf)
            nodes.append(leaf)
    node_args, node_kwargs = pytree.tree_unflatten(nodes, leaves[1])
    node = graph.call_function(target, tuple(node_args), node_kwargs)
    fake_args, fake_kwargs = pytree.tree_unflatten(fakes, leaves[1])
    with mode:
        node.meta["val"] = target(*fake_args, **fake_kwargs)
    results = [node]
    if not isinstance(node.meta["val"], torch.Tensor):
        results = []
        for at, value in enumerate(node.meta["val"]):
            results.append(graph.call_function(operator.getitem, (node, at)))
            results[-1].meta["val"] = value
    graph.output(tuple(results))
    return graph, node


def tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    leaves, _ = pytree.tree_flatten((list(args), kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def support_of(target: Any, *args: Any, **kwargs: Any) -> Support:
    graph, node = one_node(target, args, kwargs)
    return support(graph)[node]


def module_of(target: Any, *args: Any, **kwargs: Any) -> GraphModule:
    graph, _ = one_node(target, args, kwargs)
    return GraphModule(torch.nn.Module(), graph)


def interpreted(target: Any, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """What the row's operations mean, by the oracle."""
    definition = define(one_node(target, args, kwargs)[0])
    return interpret(definition.fusion, tensors_in(args, kwargs), CPU)


def eager(target: Any, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    return tensors_of(target(*args, **kwargs))


def rewritten(function: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The overloads of a function's graph after the rewrites; results are compared."""
    module = make_fx(function, tracing_mode="fake")(*inputs)
    rewrite_graph(module.graph)
    check_arguments(module.graph)
    check_views(module.graph)
    module.recompile()
    torch.testing.assert_close(module(*inputs), function(*inputs))
    targets = [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
    return [name.split(".")[1] for name in targets]


def check_arguments(graph: Graph) -> None:
    """No node may have a symbolic number among its arguments: code would print its name."""
    symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
    for node in graph.nodes:
        given, _ = pytree.tree_flatten((node.args, node.kwargs))
        raw = [argument for argument in given if isinstance(argument, symbolic)]
        assert not raw, f"{node.format_node()} has {raw} as arguments"


def check_views(graph: Graph) -> None:
    """What a graph says of views is what they are of what they read, after rewrites too."""
    for node in filter(is_view, graph.nodes):
        args, kwargs = map_arg((node.args, node.kwargs), meta_of)
        said, made = (tensors_of(value) for value in (meta_of(node), node.target(*args, **kwargs)))
        for old, new in zip(said, made, strict=True):
            alike = same_numbers(old.shape, new.shape) and same_numbers(_steps(old), _steps(new))
            assert alike, f"{node.format_node()} lies as {old.stride()}, not as {new.stride()}"
            begins = same_numbers([old.storage_offset()], [new.storage_offset()])
            assert begins, f"{node.format_node()} begins at {old.storage_offset()}"


def _steps(tensor: torch.Tensor) -> list[Any]:
    """The strides of dimensions along which there is more than one element."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if not is_one(size)]
