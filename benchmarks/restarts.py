"""Measurements that go on in a new process where one ends before its time.

A kernel that reads where nothing is breaks its device for all that the process does later; one that
waits for ever takes all the time. So what is measured is written down case by case (`Progress`),
and whoever runs the process starts another one, which leaves out the case at hand (`supervised`).
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from harness import write_bytes

BROKEN = 75
"""The status of a process whose device does nothing more."""
LONGEST = 100.0
"""Seconds for what is done at a time, at most."""
_POLL = 0.2
_MOST = 20
"""Processes that are started at most: there are more cases, but then all are at fault."""


@dataclass
class Progress:
    """What is known so far, by name; `at` is what is being done, a step and a case, and `ended`
    says of those at which a process ended why it did."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    at: tuple[str, str] = ("", "")
    ended: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @staticmethod
    def read(path: Path) -> Progress:
        """What a process has left; nothing, if it has not begun."""
        return pickle.loads(path.read_bytes()) if path.exists() else Progress()

    def write(self, path: Path) -> None:
        write_bytes(path, pickle.dumps(self))


def is_broken() -> bool:
    """Whether the device does nothing more for this process."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def supervised(
    command: Callable[[float], Sequence[str]],
    path: Path,
    seconds: float,
    *,
    longest: float = LONGEST,
) -> int:
    """Run a command that keeps its progress at `path`, again after each time that it breaks its
    device, crashes or does one thing for too long, while there is time; its last status."""
    end = time.monotonic() + seconds
    path.unlink(missing_ok=True)
    status = 0
    for _ in range(_MOST):
        process = subprocess.Popen(command(end - time.monotonic()))
        try:
            status, why = _watched(process, path, longest)
        finally:
            process.kill()
        if not why:
            break
        progress = Progress.read(path)
        if status != BROKEN:
            progress.ended[progress.at] = why
            print(f"\n{' '.join(progress.at)}: {why}", file=sys.stderr, flush=True)
        progress.write(path)
        if time.monotonic() > end:
            break
    path.unlink(missing_ok=True)
    return status


def _watched(process: subprocess.Popen[bytes], path: Path, longest: float) -> tuple[int, str]:
    """The status of a process, and why another is to go on, if one is."""
    begun = time.time()
    while process.poll() is None:
        time.sleep(_POLL)
        last = path.stat().st_mtime if path.exists() else begun
        if time.time() - max(last, begun) > longest:
            process.kill()
            process.wait()
            return 1, f"not done after {longest:.0f} s"
    status = process.returncode
    if status == BROKEN:
        return status, "it broke the device"
    return status, f"ended by signal {-status}" if status < 0 else ""
