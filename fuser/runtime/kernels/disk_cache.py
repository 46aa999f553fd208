"""Kernels and plans on disk, for later processes and for those that run at the same time.

An entry is a file named by the digest of its key. It holds a mark, that digest, and the digest of
the bytes that follow; what does not match is as good as absent, and is made again. Entries appear
by renaming, so that nobody sees half of one. The directory belongs to the user alone.

FUSER_CACHE_DIR names the directory (default: `fuser` in XDG_CACHE_HOME, or in ~/.cache), and
FUSER_CACHE=0 does without.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fuser import debug
from fuser.locks import forkable_lock
from fuser.runtime.kernels.stats import count
from fuser.warned import warn_user

LIMIT_BYTES = 256 << 20
"""What the directory may hold; what was not used for longest goes first."""

_MARK = b"fuser 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_ABANDONED_SECONDS = 3600
_UNFINISHED = "unfinished-"

Result = TypeVar("Result")


class DiskCache:
    """Bytes by key, in one directory. Safe from several threads and processes."""

    def __init__(self, directory: Path, limit: int = LIMIT_BYTES) -> None:
        self._directory = directory
        self._limit = limit
        self._lock = forkable_lock()
        self._usable: bool | None = None
        self._warned = False
        self._until_sweep = 0
        """Bytes this process may still add before it looks at the whole directory again."""

    def load(self, key: str) -> bytes | None:
        """What was stored under `key`; None where that is nothing, damaged or somebody else's."""
        if not self._is_usable():
            return None
        digest = hashlib.sha256(key.encode())
        path = self._directory / digest.hexdigest()
        try:
            entry = _read_own(path)
        except OSError:  # absent, or in the hands of another process
            return None
        payload = _payload(entry, digest.digest())
        if payload is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # it was used last
        return payload

    def store(self, key: str, payload: bytes) -> None:
        """Keep `payload` under `key`, if there is room to write; one warning if not."""
        if not self._is_usable():
            return
        digest = hashlib.sha256(key.encode())
        entry = _MARK + digest.digest() + hashlib.sha256(payload).digest() + payload
        try:
            self._put(self._directory / digest.hexdigest(), entry)
            self._sweep(len(entry))
        except OSError as error:
            self._warn(f"kernels are not kept in {self._directory}: {error.strerror}")

    def _is_usable(self) -> bool:
        """Whether the directory is there, or could be made, and belongs to the user alone."""
        with self._lock:
            if self._usable is None:
                self._usable = self._prepare()
            return self._usable

    def _prepare(self) -> bool:
        try:
            self._directory.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self._directory.mkdir(mode=0o700)
            found = self._directory.stat()
        except FileExistsError as error:
            self._warn(f"{error.filename} is no directory, so kernels are not kept")
            return False
        except OSError as error:
            self._warn(f"kernels are not kept in {self._directory}: {error.strerror}")
            return False
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            self._warn(f"{self._directory} is no directory of this user, so kernels are not kept")
            return False
        if found.st_mode & 0o077:
            why = f"others may read or write {self._directory}, so kernels are not kept"
            self._warn(f"{why}; chmod 700 it")
            return False
        return True

    def _put(self, path: Path, entry: bytes) -> None:
        """Write an entry; where the directory was removed meanwhile, to a new one."""
        try:
            self._write(path, entry)
        except FileNotFoundError:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, entry)

    def _write(self, path: Path, entry: bytes) -> None:
        handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=self._directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    def _sweep(self, added: int) -> None:
        """Remove what was not used for longest, once in a while; files may vanish meanwhile."""
        with self._lock:
            self._until_sweep -= added
            if self._until_sweep > 0:
                return
            self._until_sweep = self._limit // 16
            files = sorted(_own_files(self._directory))
        held = sum(size for _, size, _ in files)
        long_ago = time.time() - _ABANDONED_SECONDS
        for used, size, path in files:
            unfinished = os.path.basename(path).startswith(_UNFINISHED)
            if used < long_ago if unfinished else held > self._limit:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                held -= size

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            off = "FUSER_CACHE_DIR names another directory, FUSER_CACHE=0 does without"
            warn_user(f"{message} ({off})")


def kept(key: str, make: Callable[[], bytes], use: Callable[[bytes], Result]) -> Result:
    """`use` of the bytes on disk under `key`, else of what `make` returns, which is kept then.

    `use` raises OSError or ValueError for bytes that are of no use here, which are made again.
    """
    cache = disk_cache()
    found = None if cache is None else cache.load(key)
    if found is not None:
        with contextlib.suppress(OSError, ValueError):
            return use(found)
    made = make()
    if cache is not None:
        cache.store(key, made)
    return use(made)


def kept_kernel(key: str, make: Callable[[], bytes], use: Callable[[bytes], Result]) -> Result:
    """`kept`, counted in `stats()`."""
    compiled = False

    def compile_() -> bytes:
        nonlocal compiled
        compiled = True
        return make()

    kernel = kept(key, compile_, use)
    count("kernels_compiled" if compiled else "kernels_loaded_from_disk")
    return kernel


@functools.cache
def disk_cache() -> DiskCache | None:
    """The cache that the environment asks for; it is read at the first question only."""
    if not debug.switched("FUSER_CACHE", default=True):
        return None
    named = os.environ.get("FUSER_CACHE_DIR")
    if named:
        return DiskCache(Path(named).absolute() / "kernels")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return DiskCache(Path(base).absolute() / "fuser" / "kernels")


def _read_own(path: Path) -> bytes:
    """The bytes of a file that belongs to this user. Raises OSError where there is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return file.read() if stat.S_ISREG(found.st_mode) and own else b""


def _payload(entry: bytes, key_digest: bytes) -> bytes | None:
    """What follows the head of an entry, where everything in the head is right."""
    head = _MARK + key_digest
    start = len(head) + _DIGEST_BYTES
    payload = entry[start:]
    right = entry.startswith(head) and entry[len(head) : start] == hashlib.sha256(payload).digest()
    return payload if right else None


def _own_files(directory: Path) -> list[tuple[float, int, str]]:
    """When each file was last used, its bytes and its path."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, status.st_size, entry.path))
    return found
