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


def private_directory() -> Path:
    """Where this process keeps what it compiles and loads; removed when it ends.

    A fork has one of its own, since its parent may end before it does.
    """
    return _directory_of(os.getpid())


@functools.cache
def _directory_of(process: int) -> Path:
    path = Path(tempfile.mkdtemp(prefix="fuser-"))

    def remove() -> None:
        if os.getpid() == process:  # not a fork of it
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def new_stem(name: str) -> Path:
    """A path without suffix that nothing else in the process has: no loaded file is overwritten."""
    return private_directory() / f"{name}_{os.getpid()}_{next(_numbers)}"


def load_library(image: bytes, name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Load a shared library from its bytes, which the caller vouches for.

    Its file needs no name once it is loaded. Raises OSError where they are no library of this
    machine.
    """
    path = new_stem(name).with_suffix(".so")
    try:
        path.write_bytes(image)
        return ctypes.CDLL(str(path), mode=mode)
    finally:
        path.unlink(missing_ok=True)
