"""Stand-ins for strides that only the inputs tell, so that equal ones are known to be equal."""

from __future__ import annotations

from fuser.ir.strided import Strided

_MADE_UP = 1 << 60
"""Strides from here on stand for unknown ones: they differ, and none is a multiple of another."""


class UnknownStrides:
    """Made-up strides, the same each time for what is known to have the same strides."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[int, ...]] = {}
        self._dense: dict[int, tuple[int, int]] = {}
        self._next = _MADE_UP

    def of(self, what: object, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Strides for `sizes`, decided by `what`."""
        key = (what, sizes)
        if key not in self._made:
            self._made[key] = tuple(range(self._next, self._next + len(sizes)))
            self._next += len(sizes)
        return self._made[key]

    def like(self, memory: Strided) -> tuple[int, ...]:
        """Those of a dense tensor, its dimensions ordered as in `memory`."""
        large = [(s, n) for s, n in zip(memory.strides, memory.shape, strict=True) if n != 1]
        if all(self._dense.get(stride) == (size, len(large)) for stride, size in large):
            return memory.strides
        strides = self.of(used_strides(memory), memory.shape)
        self._dense |= {
            stride: (size, len(large))
            for stride, size in zip(strides, memory.shape, strict=True)
            if size != 1
        }
        return strides


def is_known(memory: Strided) -> bool:
    """Whether all strides that matter are those of the inputs."""
    return all(stride < _MADE_UP for stride in used_strides(memory))


def used_strides(memory: Strided) -> tuple[int, ...]:
    """Strides that matter: none without elements, and those of sizes of 1 beside expanded ones.

    Where a stride is 0, torch orders the dimensions of what it computes by the others, used or not.
    """
    if memory.elements == 0:
        return ()
    strides = memory.strides
    used = tuple(s for s, size in zip(strides, memory.shape, strict=True) if size != 1)
    return strides if 0 in used else used
