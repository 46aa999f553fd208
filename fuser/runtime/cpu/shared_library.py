"""Bytes of a shared library -> a library of this process, by way of a file that is its alone."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import shutil
import stat
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path

from fuser.errors import TemporaryFolderError

_numbers = itertools.count()

_AFTER_CHILDREN = -1
"""A negative priority: processes that this one has started are joined before."""


def private_directory() -> Path:
    """Where this process keeps what it compiles and loads; removed when it ends.

    A fork has one of its own, since its parent may end before it does. Raises TemporaryFolderError
    where there can be none.
    """
    path = _directory_of(os.getpid())
    if not _is_own(path):  # old files in temporary folders are cleaned away
        _directory_of.cache_clear()
        path = _directory_of(os.getpid())
    return path


@functools.cache
def _directory_of(process: int) -> Path:
    """That of a process: a fork finds its parent's number among what is known, not its own."""
    try:
        path = Path(tempfile.mkdtemp(prefix="fuser-"))
    except OSError as error:
        folder = error.filename and os.path.dirname(error.filename)
        named = folder or os.environ.get("TMPDIR", "a temporary folder")
        raise TemporaryFolderError(folder=named, reason=error.strerror) from error
    # Workers of multiprocessing end without what atexit knows of. A fork's end leaves it there.
    Finalize(None, shutil.rmtree, (path, True), exitpriority=_AFTER_CHILDREN)
    return path


def _is_own(path: Path) -> bool:
    """Whether it is there, and a folder of this user."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def new_stem(name: str) -> Path:
    """A path without suffix that nothing else in the process has: no loaded file is overwritten."""
    return private_directory() / f"{name}_{os.getpid()}_{next(_numbers)}"


def write_private(path: Path, content: bytes) -> None:
    """Write a file of this process. Raises TemporaryFolderError."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TemporaryFolderError(folder=path.parent, reason=error.strerror) from error


def load_library(image: bytes, name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Load a shared library from its bytes, which the caller vouches for.

    Its file needs no name once it is loaded. Raises OSError where they are no library of this
    machine, and TemporaryFolderError where none can be loaded.
    """
    path = new_stem(name).with_suffix(".so")
    try:
        write_private(path, image)
        return ctypes.CDLL(str(path), mode=mode)
    except OSError:
        if os.statvfs(path.parent).f_flag & os.ST_NOEXEC:
            reason = "files there cannot be executed, as it is mounted noexec"
            raise TemporaryFolderError(folder=path.parent, reason=reason) from None
        raise
    finally:
        path.unlink(missing_ok=True)


def is_of_this_machine(library: Path) -> bool:
    """Whether a file is there that was compiled for the processor that Python is compiled for, as
    far as a system says."""
    ours = _machine_of(Path("/proc/self/exe"))
    return library.exists() and (ours is None or _machine_of(library) == ours)


def _machine_of(program: Path) -> tuple[bytes, bytes] | None:
    """What the head of an ELF file says: mark, width and order of words; processor."""
    try:
        with program.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return head[:6], head[18:]
