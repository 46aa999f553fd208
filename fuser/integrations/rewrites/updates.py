"""Parts of a graph's inputs that are written where they lie, by torch.

    a = slice(cache, 2, 7, 8)
    b = slice_scatter(cache, copy(a, key), 2, 7, 8)        b = put(cache, [key], [2, 7, 8, 1])
    y = attention(q, b, ...)                          =>   y = attention(q, b, ...)
    copy_(cache, b)

    b = index_put(cache, [None, at], key)
    copy_(cache, b)                                   =>   b = index_put_(cache, [None, at], key)

Tracing makes a new tensor of each update, and copies all of it into the input at the end, of which
a cache of keys is most. The new value is the input itself then, so nobody may read the old one
afterwards: what does has to lead to what is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.library import Library

from fuser.integrations.aten.row import arguments
from fuser.integrations.fx.nodes import (
    NO_END,
    all_read_by,
    hints,
    is_view,
    is_write,
    meta_of,
    tensor_of,
)
from fuser.integrations.rewrites.readers import base_of, is_returned

_aten: Any = torch.ops.aten

Number = int | Node
Place = tuple[int, tuple[Number, ...]]
"""A view, by its number in `_VIEWS`, and its arguments."""

Path = tuple[Place, ...]
"""A view of a tensor, one place after the other."""

_VIEWS = (_aten.slice.Tensor, _aten.select.int, _aten.diagonal.default)
_SCATTERS = (
    *(_aten.slice_scatter.default, _aten.select_scatter.default),
    _aten.diagonal_scatter.default,
)
"""What writes to each of these views."""

_ARGUMENTS = (("dim", "start", "end", "step"), ("dim", "index"), ("offset", "dim1", "dim2"))

_LIBRARY: Any = Library("fuser", "DEF")
_LIBRARY.define("put(Tensor(a!) x, Tensor[] values, SymInt[] places) -> Tensor(a!)")


def put(x: torch.Tensor, values: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """`x` with each of `values` written to a view of it.

    `places` has for each value how many places lead to its view, and for each the number of a view
    and its arguments.
    """
    numbers = iter(places)
    for value in values:
        view = x
        for _ in range(next(numbers)):
            kind = next(numbers)
            view = _VIEWS[kind](view, *(next(numbers) for _ in _ARGUMENTS[kind]))
        view.copy_(value)
    return x


_LIBRARY.impl("put", put, "CompositeExplicitAutograd")
PUT: Any = torch.ops.fuser.put.default

_IN_PLACE: dict[Any, Any] = {
    _aten.index_put.default: _aten.index_put_.default,
    _aten._unsafe_index_put.default: _aten.index_put_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
    _aten.index_add.default: _aten.index_add_.default,
}
UPDATES = frozenset({PUT, *_IN_PLACE.values()})
"""What parts of a graph's inputs are updated by."""
WRITES = UPDATES | {_aten.copy_.default}
"""What gives inputs numbers, and changes nothing else of them."""

_LEAST_SHARE = 4
"""Of what has more elements than a quarter of the input, kernels write all of it."""


def update_in_place(graph: Graph) -> None:
    """Replace what makes all of an input's new value, where only a part of it is new."""
    for copy in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        into, value = cast("tuple[Node, Node]", copy.args[:2])
        while value.target is _aten.clone.default:
            value = value.all_input_nodes[0]
        if _can_be_updated(into):
            _update(graph, copy, into, value)
    graph.eliminate_dead_code()


def _can_be_updated(into: Node) -> bool:
    if into.op != "placeholder":
        return False
    tensor = tensor_of(into)
    return not (tensor.is_conj() or tensor.is_neg())


