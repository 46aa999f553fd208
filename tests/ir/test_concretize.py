"""Concretizing: static extents, folded scalars, the same numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition, errors
from fuser.ir.concretize import concretize, size_inputs
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number
from fuser.ir.printer import print_fusion
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


def concretized(fusion: Fusion, inputs: list[torch.Tensor | Number]) -> Fusion:
    sized = size_inputs(fusion)
    pairs = list(zip(fusion.inputs, inputs, strict=True))
    shapes = {v: tuple(x.shape) for v, x in pairs if isinstance(x, torch.Tensor)}
    scalars = {v: x for v, x in pairs if v in sized and not isinstance(x, torch.Tensor)}
    return concretize(fusion, shapes, scalars)


def test_sizes_become_numbers() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 6])
        rows = fd.define_scalar(DataType.Int)
        unrelated = fd.define_scalar(DataType.Int)
        y = fd.ops.reshape(x, [rows * 2, -1])
        z = fd.ops.broadcast_in_dim(fd.ops.sum(y, 1), [y.size(0), 5], [0])
        fd.add_output(z + fd.ops.full([x.size(1) - 2, 1], unrelated, DataType.Float))
    fusion = fd.fusion
    assert [value.name for value in size_inputs(fusion)] == ["S1"]
    static = concretized(fusion, [torch.ones(4, 6), 2, 7])
    verify(static, "concretized")
    assert "new_shape=[4, 6])" in print_fusion(static)
    assert "shape=[4, 5])" in print_fusion(static)
    assert all(-1 not in s.out.shape for s in static.statements)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.reshape(x, [2, -1]))
    with pytest.raises(errors.ViewSizeError, match="3 element"):
        concretized(fd.fusion, [torch.ones(3)])


def test_an_expansion_that_does_not_fit_names_what_may_have_been_called() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1])
        fd.add_output(fd.ops.broadcast_in_dim(x, [3, 5], [0, 1]))
    words = r"^expand or broadcast_in_dim: shape = \[3, 5\]: only dimensions of size 1"
    with pytest.raises(errors.ArgumentError, match=words):
        concretized(fd.fusion, [torch.ones(2, 5)])


def test_a_scalar_expands_to_no_size_below_0() -> None:
    with FusionDefinition() as fd:
        x, n = fd.define_tensor(shape=[1, -1]), fd.define_scalar(dtype=DataType.Int)
        fd.add_output(fd.ops.expand(x, [n, -1]))
    with pytest.raises(errors.ArgumentError, match=r"shape = \[-2, -1\]: sizes are 0 or more"):
        concretized(fd.fusion, [torch.ones(1, 4), -2])


def test_more_bytes_than_can_be_addressed_are_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.pad(x, [2**59, 2**61]))
    with pytest.raises(errors.TensorSizeError, match=r"T\d would have sizes \[\d+\], which are"):
        concretized(fd.fusion, [torch.ones(3)])


def test_a_size_that_is_drawn_is_refused() -> None:
    with FusionDefinition() as fd:
        seed, _ = fd.ops.generator_state()
        fd.add_output(fd.ops.full([seed], 1.0, DataType.Float))
    words = "S0: the scalar has no value: it is made while the fusion runs, and a size"
    with pytest.raises(errors.ScalarEvaluationError, match=words):
        concretized(fd.fusion, [])


@given(definitions((*POINTWISE, *METADATA, *FACTORIES, *SLICES, *REDUCTIONS)))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_definition_keeps_its_numbers(definition: Definition) -> None:
    with FusionDefinition() as fd:
        definition.build(fd)
    static = concretized(fd.fusion, list(definition.inputs))
    verify(static, "concretized")
    assert all(-1 not in out.shape for s in static.statements for out in s.outs)
    want, have = (interpret(f, definition.inputs) for f in (fd.fusion, static))
    for left, right in zip(want, have, strict=True):
        assert torch.equal(left, right)
