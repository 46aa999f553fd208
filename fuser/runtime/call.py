"""What of a call's inputs a plan depends on: sizes, strides, types, where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.ir.nodes import Number

Inputs = Sequence["torch.Tensor | Number"]
Device = int | str | torch.device | None


def key_of(given: torch.Tensor | Number) -> object:
    """Everything about an input that a plan depends on."""
    if isinstance(given, torch.Tensor):
        lazy = given.is_conj() or given.is_neg()
        aligned = alignment(given)
        return given.shape, given.stride(), given.dtype, given.device, aligned, lazy
    if isinstance(given, int):
        return type(given), given < 0, _width(given)  # whether it fits is checked once for each
    return type(given)


def _width(number: int) -> int:
    """The bits of the smallest of torch's integer types whose size a number fits; 0 for none."""
    bits = (~number if number < 0 else number).bit_length()
    return next((width for width in (7, 8, 15, 31, 63) if bits <= width), 0)


def alignment(tensor: torch.Tensor) -> int:
    """The largest power of two, up to 16, that divides the address."""
    low = tensor.data_ptr() & 15
    return low & -low if low else 16


def overlapping(inputs: Inputs, updated: Sequence[int]) -> tuple[int, ...]:
    """Which of the `updated` inputs, by position, reach into memory that another input spans."""
    spans = [_span(given) for given in inputs]
    return tuple(
        at
        for at in updated
        if any(_meet(spans[at], span) for other, span in enumerate(spans) if other != at)
    )


def _span(given: torch.Tensor | Number) -> tuple[int, int]:
    """The addresses from the first byte of a tensor to past its last one."""
    if not isinstance(given, torch.Tensor) or given.numel() == 0:
        return 0, 0
    reach = sum((n - 1) * s for n, s in zip(given.shape, given.stride(), strict=True))
    start = given.data_ptr()
    return start, start + (reach + 1) * given.element_size()


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def device_of(inputs: Inputs, device: Device) -> torch.device:
    """Where to run: the inputs' device, CUDA before CPU; `device` where there are no tensors."""
    devices = [given.device for given in inputs if isinstance(given, torch.Tensor)]
    cuda = [found for found in devices if found.type == "cuda"]
    found = (cuda or devices or [None])[0]
    if found is not None:
        return found
    if isinstance(device, int):
        return torch.device("cuda", device)
    return torch.device("cpu" if device is None else device)


def describe_input(given: torch.Tensor | Number) -> str:
    """A line for the `fusion_args` dump."""
    if not isinstance(given, torch.Tensor):
        return f"scalar {given!r}"
    sizes, strides = tuple(given.shape), given.stride()
    return f"tensor {given.dtype} sizes {sizes} strides {strides} device {given.device}"
