"""Whole fusions: the steps, in order, and that each reads only what is already written."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition
from fuser.ir.interpret import interpret
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion
from tests.segmented import concrete, run_segmented, segment_for
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SLICES,
    definitions,
)


def segmented_of(
    build: Callable[[FusionDefinition], None], inputs: list[torch.Tensor]
) -> SegmentedFusion:
    """The definition segmented; checked to give the oracle's numbers."""
    with FusionDefinition() as fd:
        build(fd)
    segmented = segment_for(fd.fusion, inputs)
    want = interpret(fd.fusion, inputs)
    for got, expected in zip(run_segmented(segmented, inputs), want, strict=True):
        torch.testing.assert_close(got, expected)
    return segmented


def story(segmented: SegmentedFusion) -> list[str]:
    kinds = {Segment: "kernel", ExternStep: "torch", AliasStep: "alias"}
    return [kinds[type(step)] for step in segmented.steps]


def test_torch_runs_between_two_kernels():
    # [exp] -> argsort -> [sub]
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.sub(y, fd.ops.argsort(y, 1)))

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert story(segmented) == ["kernel", "torch", "kernel"]
    assert segmented.steps[1].reason == "argsort has no kernel here; torch runs it"


def test_steps_that_nothing_orders_run_as_they_are_defined():
    # [exp] -> argsort   [exp] -> argsort     ->     one exp is held at a time
    def build(fd: FusionDefinition) -> None:
        for x in (tall, wide):
            fd.add_output(fd.ops.argsort(fd.ops.exp(fd.from_pytorch(x)), 1))

    tall, wide = torch.randn(8, 6), torch.randn(3, 40)
    assert story(segmented_of(build, [tall, wide])) == ["kernel", "torch"] * 2


def test_torch_reads_inputs_through_metadata_without_a_kernel():
    # permute -> argsort     ->     torch sorts the permuted memory
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.argsort(fd.ops.permute(fd.from_pytorch(x), [1, 0]), 0))

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert story(segmented) == ["torch"]
    (step,) = segmented.steps
    (operand,) = step.fusion.inputs
    assert step.memory[operand].strides == (1, 6)


def test_metadata_after_torch_is_free():
    # argsort -> view -> [exp]; argsort -> view is an output
    def build(fd: FusionDefinition) -> None:
        order = fd.ops.reshape(fd.ops.argsort(fd.from_pytorch(x), 1), [4, 12])
        fd.add_output(order)
        fd.add_output(fd.ops.exp(order))

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert story(segmented) == ["torch", "kernel", "alias"]
    (kernel,) = segmented.segments
    assert [s.op.op for s in kernel.fusion.statements] == ["exp"]


def test_a_gather_is_part_of_a_kernel():
    # [neg -> index_select -> exp]
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.neg(fd.from_pytorch(x))
        fd.add_output(fd.ops.exp(fd.ops.index_select(y, fd.from_pytorch(index), 0)))

    x, index = torch.randn(8, 6), torch.tensor([1, 1, 5])
    assert story(segmented_of(build, [x, index])) == ["kernel"]


def test_two_torch_operations_in_a_row():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.argsort(fd.ops.argsort(fd.from_pytorch(x), 2), 0)
        fd.add_output(fd.ops.exp(y))

    x = torch.randn(4, 6, 5)
    assert story(segmented_of(build, [x])) == ["torch", "torch", "kernel"]


def test_both_results_of_var_mean_come_from_one_kernel():
    def build(fd: FusionDefinition) -> None:
        value = fd.from_pytorch(x)
        variance, mean = fd.ops.var_mean(value, [1], keepdim=True)
        fd.add_output(fd.ops.mul(fd.ops.sub(value, mean), fd.ops.rsqrt(variance)))
        fd.add_output(mean)

    x = torch.randn(8, 6)
    assert story(segmented_of(build, [x])) == ["kernel"]


def test_an_input_that_is_an_output_costs_nothing():
    x = torch.randn(8, 6)
    segmented = segmented_of(lambda fd: fd.add_output(fd.from_pytorch(x)), [x])
    assert segmented.steps == ()


