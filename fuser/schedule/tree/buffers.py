"""Where the tensors of a segment lie, and by what the addresses of their buffers can be divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuser.ir.nodes import Value
from fuser.ir.strided import Strided

Alignments = Mapping[Value, int]
"""For each buffer, a power of two that divides its address, in bytes."""

ACCESS_BYTES = 16
"""The widest that a thread moves at once, and the alignment that it needs for that."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """`memory` of a segment's tensors, in buffers of some `alignments`. What is drawn is in none:
    it begins where its numbers do."""

    memory: Mapping[Value, Strided]
    alignments: Alignments

    def hold(self, tensor: Value) -> bool:
        """Whether a tensor is in memory."""
        return tensor in self.memory

    def alignment(self, tensor: Value) -> int:
        """A power of two that divides the address of a tensor's buffer, in bytes."""
        lies = self.memory.get(tensor)
        return ACCESS_BYTES if lies is None else self.alignments[lies.base]

    def lie_alike(self, one: Value, other: Value) -> bool:
        """Whether both are of one buffer, and of elements of one size."""
        if one not in self.memory or one.dtype.itemsize != other.dtype.itemsize:
            return False
        return self.memory[one].base is self.memory[other].base
