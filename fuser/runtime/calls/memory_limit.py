"""How much memory this process may have."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # not every system has these limits
    resource = None

_UNKNOWN_BYTES = 8 << 30
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def memory_limit() -> int:
    """The least of the machine's memory, of what control groups leave the process, and of what it
    may address (`ulimit -v`, `ulimit -d`), which may change while it runs."""
    return min((_of_machine(), *_of_process()))


@functools.cache
def _of_machine() -> int:
    return min((_physical(), *group_limits(_OWN_GROUPS, _GROUPS)))


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system says
        return _UNKNOWN_BYTES


def _of_process() -> Iterator[int]:
    if resource is not None:
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            most, _ = resource.getrlimit(limit)
            if most != resource.RLIM_INFINITY:
                yield most


def group_limits(own: Path, mounted: Path) -> Iterator[int]:
    """The limits of the control groups that the file `own` lists, of both versions, and of those
    around them. Of a container, the group may be the one that is mounted, whatever `own` says."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = folder / path.lstrip("/")
        for around in (group, *group.parents):
            if around.is_relative_to(folder):
                with contextlib.suppress(OSError, ValueError):  # none, or "max"
                    yield int((around / name).read_text())
