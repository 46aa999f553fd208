"""Two threads, each on a processor of its own.

OpenMP reads this when it is loaded, so `restart` has to be called before torch is imported.
"""

from __future__ import annotations

import os
import sys

PINNED = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "2"}


def restart() -> None:
    """Start the script again with the threads pinned, unless its caller has said how they are."""
    if not PINNED.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], PINNED | os.environ)
