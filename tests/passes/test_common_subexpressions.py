import math

import torch

from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Constant, GeneratorState, Permute, Pointwise, Random, SizeOf
from fuser.ir.types import TensorType
from fuser.ir.verify import verify
from fuser.passes.common_subexpressions import merge_common_subexpressions

FLOAT = TensorType(DataType.Float, (4,))


def merged(builder: FusionBuilder) -> list[str]:
    """Names of the results that are left."""
    after = merge_common_subexpressions(builder.fusion)
    verify(after, "after the pass")
    return [str(statement.outs[0]) for statement in after.statements]


def test_equal_operations_on_equal_operands_are_computed_once():
    # T1 = exp(T0)              T1 = exp(T0)
    # T2 = exp(T0)        ->
    # T3 = add(T1, T2)          T3 = add(T1, T1)
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    (first,) = builder.add(Pointwise("exp", (x,)))
    (second,) = builder.add(Pointwise("exp", (x,)))
    (total,) = builder.add(Pointwise("add", (first, second)))
    builder.output(total)

    after = merge_common_subexpressions(builder.fusion)

    assert [s.out for s in after.statements] == [first, total]
    assert after.statements[-1].op == Pointwise("add", (first, first))
    given = [torch.randn(4)]
    torch.testing.assert_close(interpret(after, given), interpret(builder.fusion, given))


def test_merging_goes_through_chains_and_leaves_outputs_tensors_of_their_own():
    # T1, T2 = exp(T0)             T1 = exp(T0)
    # T3, T4 = neg(T1), neg(T2) -> T3, T4 = neg(T1), neg(T1)
    # out T3, T4                   out T3, T4
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    ends = []
    for _ in range(2):
        (middle,) = builder.add(Pointwise("exp", (x,)))
        ends += builder.add(Pointwise("neg", (middle,)))
    for end in ends:
        builder.output(end)

    after = merge_common_subexpressions(builder.fusion)

    assert len(after.statements) == 3
    assert after.output_values == tuple(ends)


def test_what_outputs_are_views_of_stays_two_tensors_and_views_of_one_are_merged():
    builder = FusionBuilder()
    x = builder.input(TensorType(DataType.Float, (4, 3)))
    rows = [builder.add(Pointwise("exp", (x,)))[0] for _ in range(2)]
    turned = [builder.add(Permute(value, (1, 0)))[0] for value in (rows[0], rows[0], rows[1])]
    for value in turned:
        builder.output(value)

    after = merge_common_subexpressions(builder.fusion)

    assert after.output_values == (turned[0], turned[0], turned[2])
    given = [torch.randn(4, 3)]
    first, second, third = (out.data_ptr() for out in interpret(after, given))
    assert first == second != third


def test_constants_are_equal_by_dtype_and_bits():
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    for value, dtype in (
        (math.nan, DataType.Double),
        (math.nan, DataType.Double),  # the same as the first
        (0.0, DataType.Double),
        (-0.0, DataType.Double),
        (0.0, DataType.Float),
        (0, DataType.Int),
        (0, DataType.Int),  # the same as the one before
    ):
        (number,) = builder.add(Constant(value, dtype))
        builder.output(builder.add(Pointwise("add", (x, number)))[0])

    after = merge_common_subexpressions(builder.fusion)

    assert sum(isinstance(s.op, Constant) for s in after.statements) == 5
    verify(after, "after the pass")


def test_sizes_are_merged_and_operand_order_matters():
    builder = FusionBuilder()
    x, y = builder.input(FLOAT), builder.input(FLOAT)
    builder.add(SizeOf(x, 0))
    builder.add(SizeOf(x, 0))
    builder.add(Pointwise("sub", (x, y)))
    builder.add(Pointwise("sub", (y, x)))

    assert merged(builder) == ["S2", "T4", "T5"]


def test_random_numbers_of_the_generator_are_others_each_time():
    builder = FusionBuilder()
    (low,) = builder.add(Constant(0.0, DataType.Double))
    (high,) = builder.add(Constant(1.0, DataType.Double))
    for _ in range(2):
        state = builder.add(GeneratorState())
        builder.add(Random("uniform", (4,), (low, high), *state, DataType.Float))

    assert merged(builder) == ["S0", "S1", "S2", "T4", "S5", "T7"]


def test_random_numbers_of_one_seed_and_offset_are_one():
    builder = FusionBuilder()
    (low,) = builder.add(Constant(0.0, DataType.Double))
    (high,) = builder.add(Constant(1.0, DataType.Double))
    for offset in (5, 5, 6):
        state = [builder.add(Constant(word, DataType.Int))[0] for word in (3, offset)]
        builder.add(Random("uniform", (4,), (low, high), state[0], state[1], DataType.Float))

    assert merged(builder) == ["S0", "S1", "S2", "S3", "T4", "S9", "T10"]


def test_each_boundary_that_was_asked_for_stays():
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    for _ in range(2):
        builder.add(Pointwise("segment_set", (x,)))

    assert merged(builder) == ["T1", "T2"]
