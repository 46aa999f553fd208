"""Plans on disk, for later processes: what planning made of a definition and a kind of inputs.

An entry is named by all that a plan depends on: the definition, the key of its inputs, what
mappings choose by, torch, and this package: which files it has, and when each was last changed. It
is a pickle, which `DiskCache` hands back as it does machine code: where it is whole and lies with
the user alone. Who asks for dumps, or for passes to be verified, has plans made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from fuser import debug
from fuser.ir.nodes import Fusion
from fuser.planning import Compiled
from fuser.runtime.backend import CpuBackend, CudaBackend
from fuser.runtime.kernels.disk_cache import disk_cache
from fuser.runtime.kernels.stats import count

_NO_PICKLE = (pickle.PickleError, AttributeError, EOFError, ImportError, IndexError, TypeError)
"""What reading raises of bytes that are no pickle of a plan, and writing of what has none: it is of
a class inside of a function."""

_NO_PART = frozenset({"explanation", "frontend", "integrations", "__pycache__"})
"""Folders of this package that planning takes nothing from."""


def kept_plan(fusion: Fusion, key: object, make: Callable[[], Compiled]) -> Compiled:
    """The plan on disk of a definition, for inputs of a key that also says the target; else what
    `make` makes, which is kept then."""
    cache = None if debug.watches_planning() else disk_cache()
    name = entry_name(fusion, key) if cache is not None else None
    if cache is None or name is None:
        return make()
    found = cache.load(name)
    if found is not None:
        with contextlib.suppress(*_NO_PICKLE):
            compiled: Compiled = pickle.loads(found)
            count("plans_loaded_from_disk")
            return compiled
    compiled = make()
    pickled = _pickled(compiled)
    if pickled is not None:
        cache.store(name, pickled)
    return compiled


def entry_name(fusion: Fusion, key: object) -> str | None:
    """What an entry is called; None where there are no files to tell this package by."""
    chosen_by = CpuBackend.point_parameters, CpuBackend.row_parameters, CudaBackend.point_parameters
    checks = debug.checking("index")
    depends_on = _pickled((PACKAGE, torch.__version__, chosen_by, checks, fusion, key))
    if depends_on is None or not PACKAGE:
        return None
    return f"plan {hashlib.sha256(depends_on).hexdigest()}"


def _pickled(of: object) -> bytes | None:
    """The pickle of something; None where it has none, or is nested too deeply for one."""
    try:
        return pickle.dumps(of, pickle.HIGHEST_PROTOCOL)
    except (*_NO_PICKLE, RecursionError):
        return None


File = tuple[str, int, int, int]
"""A path, when what it holds and when anything about it was last changed, and its bytes. Some
installers set the first time to the same one for all files; the second, nobody sets."""


def _files(folder: str) -> Iterator[File]:
    """The files that planning is made of."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _NO_PART:
                continue
            if entry.is_dir():
                yield from _files(entry.path)
            else:
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _package() -> tuple[File, ...]:
    """This package, as it is when it is imported; nothing where it does not lie in a folder."""
    try:
        return tuple(sorted(_files(str(Path(__file__).parent))))
    except OSError:
        return ()


PACKAGE = _package()
"""The files that plans depend on."""