def test_an_output_declared_twice_is_stored_once():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        view = fd.ops.reshape(y, [48])
        for output in (y, y, view, view):
            fd.add_output(output)

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert story(segmented) == ["kernel", "alias"]
    assert len(segmented.segments[0].stores) == 1
    assert len(run_segmented(segmented, [x])) == 4


def test_outputs_of_several_shapes_come_from_their_own_kernels():
    def build(fd: FusionDefinition) -> None:
        row, matrix = fd.from_pytorch(a), fd.from_pytorch(b)
        fd.add_output(fd.ops.exp(row))
        fd.add_output(fd.ops.neg(matrix))
        fd.add_output(fd.ops.add(row, matrix))

    a, b = torch.randn(6), torch.randn(8, 6)
    segmented = segmented_of(build, [a, b])
    assert story(segmented) == ["kernel", "kernel"]


def test_a_value_handed_to_torch_and_to_a_kernel_is_stored_once():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        z = fd.ops.reshape(y, [48])
        fd.add_output(fd.ops.argsort(z, 0))
        fd.add_output(fd.ops.argsort(y, 0))

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert [len(segment.stores) for segment in segmented.segments] == [1]


def test_a_factory_needs_no_input():
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.full([2, 3], 1.5, DataType.Float))
        fd.add_output(fd.ops.iota(6, 1, 2, DataType.Int))

    segmented = segmented_of(build, [])
    assert all(not segment.loads for segment in segmented.segments)


def test_a_full_that_torch_reads_is_stored_for_it():
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.argsort(fd.ops.full([2, 3], 1.5, DataType.Float), 0))

    assert story(segmented_of(build, [])) == ["kernel", "torch"]


def test_scalars_are_computed_in_each_kernel_that_reads_them():
    with FusionDefinition() as fd:
        x, s = fd.from_pytorch(torch.randn(8, 6)), fd.define_scalar(DataType.Double)
        scale = fd.ops.exp(fd.ops.mul(s, 2.0))
        y = fd.ops.segment_set(fd.ops.mul(x, scale))
        fd.add_output(fd.ops.add(y, scale))
    inputs = [torch.randn(8, 6), 0.5]
    segmented = segment_for(fd.fusion, inputs)
    (got,), (want,) = run_segmented(segmented, inputs), interpret(fd.fusion, inputs)

    torch.testing.assert_close(got, want)
    assert len(segmented.segments) == 2
    assert all("exp" in str(segment.fusion.statements) for segment in segmented.segments)


@pytest.mark.parametrize("present", range(8))
def test_a_view_chain_with_arithmetic_anywhere_is_one_kernel(present: int):
    # A -> view -> B -> view -> C, each of A, B, C there or not
    def build(fd: FusionDefinition) -> None:
        value = fd.from_pytorch(x)
        for bit, shape in enumerate(([2, 4, 6], [8, 6], None)):
            if present >> bit & 1:
                value = fd.ops.exp(value) if bit == 0 else fd.ops.mul(value, 0.5)
            value = value if shape is None else fd.ops.reshape(value, shape)
        fd.add_output(value)

    x = torch.randn(8, 6)
    segmented = segmented_of(build, [x])
    assert len(segmented.segments) == (1 if present else 0)


def test_reasons_say_how_a_result_leaves():
    def build(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.permute(y, [1, 0]))

    x = torch.randn(8, 6)
    kernel, alias = segmented_of(build, [x]).steps
    assert kernel.reason == "T1 leaves through permute, metadata"
    assert alias.reason == "an alias of T1: metadata only"
    assert alias.operations == ("permute",)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    definitions(
        (*POINTWISE, *METADATA, *METADATA, *FACTORIES, *SLICES, *RESIZES, *REDUCTIONS),
        max_operations=20,
    )
)
def test_every_segmentation_gives_the_oracles_numbers(definition):
    with FusionDefinition() as fd:
        definition.build(fd)
    fusion = concrete(fd.fusion, definition.inputs)
    want = interpret(fusion, definition.inputs)
    got = run_segmented(segment_for(fd.fusion, definition.inputs), definition.inputs)
    for result, expected in zip(got, want, strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True)
