"""Elements as another type, and types that torch moves: the same on every version of torch."""

from __future__ import annotations

import torch


def converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`tensor` as `dtype`; a complex tensor gives its real part.

    What is too large for float8_e4m3fn becomes its largest number; older versions make it NaN.
    """
    if tensor.is_complex() and not dtype.is_complex:
        if dtype is torch.bool:
            return tensor != 0
        tensor = torch.real(tensor).clone()  # a view, which a cast is not
    if dtype is torch.float8_e4m3fn and tensor.dtype is not dtype:
        largest = torch.finfo(dtype).max
        tensor = tensor.float().clamp(-largest, largest)
    return tensor.to(dtype)


def movable(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or the bits of 8-bit floats and of unsigned integers of 64 bits.

    torch does not `flip`, `gather` and `scatter` these, nor, on CUDA, choose between the latter.
    """
    if tensor.dtype is torch.uint64:
        return tensor.view(torch.int64)
    float8 = tensor.is_floating_point() and tensor.itemsize == 1
    return tensor.view(torch.uint8) if float8 else tensor
