"""What pointwise operations mean in torch, where torch has no single function for it.

Operands have the types of the operation's signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from fuser.ir.conversions import movable

Reference = Callable[..., torch.Tensor]

_normal_quantile = cast("Reference", torch.special.ndtri)  # pyright: ignore[reportUnknownMemberType]


def erfcinv(x: torch.Tensor) -> torch.Tensor:
    inverse = -_normal_quantile(x.double() / 2) * 2**-0.5
    return (inverse + 0.0).to(x.dtype)  # of 1 it is 0, not -0


def logical_right_shift(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    bits = x.dtype.itemsize * 8
    keep = torch.bitwise_not(torch.bitwise_left_shift(torch.full_like(x, -1), bits - by))
    shifted = torch.where(by > 0, torch.bitwise_right_shift(x, by) & keep, x)
    return torch.where((by < 0) | (by >= bits), torch.zeros_like(x), shifted)


def trunc_div(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point() or x.is_complex():
        return torch.div(x, y)
    if not x.dtype.is_signed:
        return torch.div(x, y, rounding_mode="trunc")
    # Of the least integer over -1, torch's quotient ends the process.
    is_negation = y == -1
    quotient = torch.div(x, torch.where(is_negation, 1, y), rounding_mode="trunc")
    return torch.where(is_negation, -x, quotient)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bits of a float, as an integer of as many."""
    return x.view({1: torch.uint8, 4: torch.int32, 8: torch.int64}[x.itemsize]).clone()


def float_of_bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.float32).clone()


def double_of_bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.float64).clone()


def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def real(x: torch.Tensor) -> torch.Tensor:
    return torch.real(x).clone()


def imag(x: torch.Tensor) -> torch.Tensor:
    return torch.imag(x).clone()


def where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(condition, movable(x), movable(y)).view(x.dtype)


def threshold(x: torch.Tensor, limit: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.where(x <= limit, value, x)


def addcmul(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return x + value * y * z


def add_alpha(x: torch.Tensor, y: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return x + alpha * y


def divisor_scale(x: torch.Tensor) -> torch.Tensor:
    """A power of two that makes the reciprocal of `x` a normal number."""
    size, one = x.abs(), torch.ones_like(x)
    large = torch.where(size > 2.0**64, one * 2.0**-64, one)
    return torch.where(size < 2.0**-64, one * 2.0**64, large)


def plus_exp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + torch.exp(y)


def normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1.0 + torch.erf(x * 0.5**0.5))


def gelu(x: torch.Tensor) -> torch.Tensor:
    return x * normal_cdf(x)


def erf_plus_one(x: torch.Tensor) -> torch.Tensor:
    return torch.erfc(-x)


def tanh_plus_one(x: torch.Tensor) -> torch.Tensor:
    return 2.0 * torch.sigmoid(2.0 * x)


def quotient_of_scaled(
    x: torch.Tensor, scale: torch.Tensor, scaled: torch.Tensor, _inverse: torch.Tensor
) -> torch.Tensor:
    """`x` by `scaled / scale`."""
    return x * scale / scaled


def largest_rank(x: torch.Tensor) -> torch.Tensor:
    """Where floats of 16 bits come in their order, as int16; NaN comes last."""
    return _in_order(x.view(torch.int16)) - _beyond_infinity(x.dtype)


def smallest_rank(x: torch.Tensor) -> torch.Tensor:
    """The same; NaN comes first."""
    return _in_order(x.view(torch.int16)) + _beyond_infinity(x.dtype)


def half_of_largest_rank(rank: torch.Tensor) -> torch.Tensor:
    return _in_order(rank + _beyond_infinity(torch.float16)).view(torch.float16)


def half_of_smallest_rank(rank: torch.Tensor) -> torch.Tensor:
    return _in_order(rank - _beyond_infinity(torch.float16)).view(torch.float16)


def bfloat16_of_largest_rank(rank: torch.Tensor) -> torch.Tensor:
    return _in_order(rank + _beyond_infinity(torch.bfloat16)).view(torch.bfloat16)


def bfloat16_of_smallest_rank(rank: torch.Tensor) -> torch.Tensor:
    return _in_order(rank - _beyond_infinity(torch.bfloat16)).view(torch.bfloat16)


def _in_order(bits: torch.Tensor) -> torch.Tensor:
    """The bits of floats as integers in the same order, and back: those of negative numbers count
    downwards."""
    return bits ^ ((bits >> 15) & 0x7FFF)


def _beyond_infinity(dtype: torch.dtype) -> int:
    """How many NaN there are of a sign."""
    return 0x7FFF - int(torch.tensor(torch.inf, dtype=dtype).view(torch.int16))


def sub_alpha(x: torch.Tensor, y: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return x - alpha * y
