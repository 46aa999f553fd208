"""The parameters of a CUDA kernel in memory, from where the driver copies them at a launch.

types      void*, void*, int64             written by one call of `struct`, which takes less time
memory     | 0x7f.. | 0x7f.. | 5 |         than an object of ctypes for every number would
pointers   |   *    |   *    | * |
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Any

_PLACE = 8
"""Bytes that each number begins at a multiple of."""

_INTEGERS: dict[type, str] = {ctypes.c_void_p: "Q", ctypes.c_int64: "q", ctypes.c_int32: "i"}
"""What `struct` writes as ctypes would. Of others, ctypes rounds and wraps around."""


class Parameters(threading.local):
    """Memory for one kernel's parameters, other memory in each thread."""

    def __init__(self, types: Sequence[type]) -> None:
        """`types` are ctypes of numbers, or structures of them."""
        written = [_INTEGERS.get(each, f"{ctypes.sizeof(each)}s") for each in types]
        gaps = [-ctypes.sizeof(each) % _PLACE for each in types]
        texts = [f"{text}{gap}x" for text, gap in zip(written, gaps, strict=True)]
        sizes = [Struct(f"<{text}").size for text in texts]
        self._others = [(n, each) for n, each in enumerate(types) if each not in _INTEGERS]
        self._struct = Struct("<" + "".join(texts))
        self._memory = ctypes.create_string_buffer(max(self._struct.size, 1))
        start = ctypes.addressof(self._memory)
        places = (start + sum(sizes[:number]) for number in range(len(sizes)))
        self._pointers = (ctypes.c_void_p * len(sizes))(*places)
        self._address = ctypes.addressof(self._pointers)

    def write(self, numbers: Sequence[Any]) -> int:
        """The address of pointers to the numbers, until this thread writes others."""
        if self._others:
            numbers = list(numbers)
            for number, each in self._others:
                given = numbers[number]
                numbers[number] = bytes(given if isinstance(given, each) else each(given))
        self._struct.pack_into(self._memory, 0, *numbers)
        return self._address
