"""Scaled dot product attention as torch's flash kernels compute it, and its gradients.

`attention_types.py` says what their operands are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from fuser.errors import ArgumentError
from fuser.ir.attention_types import check_dropout

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
    check_dropout("sdpfa_fwd", dropout_p)
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
        heads = map(_as_taken, (query, key, value))
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
    check_dropout("sdpfa_bwd", dropout_p)
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
        *map(_as_taken, tensors),
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
        raise ArgumentError("sdpfa_bwd", "dropout_p", drop, expected)
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


def _as_taken(tensor: torch.Tensor) -> torch.Tensor:
    """Heads as CUDA's flash kernels take them: of whole multiples, their elements side by side."""
    filled = torch.nn.functional.pad(tensor, (0, -tensor.shape[-1] % HEAD_MULTIPLE))
    return filled if filled.stride(-1) == 1 else filled.contiguous()