def _update(graph: Graph, copy: Node, into: Node, value: Node) -> None:
    found = _call(into, value)
    if found is None or copy.users or is_returned(value):
        return
    target, args, kwargs = found
    given: list[Node] = []
    map_arg((args[1:], kwargs), lambda node: given.append(node) or node)
    read_before = all_read_by(given)
    if any(base_of(node) is into for node in given):
        return  # what is written would change what is to be written
    live = _live(graph, value, copy, given)
    for node in _states(value):
        for reader in _reading(node):
            before = node is into and reader in read_before
            if reader in live and reader is not value and not before:
                return
    with graph.inserting_before(value):
        new = graph.call_function(target, args, kwargs)
    new.meta = dict(value.meta)
    new.meta["val"] = tensor_of(into)
    value.replace_all_uses_with(new, delete_user_cb=lambda user: user is not copy)
    graph.erase_node(copy)


def _call(into: Node, value: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """What writes to `into` what `value` has otherwise; None if that is most of it, or unknown."""
    if value.target in _IN_PLACE and value.args[0] is into:
        args, kwargs = value.args, dict(value.kwargs)
        few = all(_is_few(given, into) for given in value.args[1:])
        return (_IN_PLACE[value.target], args, kwargs) if few else None
    writes = _writes(value, into, ())
    if not writes:
        return None
    places = [number for path, _ in writes for number in (len(path), *_flat(path))]
    return PUT, (into, [source for _, source in writes], places), {}


def _flat(path: Path) -> list[Number]:
    return [number for kind, arguments in path for number in (kind, *arguments)]


def _is_few(given: Any, into: Node) -> bool:
    written = meta_of(given) if isinstance(given, Node) else None
    if not isinstance(written, torch.Tensor):
        return True
    few, whole = (math.prod(hints(tensor.shape)) for tensor in (written, tensor_of(into)))
    return few * _LEAST_SHARE <= whole


def _writes(value: Node, state: Node, path: Path) -> list[tuple[Path, Node]] | None:
    """What is written where, so that `state` at a path is `value`; None if that is all of it."""
    if _is_at(value, state, path):
        return []
    if value.target not in _SCATTERS:
        return None
    place = _place(value)
    whole, source = cast("tuple[Node, Node]", value.args[:2])
    before = _writes(whole, state, path)
    if before is None:
        return None
    within = _writes(source, whole, (place,))
    if within is None:
        if source.target is _aten.copy.default:
            source = cast("Node", source.args[1])
        within = [((place,), source)]
    return before + [((*path, *inner), written) for inner, written in within]


def _is_at(value: Node, state: Node, path: Path) -> bool:
    """Whether a node is the view of another that a path leads to."""
    for place in reversed(path):
        if value.target not in _VIEWS or _place(value) != place:
            return False
        value = value.all_input_nodes[0]
    return value is state


def _place(node: Node) -> Place:
    """Where a view shows its operand, or a scatter writes to it."""
    kind = (_VIEWS if node.target in _VIEWS else _SCATTERS).index(node.target)
    given = {"start": None, "end": None, **arguments(node)}
    ends = {"start": 0, "end": NO_END}
    numbers = (given[name] for name in _ARGUMENTS[kind])
    return kind, tuple(
        ends.get(name, 0) if number is None else number
        for name, number in zip(_ARGUMENTS[kind], numbers, strict=True)
    )


def _live(graph: Graph, value: Node, copy: Node, given: Sequence[Node]) -> set[Node]:
    """What is still needed where `value` is made of what is `given`, and is not copied."""
    found = set[Node]()
    ends = (node for node in graph.nodes if node.op == "output" or is_write(node))
    pending = [*given, *(node for node in ends if node is not copy)]
    while pending:
        node = pending.pop()
        found.add(node)
        if node is not value:
            pending += [read for read in node.all_input_nodes if read not in found]
    return found


def _states(value: Node) -> Iterator[Node]:
    """What an input is before each of its updates, the last one first."""
    while value.op == "call_function":
        value = cast("Node", value.args[0])
        yield value


def _reading(node: Node) -> Iterator[Node]:
    """What reads a node, or a view of it."""
    for user in node.users:
        if is_view(user):
            yield from _reading(user)
        else:
            yield user
