"""Bytes of a shared library -> a library of this process, by way of a file that is its alone."""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import shutil
import tempfile
from pathlib import Path

_numbers = itertools.count()


@functools.cache
def private_directory() -> Path:
    """Where this process keeps what it compiles and loads; removed when it ends."""
    path, owner = Path(tempfile.mkdtemp(prefix="fuser-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not a fork of it
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def new_stem(name: str) -> Path:
    """A path without suffix that nothing else in the process has: no loaded file is overwritten."""
    return private_directory() / f"{name}_{os.getpid()}_{next(_numbers)}"


def load_library(image: bytes, name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Load a shared library from its bytes, which the caller vouches for.

    Raises OSError where they are no library of this machine.
    """
    path = new_stem(name).with_suffix(".so")
    path.write_bytes(image)
    return ctypes.CDLL(str(path), mode=mode)
