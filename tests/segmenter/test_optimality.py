"""The segmenter against the best division of random fusions, found by trying all.

The fusions of the other tests are checked where they are written: see definition.py. The random
ones are the same every time: taking the best merge first is not the best in all cases.
"""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings

from fuser import FusionDefinition
from fuser.ir.nodes import Fusion
from fuser.segmenter import GPU, PROCESSOR, Machine, segment
from tests.segmented import Inputs, concrete, memory_of
from tests.segmenter.brute_force import BruteForce
from tests.strategies import FACTORIES, METADATA, POINTWISE, REDUCTIONS, SCANS, SLICES, definitions

MOST_NODES = 9


def check(fusion: Fusion, inputs: Inputs, machine: Machine) -> None:
    fusion = concrete(fusion, inputs)
    memory = memory_of(fusion, inputs)
    all_divisions = BruteForce(fusion, memory, machine)
    assume(2 <= all_divisions.count <= MOST_NODES)
    all_divisions.check(segment(fusion, memory, machine))


STEPS = (*POINTWISE, *POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS, *REDUCTIONS, *SCANS)


@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(definitions(STEPS, max_operations=20))
def test_random_fusions_are_divided_as_well_as_can_be(definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    check(fd.fusion, definition.inputs, GPU)


@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(definitions(STEPS, max_operations=20))
def test_so_are_they_where_launches_cost_next_to_nothing(definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    check(fd.fusion, definition.inputs, replace(PROCESSOR, launch_bytes=64))
