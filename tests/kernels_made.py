"""How many kernels a process has taken from the compiler or from disk.

Test processes share what they compile: what one of them makes, another may find.
"""

from fuser import stats


def kernels_made() -> int:
    """Kernels that were compiled or loaded by this process so far."""
    counts = stats()
    return counts["kernels_compiled"] + counts["kernels_loaded_from_disk"]
