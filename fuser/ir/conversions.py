"""Elements as another type, and types that torch moves: the same on every version of torch."""

from __future__ import annotations

import torch

from fuser.ir import four_bits
from fuser.ir.dtypes import DataType


def converted(tensor: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """`tensor` as `dtype`; a complex tensor gives its real part.

    What is too large for Float8_e4m3fn becomes its largest number; older versions make it NaN.
    """
    if tensor.is_complex() and not dtype.is_complex:
        if dtype is DataType.Bool:
            return tensor != 0
        tensor = torch.real(tensor).clone()  # a view, which a cast is not
    if dtype is DataType.Float4_e2m1fn:
        tensor = four_bits.rounded(tensor.float())
    elif dtype is DataType.Float8_e4m3fn and tensor.dtype is not dtype.torch:
        largest = torch.finfo(dtype.torch).max
        tensor = tensor.float().clamp(-largest, largest)
    return tensor.to(dtype.torch)


def movable(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or the bits of 8-bit floats and of unsigned integers of 64 bits.

    torch does not `flip`, `gather` and `scatter` these, nor, on CUDA, choose between the latter.
    """
    if tensor.dtype is torch.uint64:
        return tensor.view(torch.int64)
    float8 = tensor.is_floating_point() and tensor.itemsize == 1
    return tensor.view(torch.uint8) if float8 else tensor
