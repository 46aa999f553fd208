import torch

from fuser import FusionDefinition
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Constant, Extern, Full, GeneratorState, Pointwise, Random, Reduce
from fuser.ir.types import TensorType
from fuser.passes.dead_code import remove_dead_code

FLOAT = TensorType(DataType.Float, (4,))


def test_statements_that_no_output_needs_are_dropped():
    # T1 = exp(T0)              T1 = exp(T0)
    # T2 = neg(T1)        ->
    # out T1                    out T1
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    (used,) = builder.add(Pointwise("exp", (x,)))
    (middle,) = builder.add(Pointwise("neg", (used,)))
    builder.add(Pointwise("abs", (middle,)))
    builder.output(used)

    after = remove_dead_code(builder.fusion)

    assert [s.outs[0] for s in after.statements] == [used]
    given = [torch.randn(4)]
    torch.testing.assert_close(interpret(after, given), interpret(builder.fusion, given))


def test_what_advances_the_generator_stays():
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    seed, offset = builder.add(GeneratorState())
    builder.add(Random("normal", (3,), (offset, seed), seed, offset, DataType.Float))
    builder.output(*builder.add(Pointwise("neg", (x,))))

    after = remove_dead_code(builder.fusion)

    assert [type(s.op) for s in after.statements] == [GeneratorState, Pointwise]


def test_dropout_that_torch_does_advances_it_too():
    with FusionDefinition() as fd:
        q, k, v, x = (fd.define_tensor(shape=[-1] * 4, contiguity=True) for _ in range(4))
        fd.ops.sdpfa_fwd(q, k, v, dropout_p=0.5, is_causal=False)
        fd.ops.sdpfa_fwd(k, q, v, dropout_p=0.0, is_causal=False)
        fd.add_output(fd.ops.neg(x))

    assert [type(s.op) for s in remove_dead_code(fd.fusion).statements] == [Extern, Pointwise]


def test_scalars_and_sizes_of_dropped_statements_go_too_but_inputs_stay():
    builder = FusionBuilder()
    x, unused = builder.input(FLOAT), builder.input(FLOAT)
    (number,) = builder.add(Constant(2.0, DataType.Double))
    builder.add(Full((3,), number, DataType.Float))
    (out,) = builder.add(Pointwise("neg", (x,)))
    builder.output(out)

    after = remove_dead_code(builder.fusion)

    assert after.inputs == (x, unused)
    assert [s.out for s in after.statements] == [out]


def test_a_statement_stays_if_one_of_its_results_is_read():
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    _, mean = builder.add(Reduce("var_mean", x, (0,)))
    builder.output(mean)

    assert remove_dead_code(builder.fusion) == builder.fusion


def test_an_output_that_is_an_input_needs_no_statement():
    builder = FusionBuilder()
    x = builder.input(FLOAT)
    builder.add(Pointwise("neg", (x,)))
    builder.output(x)

    after = remove_dead_code(builder.fusion)

    assert after.statements == ()
    assert after.output_values == (x,)
