"""Random definitions with rows, which the processor's kernels compute, give the oracle's numbers.

FUSER_LONG=1 runs many more of them.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from fuser.schedule import CpuRowParameters
from tests.mapped_by import THREADED, map_by
from tests.strategies import (
    COMPUTED_PLACES,
    FACTORIES,
    GATHERS,
    LOGARITHMS,
    METADATA,
    NORMALIZATIONS,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SCANS,
    SLICES,
    Definition,
    definitions,
)
from tests.targets.test_random_fusions import check

MORE = 50 if os.environ.get("FUSER_LONG") == "1" else 1
ROWS = (*LOGARITHMS, *REDUCTIONS, *NORMALIZATIONS, *GATHERS, *COMPUTED_PLACES, *SCANS)
CHECKS = list(HealthCheck)


@settings(max_examples=50 * MORE, deadline=None, suppress_health_check=CHECKS)
@given(definitions((*POINTWISE, *ROWS), max_operations=8))
def test_few_operations_in_rows(definition: Definition):
    check(definition, "cpu")


@settings(max_examples=50 * MORE, deadline=None, suppress_health_check=CHECKS)
@given(
    definitions(
        (*POINTWISE, *METADATA, *FACTORIES, *SLICES, *RESIZES, *ROWS, *ROWS), max_operations=20
    )
)
def test_many_operations_in_rows(definition: Definition):
    check(definition, "cpu")


@pytest.mark.parametrize("block", [1, 4])
def test_small_tensors_shared_out_as_large_ones_are(block: int, monkeypatch: pytest.MonkeyPatch):
    parameters = CpuRowParameters(
        THREADED, lanes=4, strip=3, few_rows=8, block=block, long_run=2, kept_bytes=64
    )
    map_by(monkeypatch, parameters)

    @settings(max_examples=30 * MORE, deadline=None, suppress_health_check=CHECKS)
    @given(definitions((*POINTWISE, *METADATA, *ROWS), max_operations=10))
    def run(definition: Definition) -> None:
        check(definition, "cpu")

    run()
