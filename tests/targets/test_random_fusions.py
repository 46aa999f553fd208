"""Random definitions give the oracle's numbers on every target, and every CUDA kernel compiles.

FUSER_LONG=1 runs many more of them.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from fuser import FusionDefinition
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import ThreadOrder
from tests.definitions import agrees
from tests.strategies import (
    FACTORIES,
    LOGARITHMS,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SLICES,
    Definition,
    definitions,
)

MORE = 50 if os.environ.get("FUSER_LONG") == "1" else 1
CHECKS = list(HealthCheck)

any_fusion = definitions(
    (*POINTWISE, *LOGARITHMS, *METADATA, *FACTORIES, *SLICES, *RESIZES, *REDUCTIONS),
    max_operations=20,
)
pointwise_fusion = definitions(
    (*POINTWISE, *METADATA, *FACTORIES, *SLICES, *RESIZES), max_operations=10
)


def check(definition: Definition, target: str) -> None:
    """Executing on `target` gives what the oracle gives: numbers, dtypes and sizes."""
    with FusionDefinition() as fd:
        definition.build(fd)
    agrees(fd, definition.inputs, target)


@settings(max_examples=60 * MORE, deadline=None, suppress_health_check=CHECKS)
@given(any_fusion)
def test_random_fusions_on_the_cpu_target(definition: Definition):
    check(definition, "cpu")


@pytest.mark.parametrize("order", list(ThreadOrder), ids=lambda order: order.name)
def test_random_fusions_in_the_emulator(order: ThreadOrder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EmulatorBackend, "order", order)

    @settings(max_examples=25 * MORE, deadline=None, suppress_health_check=CHECKS)
    @given(pointwise_fusion)
    def run(definition: Definition) -> None:
        check(definition, "emulator")

    run()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_every_planned_cuda_kernel_compiles(arch: str):
    @settings(max_examples=20 * MORE, deadline=None, suppress_health_check=CHECKS)
    @given(pointwise_fusion)
    def run(definition: Definition) -> None:
        with FusionDefinition() as fd:
            definition.build(fd)
        for kernel in fd.plan(definition.inputs, target=f"cuda:{arch}").kernels:
            if kernel.scheduler != "torch":  # as of a pad of no elements
                assert kernel.compile().spill_bytes == 0

    run()
