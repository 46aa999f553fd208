"""Kernels that are mapped by other parameters than those the backends have.

map_by(monkeypatch, CpuRowParameters(THREADED))    until the end of the test
with mapped_by(CpuRowParameters(THREADED)): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fuser.runtime.backend import CpuBackend, CudaBackend
from fuser.schedule import (
    CpuParameters,
    CpuRowParameters,
    CudaParameters,
    CudaRowParameters,
    ProcessorParameters,
)
from fuser.schedule.tree.loop_nest import Parameters

THREADED = ProcessorParameters(serial_work=0)
"""Starts threads for any work, so that small tensors are shared out as large ones are."""
PAST_CACHE = ProcessorParameters(stream_bytes=0)
"""Treats every output as larger than the cache."""
THREADED_PAST_CACHE = ProcessorParameters(serial_work=0, stream_bytes=0)

_ATTRIBUTES = {
    CpuParameters: (CpuBackend, "point_parameters"),
    CpuRowParameters: (CpuBackend, "row_parameters"),
    CudaParameters: (CudaBackend, "point_parameters"),
    CudaRowParameters: (CudaBackend, "row_parameters"),
}


def map_by(patch: pytest.MonkeyPatch, *given: Parameters) -> None:
    """Gives `given` to the backend that each is for, as long as the patch lasts."""
    for parameters in given:
        backend, attribute = _ATTRIBUTES[type(parameters)]
        patch.setattr(backend, attribute, parameters)


@contextmanager
def mapped_by(*given: Parameters) -> Iterator[None]:
    """Maps by `given` inside the `with`."""
    with pytest.MonkeyPatch.context() as patch:
        map_by(patch, *given)
        yield
