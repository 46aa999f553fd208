"""Rewrites of ATen graphs before they are divided into forward and backward, and into partitions.

They must see the joint graph: a range that the forward saves for the backward is a tensor like any
other there. A graph without a backward is rewritten by the same rules.

    index_select(x, 3, arange(n))                          -> slice(x, 3, 0, n): index_rules.py
    full_like(x, 0)                                        -> full(sizes of x, 0)
    clone(x), where that copies what lies the same         -> x
    copy(y, x), which has no element of y                  -> x, or a copy that lies as y
    slice(x, 0, 0, ...), which has all of x                -> x
    slice_scatter(y, x, ...), which has no element of y    -> x, or a copy that lies as y
    as_strided(x, ...), all of x in its order              -> view(x)
    as_strided_scatter(y, x, ...), all of y in its order   -> view(x)
    addmm(bias, a, b), where only partitions read it       -> mm(a, b) + bias
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, Node

from fuser.integrations.aten.row import arguments
from fuser.integrations.fx.nodes import (
    hints,
    is_one,
    is_static,
    meta_of,
    same_numbers,
    tensor_of,
    value_of,
    values_of,
)
from fuser.integrations.rewrites.index_rules import INDEX_RULES, Rule
from fuser.integrations.rewrites.readers import needs_memory, readers_of, views_if

_aten: Any = torch.ops.aten
_NEGATED = _aten._neg_view.default


def rewrite_graph(graph: Graph) -> int:
    """Rewrite in place; returns how many nodes were replaced."""
    changes = sum(_apply(rules, graph) for rules in (_RULES, _AFTERWARDS))
    graph.eliminate_dead_code()
    return changes


def name_conjugates(graph: Graph) -> None:
    """Let inputs that are lazy conjugates or negations be read as what they are made of.

    x       ->     _conj(_conj(x))     the inner one is torch's, and lies in memory as it is
    """
    for node in graph.find_nodes(op="placeholder"):
        value = meta_of(node)
        if not isinstance(value, torch.Tensor):
            continue
        for lazy, view in ((value.is_conj(), _aten._conj.default), (value.is_neg(), _NEGATED)):
            if lazy:
                _name(node, view)


def _name(node: Node, view: Any) -> None:
    readers = list(node.users)
    with node.graph.inserting_after(node):
        plain = node.graph.call_function(view, (node,))
    plain.meta["val"] = view(tensor_of(node))
    with node.graph.inserting_after(plain):
        meant = node.graph.call_function(view, (plain,))
    meant.meta["val"] = tensor_of(node)
    for reader in readers:
        reader.replace_input_with(node, meant)


def _apply(rules: Mapping[Any, Rule], graph: Graph) -> int:
    changes = 0
    for node in list(graph.nodes):
        rule = rules.get(node.target)
        if rule is None or not isinstance(meta_of(node), torch.Tensor):
            continue
        with graph.inserting_before(node):
            new = rule(node)
        if new is None:
            continue
        if new.op == "call_function" and "val" not in new.meta:
            new.meta = dict(node.meta)
        with graph.inserting_before(node):
            placed = _placed(node, new)
        if placed is not None:
            node.replace_all_uses_with(placed)
            changes += 1
    return changes


def _placed(node: Node, new: Node) -> Node | None:
    """What replaces a node by another that has its elements, perhaps elsewhere: views that follow
    lie where those then do, and torch, which reads in the order of memory, finds the order it was
    traced with. A copy where that cannot be; None where no copy lies as the node does."""
    old, tensor = tensor_of(node), tensor_of(new)
    begins = same_numbers([old.storage_offset()], [tensor.storage_offset()])
    if begins and same_numbers(old.stride(), tensor.stride()):
        return new
    found = views_if(node, tensor)
    if found is None or (readers_of(node).torch and not _is_in_order(old, tensor)):
        return _laid_out(node, new)
    for view, made in found.items():
        if view is not node:
            view.meta["val"] = made
    return new


def _is_in_order(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether the dimensions of a tensor are to each other in memory as those of another one."""
    sizes, before, after = map(hints, (old.shape, old.stride(), new.stride()))
    long = [dim for dim, size in enumerate(sizes) if size > 1]
    return sorted(long, key=lambda dim: -before[dim]) == sorted(long, key=lambda d: -after[d])


def _clone(node: Node) -> Node | None:
    """What is copied, if it lies as the copy does; a copy that is returned stays one."""
    source = cast("Node", node.args[0])
    old, new = tensor_of(source), tensor_of(node)
    if not same_numbers(old.stride(), new.stride()) or needs_memory(node, source):
        return None
    return source if _same_laziness(old, new) else None


