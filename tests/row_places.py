"""Parameters that send small rows of CUDA kernels where long ones are kept.

with placed("shared"): fd.execute(inputs, target="emulator")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fuser.schedule import CudaRowParameters
from tests.mapped_by import mapped_by

_SMALL = {"warp_elements": 8, "lane_elements": 0, "thread_bytes": 16, "costly_thread_bytes": 16}

PLACES = {
    "registers": CudaRowParameters(max_cluster=1, **_SMALL),
    "shared": CudaRowParameters(max_cluster=1, kept_words=0, **_SMALL),
    "cluster": CudaRowParameters(block_bytes=128, **_SMALL),
    "shared by a cluster": CudaRowParameters(block_bytes=128, kept_words=0, **_SMALL),
    "read again": CudaRowParameters(max_cluster=1, kept_words=0, shared_bytes=0, **_SMALL),
    "crowded": CudaRowParameters(crowded=0),
    "warps": CudaRowParameters(resident_threads=0, lane_elements=0),
    "teams": CudaRowParameters(multiprocessors=2, max_cluster=1, warp_elements=8),
}


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Map rows by the parameters of a place."""
    with mapped_by(PLACES[place]):
        yield
