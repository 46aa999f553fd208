"""Random definitions that scatter give the oracle's numbers, on the processor and in the emulator.

FUSER_LONG=1 runs many more of them.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from fuser.passes import scatter_forms
from fuser.schedule import CudaRowParameters
from tests.mapped_by import map_by
from tests.strategies import (
    FACTORIES,
    GATHERS,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    SCATTERS,
    SLICES,
    Definition,
    definitions,
)
from tests.targets.test_random_fusions import check

MORE = 50 if os.environ.get("FUSER_LONG") == "1" else 1
CHECKS = list(HealthCheck)
AROUND = (*POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS, *GATHERS)


@pytest.mark.parametrize("least", [2, 16])
@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_scatters_and_what_surrounds_them(
    target: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scatter_forms, "LEAST_COLUMNS", least)
    map_by(monkeypatch, CudaRowParameters(shared_columns=least))
    monkeypatch.setattr(scatter_forms, "LEAST_SHARED", least)
    examples = (40 if target == "cpu" else 20) * MORE

    @settings(max_examples=examples, deadline=None, suppress_health_check=CHECKS)
    @given(definitions((*AROUND, *SCATTERS * 4), max_operations=10))
    def run(definition: Definition) -> None:
        check(definition, target)

    run()
