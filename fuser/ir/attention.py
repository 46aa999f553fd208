"""Scaled dot product attention as torch's flash kernels compute it, and its gradients.

query [*batch, heads, queries, head size], key and value [*batch, heads, keys, head size], of one or
more dimensions of batch. The log of the sum of exponentials and the state of the random numbers are
kept for the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch

from fuser.errors import ArgumentError
from fuser.ir import shapes
from fuser.ir.dtype_rules import check_dtype, check_same_dtype, refused
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.result_shapes import same_size
from fuser.ir.types import DYNAMIC, TensorType

Types = tuple[TensorType, ...]
Results = tuple[torch.Tensor, ...]
Kernel = Callable[..., Results]

_aten = torch.ops.aten
_cpu_flash = cast("Kernel", _aten._scaled_dot_product_flash_attention_for_cpu)
_cpu_flash_backward = cast("Kernel", _aten._scaled_dot_product_flash_attention_for_cpu_backward)
_cuda_flash = cast("Kernel", _aten._scaled_dot_product_flash_attention)
_cuda_flash_backward = cast("Kernel", _aten._scaled_dot_product_flash_attention_backward)

HEAD_MULTIPLE = 8
"""CUDA's flash kernels take head sizes that are multiples of this; zeros fill up the others."""

LARGEST_HEAD = 256
"""The largest that they take."""

_SEEDS = 1 << 62
"""Seeds of the CPU's dropout are below this."""


# -- types ---------------------------------------------------------------------------------------


def forward_types(
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    mask: Value | None,
    *,
    dropout_p: float | Value | None,
    is_causal: bool | Value | None,
    scale: float | Value | None,
) -> Types:
    """Output, logsumexp (Float, or Double), and Int tensors of sizes [2] and []."""
    scores, width = _score_sizes("sdpfa_fwd", query, key, value)
    for name, added in {"bias": bias, "mask": mask}.items():
        if added is not None:
            _check_broadcasts(name, added, scores)
    if bias is not None and not bias.dtype.is_floating:
        raise refused("sdpfa_fwd", "the bias is added, so it must be floating", [bias])
    if mask is not None and mask.dtype is not DataType.Bool:
        raise refused("sdpfa_fwd", "the mask says what to keep, so it must be Bool", [mask])
    _check_dropout("sdpfa_fwd", dropout_p)
    return (
        TensorType(query.dtype, (*scores[:-1], width)),
        TensorType(query.dtype.compute, scores[:-1]),
        TensorType(DataType.Int, (2,)),
        TensorType(DataType.Int, ()),
    )


def backward_types(
    grad_output: Value,
    query: Value,
    key: Value,
    value: Value,
    output: Value,
    logsumexp: Value,
    philox_seed: Value,
    philox_offset: Value,
    *,
    dropout_p: float | Value | None,
    is_causal: bool | Value | None,
    scale: float | Value | None,
) -> Types:
    """The gradients of query, key and value."""
    scores, width = _score_sizes("sdpfa_bwd", query, key, value)
    check_same_dtype("sdpfa_bwd", (query, grad_output, output))
    kept = query.dtype.compute
    if logsumexp.dtype is not kept or {philox_seed.dtype, philox_offset.dtype} != {DataType.Int}:
        reason = f"logsumexp must be {kept.name}, and philox_seed and philox_offset Int"
        raise refused("sdpfa_bwd", reason, [logsumexp, philox_seed, philox_offset])
    _check_sizes("grad_output", grad_output, (*scores[:-1], width))
    _check_sizes("output", output, (*scores[:-1], width))
    _check_sizes("logsumexp", logsumexp, scores[:-1])
    _check_sizes("philox_seed", philox_seed, (2,))
    _check_sizes("philox_offset", philox_offset, ())
    _check_dropout("sdpfa_bwd", dropout_p)
    return tuple(TensorType(arg.dtype, arg.shape) for arg in (query, key, value))


