"""Random row kernels on threads, with blocks and tiles so small that every loop has several."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import FusionDefinition
from fuser.schedule import CpuRowParameters
from tests.definitions import agrees
from tests.mapped_by import THREADED, mapped_by
from tests.strategies import METADATA, POINTWISE, REDUCTIONS, definitions

TINY = CpuRowParameters(THREADED, few_rows=4, block=16, long_run=4, strip=8)
STEPS = (*POINTWISE, *METADATA, *REDUCTIONS, *REDUCTIONS)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(definitions(STEPS, max_operations=10))
def test_random_rows_on_threads_give_the_oracles_numbers(definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    with mapped_by(TINY):
        agrees(fd, definition.inputs, "cpu")


@pytest.mark.parametrize("shape", [(1, 1601), (3, 1601), (7, 40000), (3, 300007)])
def test_few_rows_are_shared_out_without_counting_any_twice(shape: tuple[int, int]):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        e = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
        fd.add_output(e / fd.ops.sum(e, [1], keepdim=True))
    given = torch.randn(shape)
    with mapped_by(CpuRowParameters(THREADED)):
        (got,) = fd.execute([given])
    torch.testing.assert_close(got, torch.softmax(given, 1), rtol=1e-5, atol=1e-7)
