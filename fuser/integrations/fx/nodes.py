"""What the integrations know of FX nodes: their values, arguments and sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch.fx import Node
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.fx.node import map_arg

from fuser.ir import dtypes
from fuser.ir.dtypes import DataType

NO_END = 2**63 - 1
"""What ATen writes for "to the end"."""

ELSEWHERE: Any = torch.ops.aten.as_strided.default
"""A view that may read memory of which its operand has no element."""


def meta_of(node: Node) -> object:
    """What tracing says of a node's result: a fake tensor, a number, a list; None if unknown."""
    return node.meta.get("val")


def value_of(argument: Any) -> Any:
    """What is known of an argument: of a node, what tracing says; else the argument itself."""
    return meta_of(argument) if isinstance(argument, Node) else argument


def values_of(arguments: Any) -> Any:
    """Arguments, in whatever holds them, with what tracing says in the place of nodes."""
    return map_arg(arguments, value_of)


def tensors_of(value: object) -> list[torch.Tensor]:
    """The tensors in a node's result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        parts = cast("Sequence[object]", value)
        return [tensor for part in parts for tensor in tensors_of(part)]
    return []


def tensor_of(node: Node) -> torch.Tensor:
    """The tensor that a node's result is."""
    value = meta_of(node)
    assert isinstance(value, torch.Tensor), node
    return value


def is_view(node: Node) -> bool:
    """Whether a node's results are views of what it reads, and nothing is written."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return False
    return all(result.alias_info is not None for result in schema.returns)


def is_write(node: Node) -> bool:
    """Whether a node writes to its first argument, or sets its memory."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def is_pointwise(node: Node) -> bool:
    """Whether torch says that each element of a node's result is made of one of each operand."""
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def all_read_by(nodes: Iterable[Node | None]) -> set[Node]:
    """Nodes and all that leads to them."""
    found: set[Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, Node) and node not in found:
            found.add(node)
            pending += node.all_input_nodes
    return found


def is_floating(argument: object) -> bool:
    """Whether an argument is a float, or the node of one."""
    return isinstance(value_of(argument), float | torch.SymFloat)


def data_type(dtype: torch.dtype) -> DataType:
    """The DataType of a dtype that has one."""
    found = dtypes.from_torch(dtype)
    assert found is not None, dtype
    return found


def static_sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    """Sizes; those that tracing left open are -1."""
    return tuple(int(size) if is_static(size) else -1 for size in tensor.shape)


def is_static(size: object) -> bool:
    """Whether a size is a number, or a symbol that can be one number only."""
    return not isinstance(size, torch.SymInt) or cast("Any", size).node.expr.is_number


def is_known(condition: Any) -> bool:
    """Whether a comparison of sizes holds in every call."""
    return bool(statically_known_true(condition))


def same_numbers(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether sizes or strides are equal in every call."""
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(is_known(a == b) for a, b in pairs)


def is_one(size: int | torch.SymInt) -> bool:
    """Whether a size or stride is known to be 1, without a guard."""
    return is_static(size) and int(size) == 1


def hint(size: int | torch.SymInt) -> int:
    """A size, or an example of it where it was left open."""
    return int(example(size))


def example(number: Any) -> Any:
    """A number, or one of its kind that it may be where it was left open."""
    for symbolic, kind in _KINDS:
        if isinstance(number, symbolic):
            node: Any = cast("Any", number).node
            known = _example_of(node) if node.hint is None else node.hint
            return kind(2 if known is None else known)
    return number


def _example_of(node: Any) -> Any:
    """What an open number may be that depends on data: made of one number for each symbol, so that
    a size and the sum of it and another fit together."""
    env, expr = node.shape_env, node.expr
    assumed: dict[Any, Any] = {}
    for symbol in free_unbacked_symbols(expr):
        bounds = env.bound_sympy(symbol)
        assumed[symbol] = max(bounds.lower, min(bounds.upper, 2))
    return SymNode(expr.subs(assumed), env, node.pytype, None).hint


_KINDS = ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool))


def hints(sizes: Iterable[int | torch.SymInt]) -> tuple[int, ...]:
    return tuple(map(hint, sizes))


def nbytes(node: Node) -> int:
    """The bytes of a node's tensors, by example sizes."""
    tensors = tensors_of(meta_of(node))
    return sum(math.prod(hints(tensor.shape)) * tensor.dtype.itemsize for tensor in tensors)
