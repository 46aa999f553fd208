"""Types of operands that torch's kernels raise errors for.

Tracing does not ask the kernels: some have no code for a type, or want operands of one type, or no
truth values (`x - mask`). What torch would refuse at the call is left to it, so that it says so.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from fuser.integrations.aten.row import Row, arguments
from fuser.integrations.fx.nodes import meta_of, tensors_of

_OF_THE_RESULT = {"device", "layout", "memory_format", "non_blocking", "pin_memory"}
"""Arguments that do not decide what a kernel computes."""


def asking_torch(row: Row) -> Row:
    """A row of an operation on elements that leaves to torch what torch has no kernel for."""

    def refusal(node: Node, **given: Any) -> str | None:
        refused = None if row.refuse is None else row.refuse(node, **given)
        return refused or _torchs_error(node)

    return replace(row, refuse=refusal)


def _torchs_error(node: Node) -> str | None:
    """What torch says to one element of each operand on the processor; None where it computes."""
    tensors = [
        tensor for each in (node, *node.all_input_nodes) for tensor in tensors_of(meta_of(each))
    ]
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return None
    given = {n: each for n, each in arguments(node).items() if n not in _OF_THE_RESULT}
    kinds = tuple((name, _kind(value)) for name, value in given.items())
    return _said(node.target, kinds)


_Kind = tuple[Hashable, ...]


def _kind(given: Any) -> _Kind:
    """What a kernel is chosen by: of tensors the type, and whether they are numbers."""
    value = meta_of(given) if isinstance(given, Node) else given
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, value.dim() > 0
    for name, number, types in _NUMBERS:
        if isinstance(value, types):
            return name, number, 0
    return "other", cast("Hashable", value), 0


_NUMBERS = (
    ("bool", True, (bool, torch.SymBool)),
    ("int", 1, (int, torch.SymInt)),
    ("float", 1.0, (float, torch.SymFloat)),
)
"""One for all numbers of a type; equal ones are told apart by the type's name."""


@functools.lru_cache(maxsize=4096)
def _said(overload: Any, kinds: tuple[tuple[str, _Kind], ...]) -> str | None:
    with unset_fake_temporarily(), disable_proxy_modes_tracing(), torch.no_grad():
        try:
            overload(**{name: _example(*kind) for name, kind in kinds})
        except (RuntimeError, TypeError) as error:
            return str(error).partition("\n")[0]
    return None


def _example(kind: Any, value: Any, rank: Any) -> Any:
    return torch.ones([1] * rank, dtype=value) if kind == "tensor" else value