def _score_sizes(
    operation: str, query: Value, key: Value, value: Value
) -> tuple[tuple[int, ...], int]:
    """The sizes of query @ key, [*batch, heads, queries, keys], and the size of a head."""
    heads = (query, key, value)
    check_same_dtype(operation, heads)
    check_dtype(operation, query.dtype, heads)
    sizes = [arg.shape for arg in heads]
    rank = len(query.shape)
    expected = "expected [batch, heads, sequence, head size], equal but for query's sequence"
    if rank < 4 or any(len(shape) != rank for shape in sizes):
        raise _argument(operation, "query, key, value", sizes, expected)
    first, second, third = sizes
    beside = (*range(rank - 2), rank - 1)
    shared = [beside, tuple(range(rank)), beside]
    pairs = [(first, second), (second, third), (first, third)]
    for dims, (left, right) in zip(shared, pairs, strict=True):
        if not all(same_size(left[dim], right[dim]) for dim in dims):
            raise _argument(operation, "query, key, value", sizes, expected)
    *groups, width = (_known(*(shape[dim] for shape in sizes)) for dim in beside)
    return (*groups, first[-2], _known(second[-2], third[-2])), width


def _known(*sizes: int) -> int:
    return next((size for size in sizes if size != DYNAMIC), DYNAMIC)


def _check_broadcasts(name: str, added: Value, scores: tuple[int, ...]) -> None:
    """Raises BroadcastError or ArgumentError unless `added` broadcasts to the sizes of `scores`."""
    joined = shapes.broadcast("sdpfa_fwd", [scores, added.shape])
    if len(joined) != len(scores) or not all(map(same_size, joined, scores)):
        expected = f"expected sizes that broadcast to {list(scores)}"
        raise _argument("sdpfa_fwd", name, [added.shape], expected)


def _check_sizes(name: str, given: Value, sizes: tuple[int, ...]) -> None:
    if len(given.shape) != len(sizes) or not all(map(same_size, given.shape, sizes)):
        expected = f"expected sizes {list(sizes)}, as sdpfa_fwd gives them"
        raise _argument("sdpfa_bwd", name, [given.shape], expected)


def _check_dropout(operation: str, dropout_p: float | Value | None) -> None:
    if not isinstance(dropout_p, Value | None) and not 0 <= dropout_p < 1:
        expected = "expected a probability: 0 or more, and less than 1"
        raise ArgumentError(
            operation=operation, argument="dropout_p", got=dropout_p, expected=expected
        )


def _argument(
    operation: str, argument: str, sizes: Sequence[tuple[int, ...]], expected: str
) -> ArgumentError:
    got = ", ".join(str(list(shape)) for shape in sizes)
    return ArgumentError(operation=operation, argument=argument, got=got, expected=expected)


# -- values --------------------------------------------------------------------------------------


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    mask: torch.Tensor | None,
    *,
    dropout_p: float | None,
    is_causal: bool | None,
    scale: float | None,
) -> Results:
    """Output, logsumexp and the state of the random numbers.

    Flash kernels compute it, for which all dimensions of batch are one. But they do not take empty
    tensors, on the CPU no dropout, and on CUDA no bias or mask, which `sdpfa_bwd` does not take
    either, nor what `flash_takes` refuses.
    """
    _check_dropout("sdpfa_fwd", dropout_p)
    added = _added(query, key, bias, mask)
    if query.dim() > 4:
        one = None if added is None else added.flatten(0, -4)
        output, logsumexp, *state = forward(
            *(query.flatten(0, -4), key.flatten(0, -4), value.flatten(0, -4), one, None),
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
        )
        return (*_in_batch(query, output, logsumexp), *state)
    drop, causal = dropout_p or 0.0, bool(is_causal)
    on_cpu = query.device.type in ("cpu", "meta")
    by_flash = on_cpu or (added is None and flash_takes(query, key, causal=causal))
    if drop and query.is_cpu:
        seed = torch.randint(_SEEDS, (2,), device="cpu")
        output, logsumexp = _plain(query, key, value, added, drop, causal, scale, seed)
        return output, logsumexp, seed, seed.new_zeros(())
    if query.numel() == 0 or key.numel() == 0 or not by_flash:
        output, logsumexp = _plain(query, key, value, added, drop, causal, scale)
    elif on_cpu:
        output, logsumexp = _cpu_flash(
            query, key, value, drop, causal, attn_mask=added, scale=scale
        )
    else:
        heads = map(_filled_up, (query, key, value))
        results = _cuda_flash(*heads, drop, causal, scale=_scale(query, scale))
        output, logsumexp, seed, offset = (results[place] for place in (0, 1, 6, 7))
        whole = output[..., : query.shape[-1]]
        return whole, logsumexp, seed.view(torch.int64), offset.view(torch.int64)
    state = torch.zeros(2, dtype=torch.int64, device=query.device)
    return output, logsumexp, state, state.new_zeros(())


