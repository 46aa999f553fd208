"""Philox4x32-10 in torch: four 32-bit words from a 64-bit key and a 128-bit counter.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import torch

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Int64 tensors of numbers from 0 to 2^32 - 1."""

_ROUNDS = 10
_FACTORS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_WORD = 0xFFFFFFFF


def philox(key: tuple[int, int], counter: Words) -> Words:
    """The words that the two words of a key make of every counter."""
    x, y, z, w = counter
    for number in range(_ROUNDS):
        first, second = (
            (word + number * step) & _WORD for word, step in zip(key, _KEY_STEPS, strict=True)
        )
        high_x, low_x = _product(x, _FACTORS[0])
        high_z, low_z = _product(z, _FACTORS[1])
        x, y, z, w = high_z ^ y ^ first, low_z, high_x ^ w ^ second, low_x
    return x, y, z, w


def blocks(seed: int, offset: int, count: int, device: torch.device) -> Words:
    """The words of blocks 0 to `count` - 1: the key is the seed, a counter the offset and the
    block's number, each in two words, the lower one first."""
    number = torch.arange(count, device=device)
    lower, upper = (torch.full_like(number, word) for word in _halves(offset))
    return philox(_halves(seed), (lower, upper, number & _WORD, number >> 32))


def _halves(number: int) -> tuple[int, int]:
    """The lower and the upper word of a 64-bit number; negative ones in two's complement."""
    return number & _WORD, (number >> 32) & _WORD


def _product(word: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The upper and the lower word of a product, whose bits int64 holds, if not its sign."""
    product = word * factor
    return (product >> 32) & _WORD, product & _WORD
