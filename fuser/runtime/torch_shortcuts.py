"""What torch's generated code calls for speed, where this torch has it: comparing tensors,
allocating and viewing in C, without the parsing of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuser.ir.nodes import Inputs

try:
    from torch._C._dynamo import guards as _guards
except ImportError:  # they are torch's own: without them, calls take longer
    _guards: Any = None

Recognizes = Callable[[Inputs], bool]
Reinterpret = Callable[[torch.Tensor, tuple[int, ...], tuple[int, ...], int], torch.Tensor]
EmptyStrided = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]

_UNALIGNED = 15
"""Bits of an address, of which none is set where any kernel's vectors are aligned."""


def recognizer(inputs: Inputs) -> Recognizes:
    """Whether a call's inputs are tensors of the sizes, strides, dtypes, device and alignment of
    these. It may say no where they are, as for other settings of autograd."""
    make: Any = getattr(_guards, "TensorGuards", None)
    if make is None or not all(isinstance(given, torch.Tensor) for given in inputs):
        return never
    check = make(*inputs, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    count = len(inputs)

    def recognizes(given: Inputs) -> bool:
        return len(given) == count and _are_plain(given) and check(*given)

    return recognizes if _are_plain(inputs) else never


def _are_plain(inputs: Inputs) -> bool:
    """Whether inputs are tensors with memory, aligned for any kernel, that torch's check can ask
    for strides: where it cannot, it ends the process."""
    try:
        for given in inputs:
            if getattr(given, "is_nested", True):
                return False
            at = given.data_ptr()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
            if not at or at & _UNALIGNED:
                return False
    except RuntimeError:  # fake tensors, wrappers of others
        return False
    return True


def never(inputs: Inputs) -> bool:
    """Recognizes nothing."""
    return False


def empty_strided(device: torch.device) -> EmptyStrided:
    """`torch.empty_strided` on a device, which is the current one, without keywords."""
    quick = getattr(_guards, f"_empty_strided_{device.type}", None)
    if quick is not None:
        return quick

    def empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    return empty


def _reinterpret(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> torch.Tensor:
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)


reinterpret: Reinterpret = getattr(_guards, "_reinterpret_tensor", _reinterpret)
"""Elements of a tensor's memory, the first `offset` behind its own first."""
