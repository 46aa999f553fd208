"""How tensors lie that a graph was seen to read and make."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fuser.runtime.calls.buffers import laid_out
from fuser.runtime.calls.call import alignment
from fuser.schedule import ACCESS_BYTES


@dataclass(frozen=True, slots=True)
class SeenLayout:
    """How a tensor lies that was seen."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    aligned: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> SeenLayout:
        """How it lies."""
        sizes, offset = tuple(tensor.shape), int(tensor.storage_offset())
        return cls(sizes, tensor.stride(), offset, alignment(tensor) == ACCESS_BYTES)

    @property
    def can_be_laid(self) -> bool:
        """Whether a copy can lie so: no elements share a place."""
        return all(stride > 0 for n, stride in zip(self.sizes, self.strides, strict=True) if n > 1)

    def again(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the same sizes, laid as this one, that holds its numbers."""
        return laid_out(tensor.resolve_conj().resolve_neg(), self.strides)