def backward(
    grad_output: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    logsumexp: torch.Tensor,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    *,
    dropout_p: float | None,
    is_causal: bool | None,
    scale: float | None,
) -> Results:
    """The gradients of query, key and value, for results of `forward` without bias and mask."""
    _check_dropout("sdpfa_bwd", dropout_p)
    drop, causal = dropout_p or 0.0, bool(is_causal)
    width = query.shape[-1]
    if query.numel() == 0 or key.numel() == 0:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    if query.dim() > 4:
        gradients = backward(
            *(grad_output.flatten(0, -4), query.flatten(0, -4), key.flatten(0, -4)),
            *(value.flatten(0, -4), output.flatten(0, -4), logsumexp.flatten(0, -3)),
            *(philox_seed, philox_offset),
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
        )
        return _in_batch(query, *gradients)
    tensors = (grad_output, query, key, value, output)
    if drop and query.is_cpu:
        return plain_backward(grad_output, query, key, value, drop, causal, scale, philox_seed)
    if query.device.type in ("cpu", "meta"):
        return _cpu_flash_backward(*tensors, logsumexp, drop, causal, scale=scale)
    if not flash_takes(query, key, causal=causal):
        return plain_backward(grad_output, query, key, value, drop, causal, scale)
    gradients = _cuda_flash_backward(
        *map(_filled_up, tensors),
        logsumexp,
        *(None, None, query.shape[2], key.shape[2]),
        *(drop, causal),
        *(philox_seed.view(torch.uint64), philox_offset.view(torch.uint64)),
        scale=_scale(query, scale),
    )
    query_, key_, value_ = (gradient[..., :width] for gradient in gradients)
    return query_, key_, value_


def flash_takes(query: torch.Tensor, key: torch.Tensor, *, causal: bool) -> bool:
    """Whether CUDA's flash kernels compute what torch does: of 16-bit floats, in heads that are not
    too large. Their causal mask ends with the last key, and torch's begins with the first."""
    narrow = query.dtype in (torch.float16, torch.bfloat16)
    same_mask = not causal or query.shape[-2] == key.shape[-2]
    return narrow and same_mask and query.shape[-1] <= LARGEST_HEAD


def plain_backward(
    grad_output: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    drop: float,
    causal: bool,
    scale: float | None,
    seed: torch.Tensor | None = None,
) -> Results:
    """The gradients of `_plain`. Raises ArgumentError for dropout without a seed."""
    if drop and seed is None:
        expected = "expected 0, but for 16-bit floats that flash kernels take"
        raise ArgumentError(
            operation="sdpfa_bwd", argument="dropout_p", got=drop, expected=expected
        )
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        first, second, third = leaves
        output, _ = _plain(first, second, third, None, drop, causal, scale, seed)
    return torch.autograd.grad(output, leaves, grad_output)


def _in_batch(query: torch.Tensor, *results: torch.Tensor) -> Results:
    """Results of one dimension of batch with those that `query` has."""
    batch = query.shape[:-3]
    return tuple(result.reshape(*batch, *result.shape[1:]) for result in results)


def _added(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """Bias and mask as one tensor that is added to the scores, or None."""
    if bias is None and mask is None:
        return None
    added = query.new_zeros(()) if bias is None else bias.to(query.dtype)
    if mask is not None:
        added = torch.where(mask, added, -torch.inf)
    return added.expand(*query.shape[:-1], key.shape[-2])


def _plain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    added: torch.Tensor | None,
    drop: float,
    causal: bool,
    scale: float | None,
    seed: torch.Tensor | None = None,
) -> Results:
    """Output and logsumexp, one operation at a time; a query that may look at nothing gives 0. With
    a seed, dropout keeps the same weights each time."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-1, -2) * _scale(query, scale)
    scores = scores if added is None else scores + added
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    logsumexp = scores.logsumexp(-1)
    weights = scores.softmax(-1).masked_fill((logsumexp == -torch.inf)[..., None], 0)
    if seed is None:
        weights = torch.dropout(weights, drop, train=drop > 0)
    else:
        drawn = torch.Generator().manual_seed(int(seed[0]))
        kept = torch.rand(weights.shape, generator=drawn, device="cpu") >= drop
        weights = weights * kept / (1 - drop)
    return (weights @ value.to(wide)).to(query.dtype), logsumexp


def _scale(query: torch.Tensor, scale: float | None) -> float:
    return scale if scale is not None else max(query.shape[-1], 1) ** -0.5


def _filled_up(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(tensor, (0, -tensor.shape[-1] % HEAD_MULTIPLE))