def _same_laziness(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether both are lazy conjugates or negations, or neither: a copy of one is none, and torch
    has no view of one as pairs of numbers."""
    return (old.is_conj(), old.is_neg()) == (new.is_conj(), new.is_neg())


def _add(node: Node) -> Node | None:
    """The whole numbers that 0 is added to, as to the positions of words: a range is computed where
    it is read, and what is read at it is found without it; a sum of one would be stored."""
    source, number = node.args[0], node.args[1]
    if not isinstance(source, Node) or type(number) is not int or number:
        return None
    old, new = tensor_of(source), tensor_of(node)
    alike = old.dtype is new.dtype and not old.is_floating_point() and not old.is_complex()
    return _clone(node) if alike else None


def _copy(node: Node) -> Node | None:
    """What is copied, as `clone` is: gradients of writes to a part of a tensor are copied into
    memory that torch allocates, or that was computed for nothing else."""
    return _instead(node, cast("Node", node.args[1]))


def _slice(node: Node) -> Node | None:
    """What all of is shown: tracing leaves such slices out only where sizes are known."""
    source = cast("Node", node.args[0])
    old, new = tensor_of(source), tensor_of(node)
    alike = same_numbers(old.shape, new.shape) and same_numbers(old.stride(), new.stride())
    return source if alike and not needs_memory(node, source) else None


def _slice_scatter(node: Node) -> Node | None:
    """What is written, where that is to all places: `x[:, at] = y` writes to all of the first
    dimension, whose size may be open. Places compared with sizes would be a gather."""
    given = arguments(node)
    return _instead(node, given["src"]) if given["step"] == 1 else None


def _instead(node: Node, source: Node) -> Node | None:
    """A tensor in the place of another one that has its elements, if sizes and types agree."""
    old, new = tensor_of(source), tensor_of(node)
    if old.dtype != new.dtype or old.device != new.device or not same_numbers(old.shape, new.shape):
        return None
    placed = source if same_numbers(old.stride(), new.stride()) else _laid_out(node, source)
    if placed is None:
        return None
    if _same_laziness(tensor_of(placed), new) and not needs_memory(node, source):
        return placed
    return node.graph.call_function(_aten.clone.default, (placed,))


def _laid_out(node: Node, source: Node) -> Node | None:
    """A copy of a tensor that lies as the node's: `clone` alone would lie as what it copies, and
    where torch runs them, views of it fail. None where the node's is not dense."""
    strides = hints(tensor_of(node).stride())
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    back = sorted(range(len(order)), key=order.__getitem__)
    contiguous: dict[str, Any] = {"memory_format": torch.contiguous_format}
    rows = _called(node, _aten.permute.default, (source, order), {})
    copied = _called(node, _aten.clone.default, (rows,), contiguous)
    new = _called(node, _aten.permute.default, (copied, back), {})
    return new if same_numbers(tensor_of(new).stride(), tensor_of(node).stride()) else None


def _called(node: Node, target: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Node:
    """A new node of the same direction and line as another, with the tensor it makes."""
    new = node.graph.call_function(target, args, options)
    new.meta = {**node.meta, "val": target(*values_of(args), **options)}
    return new


def _as_strided(node: Node) -> Node | None:
    """A reshape where that is what it does. torch ends a mean over all of an image so, for images
    whose channels lie together in memory, to give strides to dimensions of one element."""
    given = arguments(node)
    source = given["self"]
    if needs_memory(node, source) or not _is_all_of(tensor_of(source), given):
        return None
    return node.graph.call_function(_aten.view.default, (source, given["size"]))


def _as_strided_scatter(node: Node) -> Node | None:
    """The gradient of `as_strided`: all of memory, in one dimension, is written to."""
    given = arguments(node)
    source, whole = given["src"], tensor_of(given["self"])
    rows = _in_rows(tensor_of(source).shape, tensor_of(source).stride())
    if needs_memory(node, source) or not rows or whole.dim() != 1 or not _is_all_of(whole, given):
        return None
    return node.graph.call_function(_aten.view.default, (source, [-1]))


def _is_all_of(x: torch.Tensor, given: Mapping[str, Any]) -> bool:
    """Whether sizes and strides are those of all elements of `x`, as they lie one after another."""
    sizes, strides = (list(map(value_of, given[name])) for name in ("size", "stride"))
    begins = given["storage_offset"] is None or same_numbers(
        [value_of(given["storage_offset"])], [x.storage_offset()]
    )
    as_many = same_numbers([math.prod(sizes)], [x.numel()])
    return begins and as_many and _in_rows(x.shape, x.stride()) and _in_rows(sizes, strides)


def _in_rows(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether strides are a contiguous tensor's; those of one element may be any."""
    inner: Any = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if not is_one(size) and not same_numbers([stride], [inner]):
            return False
        inner = inner * size
    return True


def _full_like(node: Node) -> Node | None:
    """`full` of sizes that are numbers, so that nothing is kept only for its sizes."""
    new = tensor_of(node)
    if not all(map(is_static, new.shape)) or not new.is_contiguous():
        return None
    options: Any = {"dtype": new.dtype, "device": new.device, "pin_memory": False}
    args = (list(map(int, new.shape)), node.args[1])
    return node.graph.call_function(_aten.full.default, args, options)


def _addmm(node: Node) -> Node | None:
    """The bias added where the product is read.

    On the processor torch copies a float bias to each row of the result first, and the product adds
    to that: the result is written twice and read once more. Of 16-bit types, and on CUDA, the
    product adds it to what it holds in registers.
    """
    given = arguments(node)
    bias, result = tensor_of(given["self"]), tensor_of(node)
    if result.device.type != "cpu" or result.dtype not in (torch.float32, torch.float64):
        return None
    if bias.dtype != result.dtype or (given["alpha"], given["beta"]) != (1, 1):
        return None
    read = readers_of(node)
    if read.torch or not read.partitions:
        return None
    product = node.graph.call_function(_aten.mm.default, (given["mat1"], given["mat2"]))
    product.meta = dict(node.meta)
    return node.graph.call_function(_aten.add.Tensor, (product, given["self"]))


_RULES: Mapping[Any, Rule] = {
    **INDEX_RULES,
    _aten.add.Tensor: _add,
    _aten.clone.default: _clone,
    _aten.copy.default: _copy,
    _aten.full_like.default: _full_like,
    _aten.slice.Tensor: _slice,
    _aten.slice_scatter.default: _slice_scatter,
    _aten.as_strided.default: _as_strided,
    _aten.as_strided_scatter.default: _as_strided_scatter,
}
_AFTERWARDS: Mapping[Any, Rule] = {_aten.addmm.default: _addmm}
"""Of graphs whose copies that copy nothing are gone: they would stand between products."""
