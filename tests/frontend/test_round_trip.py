"""`exec(repr(fd))` builds an equal fusion, and the fusion runs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion
from fuser.ir.verify import verify
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    SLICES,
    Definition,
    definitions,
)

EVERY_STEP = (*POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS)


def rebuilt(text: str) -> Fusion:
    """The fusion that a printed definition builds."""
    names: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(text, names)
    with FusionDefinition() as fd:
        names["nvfuser_fusion"](fd)
    return fd.fusion


@given(definitions(EVERY_STEP))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_definition_round_trips(definition: Definition) -> None:
    with FusionDefinition() as fd:
        definition.build(fd)
    verify(fd.fusion, "as defined")
    assert rebuilt(repr(fd)) == fd.fusion
    outputs = interpret(fd.fusion, definition.inputs)
    for value, output in zip(fd.fusion.output_values, outputs, strict=True):
        assert value.dtype.torch is output.dtype
        assert all(size in (-1, have) for size, have in zip(value.shape, output.shape, strict=True))
        assert not output.is_floating_point() or output.isfinite().all()
