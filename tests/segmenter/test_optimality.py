"""The segmenter against the best division of random fusions, found by trying all.

The fusions of the other tests are checked where they are written: see definition.py. The random
ones are the same every time: taking the best merge first is not the best in all cases.
"""

from dataclasses import replace

import pytest

from fuser import FusionDefinition
from fuser.segmenter import GPU, PROCESSOR, Machine, segment
from tests.covering import more
from tests.segmented import concrete, memory_of
from tests.segmenter.brute_force import BruteForce
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    SCANS,
    SLICES,
    definitions,
    drawn,
)

MOST_NODES = 9
SEEDS = pytest.mark.parametrize("seeds", [range(200), *more(range(200, 400))], ids=str)
WORSE = [100, 283]
"""Here two short slices of one tensor stay apart from the kernel that makes it, which stores all of
it: operations move over a boundary one by one."""


def check(machine: Machine, seeds: range) -> None:
    """Divisions of random fusions with so few that all can be tried are the best, but for the known
    ones."""
    tried, worse = 0, []
    for seed in seeds:
        definition = drawn(definitions(STEPS, max_operations=20), seed)
        with FusionDefinition() as fd:
            definition.build(fd)
        fusion = concrete(fd.fusion, definition.inputs)
        memory = memory_of(fusion, definition.inputs)
        all_divisions = BruteForce(fusion, memory, machine)
        if 2 <= all_divisions.count <= MOST_NODES:
            tried += 1
            try:
                all_divisions.check(segment(fusion, memory, machine))
            except AssertionError:
                worse.append(seed)
    assert tried > len(seeds) / 2
    assert worse == [seed for seed in WORSE if seed in seeds]


STEPS = (*POINTWISE, *POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS, *REDUCTIONS, *SCANS)


@SEEDS
def test_random_fusions_are_divided_as_well_as_can_be(seeds: range):
    check(GPU, seeds)


@SEEDS
def test_so_are_they_where_launches_cost_next_to_nothing(seeds: range):
    check(replace(PROCESSOR, launch_bytes=64), seeds)
