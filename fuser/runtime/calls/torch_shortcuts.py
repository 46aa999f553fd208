"""What torch's generated code calls for speed, where this torch has it: comparing tensors,
allocating and viewing in C, without the parsing of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
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


def recognizer(inputs: Inputs, apart: Callable[[Sequence[int]], bool] | None = None) -> Recognizes:
    """Whether a call's inputs are tensors of the sizes, strides, dtypes, device and alignment of
    these, and `apart` holds; and the same numbers. It may say no where they are, as for other
    settings of autograd.

    `apart` says of addresses how tensors lie to each other: it is not asked again about the same.
    """
    numbers = {at: n for at, n in enumerate(inputs) if not isinstance(n, torch.Tensor)}
    if not numbers:
        return _tensor_recognizer(inputs, apart)
    if apart is not None or not all(type(number) is int for number in numbers.values()):
        return never
    places = [at for at in range(len(inputs)) if at not in numbers]
    tensors = _tensor_recognizer([inputs[at] for at in places], None)

    def recognizes(given: Inputs) -> bool:
        if len(given) != len(inputs):
            return False
        alike = all(type(given[at]) is int and given[at] == n for at, n in numbers.items())
        return alike and tensors([given[at] for at in places])

    return recognizes


def _tensor_recognizer(inputs: Any, apart: Callable[[Sequence[int]], bool] | None) -> Recognizes:
    make: Any = getattr(_guards, "TensorGuards", None)
    if make is None:
        return never
    check = make(*inputs, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    count, approved = len(inputs), list[int]()
    empty = [place for place, tensor in enumerate(inputs) if tensor.numel() == 0]

    def recognizes(given: Inputs) -> bool:
        nonlocal approved
        if not _may_be_asked(given, count) or not check(*given):
            return False
        at = _addresses(given)
        if at != approved:
            if not _are_aligned(at, empty) or not (apart is None or apart(at)):
                return False
            approved = at
        return True

    return recognizes if _are_aligned(_addresses(inputs), empty) else never


def _may_be_asked(inputs: Inputs, count: int) -> bool:
    """Whether inputs are as many tensors as torch's check may ask for strides; where it may not, as
    of nested tensors, it ends the process."""
    tensors: Any = inputs
    try:
        return [given.is_nested for given in tensors].count(False) == len(tensors) == count
    except AttributeError:  # of numbers
        return False


def _addresses(tensors: Any) -> list[int]:
    """Where tensors lie that have memory, as those that torch's check has passed."""
    return [given.data_ptr() for given in tensors]


def _are_aligned(addresses: Sequence[int], empty: Sequence[int]) -> bool:
    """Whether there is memory at all of them, aligned for any kernel, but for `empty` tensors."""
    if empty:
        addresses = [at for place, at in enumerate(addresses) if place not in empty]
    return 0 not in addresses and not reduce(int.__or__, addresses, 0) & _UNALIGNED


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


def strided_view(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> torch.Tensor:
    """A view of torch's: elements of a tensor's memory, the first `offset` behind its own first."""
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)


reinterpret: Reinterpret = getattr(_guards, "_reinterpret_tensor", strided_view)
"""As `strided_view`, but torch does not know that they share memory."""
