"""What tracing replaces operations by: core ATen's decompositions, and those of what partitions are
to see the inside of.

Of torch's own, some are left out. Gradients of pads that copy elements are given by the places that
were copied: see `known_places.py`. Operations on lists of tensors are those on each of them,
`pools.py` and `image_samples.py` have those of images, `searches.py` those of sorted numbers, and
`compositions.py` others that torch decomposes nowhere, or not as it computes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._decomp import get_decompositions as decompositions_of  # pyright: ignore[reportUnknownVariableType]
from torch._ops import OpOverload

from fuser.integrations.decompositions.compositions import COMPOSITIONS
from fuser.integrations.decompositions.image_samples import grid_sampler_2d
from fuser.integrations.decompositions.own_memory import in_own_memory
from fuser.integrations.decompositions.pools import POOLS
from fuser.integrations.decompositions.result_orders import as_torchs
from fuser.integrations.decompositions.scatter_reductions import SCATTER_REDUCTIONS
from fuser.integrations.decompositions.searches import SEARCHES

_aten: Any = torch.ops.aten


def decompositions() -> dict[Any, Any]:
    """A function of ATen operations for each overload that has one."""
    of_key = torch._C._dispatch_get_registrations_for_dispatch_key  # pyright: ignore[reportPrivateUsage]
    return dict(_decompositions_among(tuple(of_key("CompositeImplicitAutograd"))))


@functools.lru_cache(maxsize=1)
def _decompositions_among(registered: tuple[str, ...]) -> dict[Any, Any]:
    """Looked for once: where more operations are registered, torch may have more."""
    more = [
        _aten._softmax,
        _aten._log_softmax,
        _aten.native_layer_norm,
        _aten.gelu,
        _aten.native_dropout,
        _aten.native_group_norm,
        _aten.native_batch_norm,
        _aten._native_batch_norm_legit,
        _aten._native_batch_norm_legit_functional,
        _aten._native_batch_norm_legit_no_training,
        _aten._batch_norm_with_update_functional,
        _aten._batch_norm_no_update,
        _aten.batch_norm_backward,
        _aten.linalg_vector_norm,
        _aten.dist,
        _aten.ldexp,
        _aten.narrow_copy,
        _aten.permute_copy,
        _aten.unbind_copy,
        _aten.view_copy,
    ]
    found: dict[Any, Any] = {**core_aten_decompositions(), **decompositions_of(more)}
    found.pop(_aten.select_scatter.default, None)  # compares every place; here it is a pad
    # Gives attention weights where its backward wants a logsumexp: for inference only.
    found.pop(_aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    replace = _aten.nan_to_num.default
    found[replace] = _of_real_numbers(found[replace])
    add = _aten.index_add.default
    found[add] = _without_dimensions(found[add])
    found[_aten.grid_sampler_2d.default] = grid_sampler_2d
    found |= {**POOLS, **SEARCHES, **SCATTER_REDUCTIONS, **COMPOSITIONS}
    found |= {**_PADS, **dict(_of_lists())}
    return in_own_memory(as_torchs(found))


def _of_real_numbers(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that raises for complex numbers, of which torch has the operation."""

    def decomposed(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        return NotImplemented if x.is_complex() else decomposition(x, *args, **options)

    return decomposed


def _without_dimensions(index_add: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of `index_add` where the tensor or the index is without dimensions. Elsewhere
    it stays, so that an input is updated by torch's operation of that name. Of the `index_put` that
    torch makes of it, it is not known that no index counts from the end.

    An index without dimensions is a list of one place: by torch's decomposition, the dimension goes
    that the source has for it.
    """

    def decomposed(x: torch.Tensor, dim: int, index: torch.Tensor, *args: Any, **of: Any) -> Any:
        if not x.dim():
            return index_add(x, dim, index.reshape(1), *args, **of)
        if not index.dim():
            return torch.index_add(x, dim, index.reshape(1), *args, **of)
        return NotImplemented

    return decomposed


# -- pads ----------------------------------------------------------------------------------------

Places = Callable[[torch.Tensor, int], torch.Tensor]
"""Which element of a dimension is at each place of the padded one, whose places begin below 0."""


def _reflected(place: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - torch.abs((size - 1) - torch.abs(place))


def _replicated(place: torch.Tensor, size: int) -> torch.Tensor:
    return torch.clamp(place, 0, size - 1)


def _gradient(places: Places) -> Callable[..., torch.Tensor]:
    """The gradient of a pad: what was padded is added up where it came from."""

    def backward(grad: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
        widths = zip(padding[::2], padding[1::2], strict=True)
        for number, (before, after) in enumerate(widths):
            dim = x.dim() - 1 - number
            size = x.shape[dim]
            at = torch.arange(-before, size + after, device=x.device)
            shape = [*grad.shape[:dim], size, *grad.shape[dim + 1 :]]
            zeros = torch.full(shape, 0, dtype=grad.dtype, device=grad.device)
            grad = torch.index_add(zeros, dim, places(at, size), grad)
        return grad

    return backward


_PADS: dict[Any, Any] = {
    getattr(_aten, f"{kind}_pad{rank}d_backward").default: _gradient(places)
    for kind, places in (("reflection", _reflected), ("replication", _replicated))
    for rank in (1, 2, 3)
}


# -- lists of tensors ----------------------------------------------------------------------------


def _of_lists() -> Iterator[tuple[OpOverload, Callable[..., Any]]]:
    """Each `_foreach_*` that makes new tensors, as the operation on one of them, for all."""
    for name in (name for name in dir(_aten) if name.startswith("_foreach_")):
        packet: Any = getattr(_aten, name)
        of_one = _OF_ONE.get(name) or getattr(_aten, name.removeprefix("_foreach_"), None)
        if of_one is None:
            continue
        for overload in packet.overloads():
            operation: Any = getattr(packet, overload)
            if not operation._schema.is_mutable and not _has_scalars_in_tensor(operation):
                yield operation, _for_each(operation, of_one)


def _has_scalars_in_tensor(operation: Any) -> bool:
    """Whether what is a number for one tensor is an element of another tensor for all of them."""
    return any(a.name == "scalars" and str(a.type) == "Tensor" for a in operation._schema.arguments)


def _for_each(operation: Any, of_one: Callable[..., Any]) -> Callable[..., list[Any]]:
    declared = operation._schema.arguments
    keywords = {argument.name for argument in declared if argument.kwarg_only} | {"dtype"}
    if "addc" in operation.name():
        keywords.add("value")

    def each(*args: Any, **options: Any) -> list[Any]:
        names = (argument.name for argument in declared)
        given = dict(zip(names, args, strict=False)) | options
        count = next(len(value) for value in given.values() if _is_list(value))
        return [_one(of_one, given, keywords, number) for number in range(count)]

    return each


def _one(of_one: Callable[..., Any], given: dict[str, Any], keywords: set[str], number: int) -> Any:
    """The operation on tensor `number` of each list, with its own scalar where there is a list."""
    positional: list[Any] = []
    options: dict[str, Any] = {}
    for name, value in given.items():
        own, called = value[number] if _is_list(value) else value, _SCALARS.get(name, name)
        if called in keywords:
            options[called] = own
        else:
            positional.append(own)
    return of_one(*positional, **options)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


_SCALARS = {"scalars": "value"}
"""Lists of numbers, by what a single one is called."""

_OF_ONE: dict[str, Callable[..., Any]] = {
    "_foreach_norm": _aten.linalg_vector_norm,
    "_foreach_zero": torch.zeros_like,
    "_foreach_maximum": torch.clamp_min,
    "_foreach_minimum": torch.clamp_max,
}
"""The operations on one tensor that are called otherwise, or take no numbers."""
