"""What has no elements is not computed, and keeps nothing else from being a kernel."""

from __future__ import annotations

import torch

from fuser import FusionDefinition
from fuser.ir.nodes import Full
from fuser.passes.empty_values import fill_empty_values
from tests.definitions import agrees
from tests.segmented import concrete


def test_results_without_elements_are_filled():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.exp(x) * 2.0)
        fd.add_output(fd.ops.sum(x, [0]))
    after = fill_empty_values(concrete(fd.fusion, [torch.ones(5, 0)]))
    assert all(isinstance(s.op, Full) for s in after.statements if s.outs[0].is_tensor)
    for shape in ((5, 0), (0, 5), (5, 3)):
        agrees(fd, [torch.ones(shape)], "cpu")


def test_a_kernel_of_something_else_is_no_less_one():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        largest = fd.ops.max(x, [0, 1], keepdim=True)
        fd.add_output(fd.ops.exp(x - largest))
        fd.add_output(fd.ops.neg(fd.ops.expand(largest, [0, 4])))
    inputs = [torch.randn(6, 7)]
    assert "torch" not in {kernel.scheduler for kernel in fd.plan(inputs).kernels}
    agrees(fd, inputs, "cpu")
