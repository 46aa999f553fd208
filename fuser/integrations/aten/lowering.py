"""Writes FX nodes into a definition: what the rows of the ATen table are given.

ATen's types are implicit. Arithmetic on 16-bit floats stays in float32 until a value leaves the
partition or its type is asked for, so values in between are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch.fx import Node

from fuser.errors import ArgumentError, ArgumentTypeError
from fuser.frontend.definition import FusionDefinition
from fuser.frontend.handles import Handle, Operand, Tensor
from fuser.integrations.aten.layouts import wanted_orders
from fuser.integrations.fx.nodes import data_type, meta_of, static_sizes, tensor_of
from fuser.ir.dtypes import DataType
from fuser.ir.result_shapes import same_sizes

Results = Handle | tuple[Handle, ...]


class Lowering:
    """The handles of nodes written so far, and how arguments of the next one are read."""

    def __init__(self, fd: FusionDefinition) -> None:
        self.fd = fd
        self.ops = fd.ops
        self._handles: dict[Node, Results] = {}
        self._exact: dict[Node, Handle] = {}
        self._node: Node | None = None
        self._declared: list[Node] = []
        self._replaced: list[tuple[Node, Node]] = []

    # -- inputs and outputs ----------------------------------------------------------------------

    def declare(self, node: Node) -> None:
        """The next input: a tensor of any strides, or an integer."""
        value = meta_of(node)
        if isinstance(value, torch.Tensor):
            handle = self.fd.define_tensor(
                shape=static_sizes(value), contiguity=False, dtype=data_type(value.dtype)
            )
        else:
            floating = isinstance(value, float | torch.SymFloat)
            kind = DataType.Double if floating else DataType.Int
            kind = DataType.Bool if isinstance(value, bool | torch.SymBool) else kind
            handle = self.fd.define_scalar(None, dtype=kind)
        self._declared.append(node)
        self._handles[node] = handle

    def outputs(self, nodes: Sequence[Node]) -> None:
        """All outputs, in the layouts that tracing gave them; then what replaces inputs."""
        handles = [self.exact(node) for node in nodes]
        given = {self.tensor(node).value: meta_of(node) for node in self._declared}
        results = [
            (handle.value, tensor_of(node)) for handle, node in zip(handles, nodes, strict=True)
        ]
        orders = wanted_orders(self.fd.fusion, given, results)
        for handle, order in zip(handles, orders, strict=True):
            self.fd.add_output(handle, stride_order=order)

        for given, node in self._replaced:
            self.fd.add_output(self.exact(node), alias_input=self.tensor(given))

    def replace_input(self, given: Node, node: Node) -> None:
        """What a node makes is written into an input in the end."""
        self._replaced.append((given, node))

    # -- nodes -----------------------------------------------------------------------------------

    def write(self, node: Node, results: Callable[[], Results]) -> None:
        """The operations of one node. Raises the front end's errors, and ArgumentError where the
        result has not the sizes that torch says."""
        self._node = node
        made = results()
        if isinstance(made, tuple):
            metas = cast("Sequence[torch.Tensor]", meta_of(node))
            self._handles[node] = tuple(map(self._fit, made, metas))
        else:
            self._handles[node] = self._fit(made, tensor_of(node))

    def take(self, node: Node) -> None:
        """One of several results of a node: `getitem(source, place)`."""
        source, place = cast("tuple[Node, int]", node.args)
        results = self._handles[source]
        assert isinstance(results, tuple), node
        self._handles[node] = results[place]

    @property
    def out(self) -> torch.Tensor:
        """What tracing says of the result of the node being written."""
        assert self._node is not None
        value = meta_of(self._node)
        return cast("Any", value) if isinstance(value, torch.Tensor) else cast("Any", value)[0]

    @property
    def dtype(self) -> DataType:
        """The element type of the result of the node being written."""
        return data_type(self.out.dtype)

    def _fit(self, handle: Handle, meta: torch.Tensor) -> Handle:
        """`handle` in the type that torch says, or the one it is computed in."""
        wanted = data_type(meta.dtype)
        if not isinstance(handle, Tensor):
            handle = self.ops.full([], handle, wanted)
        expected, sizes = static_sizes(meta), handle.value.shape
        if not same_sizes(sizes, expected):
            raise ArgumentError(str(self._node), "sizes", sizes, f"torch {expected}")
        if handle.dtype() not in (wanted, wanted.compute):
            handle = self.ops.cast(handle, wanted)
        # Of a part of an open dimension, tracing may know the size, which who reads it asks for.
        known = [want if have < 0 else -1 for have, want in zip(sizes, expected, strict=True)]
        return self.ops.expand(handle, known) if any(size >= 0 for size in known) else handle

    # -- arguments -------------------------------------------------------------------------------

    def operand(self, argument: object) -> Operand:
        """A tensor, a scalar input or a number."""
        if isinstance(argument, Node):
            handle = self._handles[argument]
            assert isinstance(handle, Handle)
            return handle
        return cast("Operand", argument)

    def tensor(self, argument: object) -> Handle:
        """A tensor; 16-bit floats perhaps as the float32 they were computed in.

        Raises ArgumentTypeError for a number, which torch takes in the place of most tensors.
        """
        if not isinstance(argument, Node):
            raise ArgumentTypeError(str(self._node), "an operand", argument, "a tensor")
        handle = self._handles[argument]
        assert isinstance(handle, Handle)
        return handle

    def exact(self, argument: object) -> Handle:
        """A tensor in its own type. Raises ArgumentTypeError."""
        handle = self.tensor(argument)
        assert isinstance(argument, Node)
        wanted = data_type(tensor_of(argument).dtype)
        if handle.dtype() is wanted:
            return handle
        if argument not in self._exact:
            self._exact[argument] = self.ops.cast(handle, wanted)
        return self._exact[argument]

    def extent(self, argument: object) -> int | Handle:
        """A size: a number, or a scalar input."""
        return cast("int | Handle", self.operand(argument))

    def extents(self, arguments: Iterable[object]) -> list[int | Handle]:
        return [self.extent(argument) for argument in arguments]

    def size(self, handle: Handle, dim: int) -> int | Handle:
        """The size of a dimension: a number where it is known."""
        known = handle.value.shape[dim]
        return known if known >= 0 else self.ops.size(handle, dim)

    def sizes(self, handle: Handle) -> list[int | Handle]:
        return [self.size(handle, dim) for dim in range(handle.ndim)]

    def with_rank(self, handle: Handle, rank: int) -> Handle:
        """A tensor with as many dimensions; those that it lacks are in front."""
        new = rank - handle.ndim
        return self.ops.broadcast(handle, [dim < new for dim in range(rank)]) if new > 0 else handle

    def expanded(self, handle: Handle, sizes: Sequence[int | Handle]) -> Handle:
        """A tensor under sizes that it is broadcast to."""
        return self.ops.expand(self.with_rank(handle, len(sizes)), sizes) if sizes else handle

    def product(self, sizes: Iterable[int | Handle]) -> int | Handle:
        """Sizes multiplied: a number where all are known."""
        listed = list(sizes)
        total: int | Handle = math.prod(size for size in listed if isinstance(size, int))
        for size in listed:
            if isinstance(size, Handle):
                total = self.ops.mul(size, total)
        return total
