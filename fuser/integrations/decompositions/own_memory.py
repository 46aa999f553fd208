"""Results of decompositions in memory of their own.

Where nothing is left to compute, as of windows of one element or where nothing is dropped, a
decomposition may return what it was given. torch's kernels make tensors of their own even then, and
their callers may write to these. Copies that nobody has to tell from what they copy are removed
again (`rewrites/joint.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_IMPLICIT = "CompositeImplicitAutograd"
_aten: Any = torch.ops.aten

_VIEWS = (_aten._unsafe_view, _aten.unsafe_split, _aten.unsafe_split_with_sizes)
"""What is in an operand's memory, though torch declares otherwise: nobody is to write to it."""


def in_own_memory(found: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The decompositions, of operations that make tensors, with results that are no operands."""
    return {
        operation: _apart(decomposition) if _makes_tensors(operation) else decomposition
        for operation, decomposition in found.items()
    }


def _makes_tensors(operation: Any) -> bool:
    """Whether no result is declared to be in an operand's memory; of compositions, torch's own
    tracing sees which are."""
    schema = getattr(operation, "_schema", None)
    if schema is None or schema.is_mutable or any(each.alias_info for each in schema.returns):
        return False
    if operation.overloadpacket in _VIEWS:
        return False
    return not _C._dispatch_has_kernel_for_dispatch_key(operation.name(), _IMPLICIT)


def _apart(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decomposition)
    def decomposed(*operands: Any, **options: Any) -> Any:
        made = decomposition(*operands, **options)
        leaves: list[Any] = tree_leaves((operands, options))
        taken: list[torch.Tensor] = [each for each in leaves if isinstance(each, torch.Tensor)]
        return tree_map(functools.partial(_own, taken), made)

    return decomposed


def _own(taken: list[torch.Tensor], made: Any) -> Any:
    """A result, or a copy where its memory is `taken`; its own is so afterwards."""
    if not isinstance(made, torch.Tensor):
        return made
    own = torch.clone(made) if any(_C._is_alias_of(made, each) for each in taken) else made
    taken.append(own)
    return own
