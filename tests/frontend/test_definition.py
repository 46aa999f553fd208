"""Definitions: the published scripts, their life cycle, and every form of their declarations."""

from __future__ import annotations

import gc
import itertools

import pytest
import torch

from fuser import DataType, Fusion, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.ir.nodes import StrideOrder
from fuser.ir.types import Layout, TensorType
from tests.covering import more

# -- the published scripts -----------------------------------------------------------------------


def attention(fd: FusionDefinition) -> None:
    T0 = fd.define_tensor(  # noqa: N806
        symbolic_sizes=[-1, -1, -1], contiguous=[True, True, True], dtype=DataType.Float
    )
    T1 = fd.ops.view(T0, original_shape=[768, 128, 64], new_shape=[64, 12, 128, 64])  # noqa: N806
    T2 = fd.ops.permute(T1, dims=[0, 2, 1, 3])  # noqa: N806
    T3 = fd.ops.set(T2)  # noqa: N806
    T4 = fd.ops.view(T3, original_shape=[64, 128, 12, 64], new_shape=[64, 128, 768])  # noqa: N806
    T5 = fd.ops.view(T4, original_shape=[64, 128, 768], new_shape=[8192, 768])  # noqa: N806
    fd.add_output(T5)


def gelu(fd: FusionDefinition) -> None:
    T0 = fd.define_tensor(  # noqa: N806
        symbolic_sizes=[-1, -1], contiguous=[True, True], dtype=DataType.Float
    )
    T1 = fd.ops.view(T0, original_shape=[8192, 3072], new_shape=[64, 128, 3072])  # noqa: N806
    S2 = fd.define_constant(0.500000)  # noqa: N806
    T3 = fd.ops.mul(T1, S2)  # noqa: N806
    S4 = fd.define_constant(0.707107)  # noqa: N806
    T5 = fd.ops.mul(T1, S4)  # noqa: N806
    T6 = fd.ops.erf(T5)  # noqa: N806
    S7 = fd.define_constant(1.00000)  # noqa: N806
    T8 = fd.ops.add(T6, S7)  # noqa: N806
    T9 = fd.ops.mul(T3, T8)  # noqa: N806
    T10 = fd.ops.view(T9, original_shape=[64, 128, 3072], new_shape=[8192, 3072])  # noqa: N806
    fd.add_output(T1)
    fd.add_output(T10)


def test_attention_script_runs() -> None:
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        attention(fd)
    x = torch.randn(768, 128, 64)
    for _ in range(2):
        (out,) = fs.execute([x])
    expected = x.view(64, 12, 128, 64).permute(0, 2, 1, 3).reshape(8192, 768)
    torch.testing.assert_close(out, expected)


FEW = [(False, False, False), (True, False, False), (False, True, True), (True, True, True)]
PRESENT = [*FEW, *more(*(p for p in itertools.product([False, True], repeat=3) if p not in FEW))]


def test_gelu_script_runs() -> None:
    fs = Fusion()
    with FusionDefinition(fs, 1024) as fd:
        gelu(fd)
    x = torch.randn(8192, 3072)
    view, out = fs.execute([x])
    assert view.shape == (64, 128, 3072)
    torch.testing.assert_close(out, torch.nn.functional.gelu(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("present", PRESENT)
def test_view_chain_script_runs(present: tuple[bool, bool, bool]) -> None:
    shapes = [[8192, 3072], [64, 128, 3072]]

    def view(fd: FusionDefinition, tensor: Handle, wanted: bool) -> Handle:
        if not wanted:
            return tensor
        shapes.reverse()
        return fd.ops.view(tensor, original_shape=shapes[1], new_shape=shapes[0])

    a, b, c = present
    with FusionDefinition() as fd:
        T = fd.define_tensor(symbolic_sizes=[-1, -1], contiguous=[True, True])  # noqa: N806
        T = view(fd, T, a)  # noqa: N806
        T = fd.ops.add(T, T)  # noqa: N806
        T = view(fd, T, b)  # noqa: N806
        T = fd.ops.mul(T, T)  # noqa: N806
        T = view(fd, T, c)  # noqa: N806
        fd.add_output(T)
    x = torch.randn(8192, 3072)
    (out,) = fd.execute([x])
    torch.testing.assert_close(out, ((x + x) ** 2).view(shapes[0]))


# -- life cycle ----------------------------------------------------------------------------------


def finished() -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1])))
    return fd


def test_both_objects_execute_and_plan() -> None:
    fs = Fusion()
    assert not fs.defined()
    with FusionDefinition(fs) as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1])))
    assert fs.defined()
    assert fs.id() == fd.id() != Fusion().id()
    x = torch.ones(3)
    assert torch.equal(fs.execute([x])[0], -x)
    assert torch.equal(fd.execute([x], device=0, target="cpu")[0], -x)
    assert fd.plan([x], target="cuda:sm_90") == (fd.fusion, "cuda:sm_90")
    assert fs.plan([x]) == (fd.fusion, None)


def test_a_fusion_of_a_number_runs_what_the_one_of_that_number_does() -> None:
    fd = finished()
    named = Fusion(fd.id())
    assert named.id() == fd.id()
    assert named.defined()
    assert repr(named) == repr(fd)
    assert torch.equal(named.execute([torch.ones(3)])[0], -torch.ones(3))
    with pytest.raises(errors.RedefinitionError), FusionDefinition(named):
        pass
    with pytest.raises(errors.ArgumentError, match="no Fusion of this number"):
        Fusion(-1)
    empty = Fusion()
    with pytest.raises(errors.EmptyDefinitionError):
        Fusion(empty.id())


def test_fusion_prints_the_definition(capsys: pytest.CaptureFixture[str]) -> None:
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        fd.add_output(fd.define_tensor(shape=[-1]))
    fs.print()
    assert capsys.readouterr().out == str(fd) == repr(fs)


def test_text_is_an_executable_function() -> None:
    assert repr(finished()) == (
        "def nvfuser_fusion(fd: FusionDefinition) -> None:\n"
        "    T0 = fd.define_tensor(shape=[-1], contiguity=[False], dtype=DataType.Float)\n"
        "    T1 = fd.ops.neg(T0)\n"
        "    fd.add_output(T1)\n"
    )


def test_harmless_options_are_accepted_and_others_refused() -> None:
    fd = finished()
    fd.execute([torch.ones(1)], save_repro_inputs=True, _enable_options=["kernel_profile"])
    fd.execute([torch.ones(1)], auto_schedule=True)
    with pytest.raises(errors.CallError, match="wibble"):
        fd.execute([torch.ones(1)], wibble=True)


def test_second_block_is_refused() -> None:
    fd = finished()
    with pytest.raises(errors.RedefinitionError, match="new FusionDefinition"), fd:
        pass
    fs = Fusion()
    with FusionDefinition(fs):
        pass
    with pytest.raises(errors.RedefinitionError, match="new Fusion "), FusionDefinition(fs):
        pass


def test_error_in_the_block_propagates_and_spoils_the_definition() -> None:
    fd = FusionDefinition()
    with pytest.raises(ZeroDivisionError), fd:
        fd.add_output(fd.define_tensor(shape=[1 // 0]))
    with pytest.raises(
        errors.DefinitionFailedError, match="ZeroDivisionError: integer division or modulo by zero"
    ):
        fd.execute([torch.ones(1)])
    assert fd.validate_definition()[0] is False
    for again in (fd.__enter__, lambda: fd.define_tensor(shape=[-1]), lambda: fd.plan([])):
        with pytest.raises(errors.DefinitionFailedError, match=r"Zero.*; make a new FusionDef"):
            again()


def test_execution_before_a_definition_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="nothing is defined"):
        FusionDefinition().execute([])
    with pytest.raises(errors.EmptyDefinitionError):
        Fusion().plan([])
    with FusionDefinition() as fd, pytest.raises(errors.DefinitionOpenError, match="execute"):
        fd.execute([])
    with pytest.raises(errors.EmptyDefinitionError):
        fd.execute([])
    with FusionDefinition() as fd:
        fd.define_tensor(shape=[-1])
    with pytest.raises(errors.NoOutputError) as caught:
        fd.execute([torch.ones(1)])
    assert isinstance(caught.value, RuntimeError | NotImplementedError)
    assert fd.validate_definition() == (False, str(caught.value))
    assert finished().validate_definition() == (True, None)


def test_definition_outside_the_block_is_refused() -> None:
    fd = FusionDefinition()
    with pytest.raises(errors.DefinitionNotOpenError, match="define_tensor"):
        fd.define_tensor(shape=[-1])
    with fd:
        x = fd.define_tensor(shape=[-1])
    for extend in (
        lambda: fd.ops.neg(x),
        lambda: x + 1,
        lambda: x.size(0),
        lambda: fd.define_scalar(2.0),
        lambda: fd.add_output(x),
        lambda: fd.define_vector(2),
    ):
        with pytest.raises(errors.DefinitionClosedError):
            extend()


def test_first_argument_is_a_fusion() -> None:
    with pytest.raises(errors.ArgumentTypeError, match=r"a Fusion, .*got str"):
        FusionDefinition("3")  # pyright: ignore[reportArgumentType]


def test_a_definition_is_found_by_its_number() -> None:
    fd = finished()
    found = FusionDefinition(fd.id())
    assert found.id() == fd.id()
    assert repr(found) == repr(fd)
    assert found.fusion is fd.fusion
    x = torch.ones(3)
    assert torch.equal(found.execute([x])[0], -x)
    with pytest.raises(errors.RedefinitionError), found:
        pass
    named = FusionDefinition(id=fd.id(), max_length=1024)
    assert named.fusion is fd.fusion
    with pytest.raises(errors.ArgumentError, match="give it once, as fusion or id"):
        FusionDefinition(Fusion(), id=fd.id())
    number = fd.id()
    del fd, found, named
    gc.collect()
    with pytest.raises(errors.ArgumentError, match="alive"):
        FusionDefinition(number)


# -- inputs --------------------------------------------------------------------------------------


def declared(*args: object, **named: object) -> TensorType:
    with FusionDefinition() as fd:
        value = fd.define_tensor(*args, **named).value  # pyright: ignore[reportArgumentType]
    return value.tensor


def like(tensor: torch.Tensor, static_sizes: bool = False) -> TensorType:
    with FusionDefinition() as fd:
        value = fd.from_pytorch(tensor, static_sizes).value
    return value.tensor


def test_shape_with_contiguity_by_name_and_position() -> None:
    layout = Layout((True, None), (1, 0))
    expected = TensorType(DataType.Half, (-1, 1), layout)
    assert declared(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Half) == expected
    assert declared([-1, 1], [True, None], DataType.Half) == expected
    assert declared([-1, 1], True, DataType.Half) == expected
    assert (
        declared(symbolic_sizes=[-1, 1], contiguous=[True, True], dtype=DataType.Half) == expected
    )
    assert declared((-1, 1), contiguity=(True, None), dtype=DataType.Half) == expected


def test_default_is_not_contiguous_float() -> None:
    expected = TensorType(
        DataType.Float, (-1, 0, 7, 1), Layout((False, False, False, None), (3, 2, 1, 0))
    )
    assert declared(shape=[-1, 0, 7, 1]) == expected
    assert declared(shape=[]) == TensorType(DataType.Float, (), Layout((), ()))


def test_any_rank() -> None:
    assert declared(2, DataType.Int) == declared(shape=[-1, -1], dtype=DataType.Int)
    assert declared(ndims=0) == declared(shape=[])


def test_sizes_and_strides_describe_a_tensor() -> None:
    transposed = Layout((True, True), (0, 1))
    assert declared([4, 3], [1, 4]) == TensorType(DataType.Float, (-1, -1), transposed)
    static = declared(sizes=[4, 3], strides=[1, 4], static_sizes=True, dtype=DataType.Int)
    assert static == TensorType(DataType.Int, (4, 3), transposed)


def test_contiguity_follows_the_stride_order() -> None:
    given = declared(shape=[-1, 1, -1], contiguity=[True, False, None], stride_order=[1, 0, 2])
    assert given.layout == Layout((True, False, None), (1, 0, 2))
    assert declared(shape=[-1, -1], stride_order=[-2, -1]).layout == Layout((False, False), (0, 1))
    assert declared(shape=[-1, 1], contiguity=True, stride_order=[0, 1]).layout == Layout(
        (None, True), (0, 1)
    )


def test_expanded_dimension_is_declared_by_none() -> None:
    assert declared(shape=[-1, 5], contiguity=[True, None]).layout == Layout((True, None), (1, 0))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"shape": [-2]}, "shape"),
        ({"shape": [-1, -1], "contiguity": [True]}, "contiguity"),
        ({"shape": [-1], "contiguity": ["x"]}, "contiguity"),
        ({"shape": [-1, -1], "stride_order": [0, 0]}, "stride_order"),
        ({"shape": [-1, -1], "stride_order": [0, 2]}, "stride_order"),
        ({"shape": [-1], "is_cpu": True}, "is_cpu"),
        ({"sizes": [3], "strides": [-1]}, "strides"),
        ({"sizes": [3], "strides": [1, 1]}, "strides"),
        ({"sizes": [-1], "strides": [1]}, r"sizes = \[-1\]: expected a tensor's sizes"),
        ({"sizes": [3]}, "sizes and strides"),
        ({}, r"arguments = \[\]: give shape"),
        ({"shape": [1], "ndims": 1}, r"arguments = \['shape', 'ndims'\]: give shape"),
        ({"shape": [1], "strides": [1]}, r"arguments = \['shape', 'strides'\]: give shape"),
        ({"sizes": [3], "strides": [1], "contiguity": [True]}, "contiguity.* not go with sizes"),
        ({"sizes": [3], "strides": [1], "stride_order": [0]}, "stride_order.* not go with sizes"),
        ({"shape": [3], "static_sizes": True}, "static_sizes.* not go with shape"),
    ],
)
def test_impossible_tensors_are_refused(named: dict[str, object], words: str) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        declared(**named)


def test_what_is_given_twice_is_refused_even_where_it_agrees() -> None:
    once = "contiguity = .*: give it once, as contiguity or contiguous"
    for older in ([True], [False]):
        with pytest.raises(errors.ArgumentError, match=once):
            declared(shape=[-1], contiguity=[True], contiguous=older)
        with pytest.raises(errors.ArgumentError, match=once):
            declared([-1], [True], contiguous=older)
    with pytest.raises(errors.ArgumentError, match=r"shape.*once, as shape or symbolic_sizes"):
        declared(shape=[-1], symbolic_sizes=[-1])
    with pytest.raises(errors.ArgumentError, match=r"shape.*once, by position or by name"):
        declared([-1], shape=[3])
    with pytest.raises(errors.ArgumentError, match=r"dtype.*once, by position or by name"):
        declared([-1], [True], DataType.Half, dtype=DataType.Int)


def test_forms_may_mix_old_names_with_new_ones_and_with_positions() -> None:
    expected = declared(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Half)
    assert declared([-1, 1], contiguous=[True, None], dtype=DataType.Half) == expected
    assert declared(symbolic_sizes=[-1, 1], contiguity=True, dtype=DataType.Half) == expected
    assert declared(ndims=2, contiguity=True, stride_order=[0, 1]) == declared(
        shape=[-1, -1], contiguity=True, stride_order=[0, 1]
    )


@pytest.mark.parametrize(
    "named",
    [
        {"shape": [1.5]},
        {"shape": 3.0},
        {"shape": [True]},
        {"shape": [-1], "dtype": torch.float32},
        {"shape": [-1], "is_cpu": 2},
        {"shape": [-1], "contiguity": 3},
    ],
)
def test_wrong_types_of_tensor_arguments_are_refused(named: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        declared(**named)
    with pytest.raises(errors.ArgumentTypeError):
        declared([-1], True, DataType.Float, False, [0], "more")


def test_from_pytorch_reads_the_layout() -> None:
    assert like(torch.ones(3, 1, 4)).shape == (-1, 1, -1)
    assert like(torch.ones(3, 1, 4), True).shape == (3, 1, 4)
    assert like(torch.ones(())).shape == ()
    assert like(torch.ones(0, 3), True).shape == (0, 3)
    assert like(torch.ones(3, 4).t()).layout == Layout((True, True), (0, 1))
    assert like(torch.ones(3, 4)[:, ::2]).layout == Layout((True, False), (1, 0))
    assert like(torch.ones(3, 1).expand(3, 5)).layout == Layout((True, None), (1, 0))
    assert like(torch.ones(1, 4).expand(3, 4)).layout == Layout((None, True), (1, 0))
    assert like(torch.ones(2, dtype=torch.bool, device="meta")).dtype is DataType.Bool


def test_from_pytorch_refuses_what_is_no_dense_tensor() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="strided"):
        like(3.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.ArgumentTypeError, match="sparse"):
        like(torch.eye(3).to_sparse())
    with pytest.raises(errors.ArgumentTypeError, match="got a nested tensor"):
        like(torch.nested.as_nested_tensor([torch.ones(3)]))
    with pytest.raises(errors.OperandDtypeError, match="float8_e5m2fnuz"):
        like(torch.ones(3).to(torch.float8_e5m2fnuz))


def test_scalars_are_inputs_or_constants() -> None:
    with FusionDefinition() as fd:
        x = fd.define_scalar()
        y = fd.define_scalar(DataType.Int)
        z = fd.define_scalar(None, DataType.Bool)
        two = fd.define_scalar(2, DataType.Float)
        half = fd.define_constant(0.5)
        size, *_ = fd.define_vector(3)
        constants = fd.define_vector([3, 4])
    assert [v.dtype() for v in (x, y, z, two, half)] == [
        DataType.Double,
        DataType.Int,
        DataType.Bool,
        DataType.Float,
        DataType.Double,
    ]
    assert [value.name for value in fd.fusion.inputs] == ["S0", "S1", "S2", "S5", "S6", "S7"]
    assert size.dtype() is DataType.Int
    assert len(constants) == 2


def test_a_constant_is_what_is_equal_to_it_in_its_dtype() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], dtype=DataType.Bool)
        none, two = fd.define_scalar(0.0, DataType.Int), fd.define_scalar(2 + 0j, DataType.Int32)
        yes, one = fd.define_scalar(1, DataType.Bool), fd.define_scalar(True, DataType.Double)
        fd.add_output(fd.ops.where(t, none, two))
        fd.add_output(fd.ops.logical_and(t, yes))
        fd.add_output(fd.ops.where(t, fd.define_scalar(3 + 0j, DataType.Float), one))
    given = torch.tensor([True, False])
    for target in ("cpu", "emulator"):
        chosen, same, ones = fd.execute([given], target=target)
        assert (chosen.dtype, chosen.tolist()) == (torch.int64, [0, 2])
        assert torch.equal(same, given)
        assert ones.tolist() == [3.0, 1.0]
    text = repr(fd)
    assert "fd.define_scalar(0, dtype=DataType.Int)" in text
    assert "fd.define_scalar(True, dtype=DataType.Bool)" in text


def test_constants_must_fit_their_dtype() -> None:
    with FusionDefinition() as fd:
        for value, dtype in [
            (2.5, DataType.Int),
            (float("inf"), DataType.Int),
            (float("nan"), DataType.Bool),
            (2, DataType.Bool),
            (1j, DataType.Double),
            (1 << 31, DataType.Int32),
            (2.0**31, DataType.Int32),
        ]:
            with pytest.raises(errors.ArgumentError, match=dtype.name):
                fd.define_scalar(value, dtype)
        with pytest.raises(errors.ArgumentError, match="Int"):
            fd.define_scalar(1 << 63)
        with pytest.raises(errors.ArgumentError, match="a number that fits Float"):
            fd.define_scalar(10**400, DataType.Float)
        for define in (fd.define_scalar, fd.define_constant):
            with pytest.raises(errors.ArgumentTypeError, match=f"{define.__name__}: dtype must be"):
                define(2, True)  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ArgumentTypeError, match="number"):
            fd.define_scalar("2")  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ArgumentError, match="size"):
            fd.define_vector(-1)


def test_vector_inputs_may_be_nested() -> None:
    with FusionDefinition() as fd:
        shape = fd.define_vector(2)
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.reshape(x, shape))
    x = torch.arange(6.0)
    for inputs in ([[2, 3], x], ((2, 3), x), [2, 3, x]):
        assert fd.execute(inputs)[0].shape == (2, 3)


# -- outputs -------------------------------------------------------------------------------------


def test_outputs_must_be_tensors_of_the_definition() -> None:
    with FusionDefinition() as other:
        foreign = other.define_tensor(shape=[-1])
    with FusionDefinition() as fd:
        with pytest.raises(errors.UndefinedOutputError, match="None"):
            fd.add_output(None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ForeignValueError, match="T0"):
            fd.add_output(foreign)
        with pytest.raises(errors.ForeignValueError, match="add: T0"):
            fd.ops.add(fd.define_tensor(shape=[-1]), foreign)
        with pytest.raises(errors.ScalarOutputError, match=r"fd\.ops\.full"):
            fd.add_output(fd.define_scalar())


def test_output_written_into_an_input_is_not_returned() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        y = fd.ops.neg(x)
        fd.add_output(y, alias_input=x)
        fd.add_output(fd.ops.abs(y))
    assert [output.alias_of for output in fd.fusion.outputs] == [x.value, None]
    assert "fd.add_output(T1, alias_input=T0)" in repr(fd)
    assert len(fd.execute([torch.ones(2)])) == 1


def test_alias_must_be_an_input_of_the_outputs_type() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 3])
        half = fd.define_tensor(shape=[-1, 3], dtype=DataType.Half)
        y = fd.ops.neg(x)
        for wrong in (half, y, fd.define_tensor(shape=[-1]), fd.define_tensor(shape=[-1, 4])):
            with pytest.raises(errors.ArgumentError, match="alias_input"):
                fd.add_output(y, alias_input=wrong)


def test_an_input_holds_one_output() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.neg(x), alias_input=x)
        with pytest.raises(errors.ArgumentError, match="alias_input = 'T0': an output before"):
            fd.add_output(fd.ops.exp(x), alias_input=x)


def test_running_statistics_hold_one_update() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 4, -1])
        mean, variance = (fd.define_tensor(shape=[4]) for _ in range(2))
        normed, _, _ = fd.ops.batch_norm(x, None, None, mean, variance)
        with pytest.raises(errors.ArgumentError, match="running_mean = 'T1': an output before"):
            fd.ops.batch_norm(normed, None, None, mean, variance)


def test_stride_order_of_an_output() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1])
        fd.add_output(x, [0, 1])
        fd.add_output(x, stride_order=[0, 1])
    first, second = (statement.op for statement in fd.fusion.statements)
    assert first == second == StrideOrder(x.value, (0, 1))
    assert fd.execute([torch.ones(2, 3)])[0].stride() == (1, 2)


def test_a_block_within_its_own_block_is_refused_as_open() -> None:
    with FusionDefinition() as fd:
        with pytest.raises(errors.DefinitionOpenError, match=r"with: .* still open"):
            fd.__enter__()
        fd.add_output(fd.define_tensor(shape=[1]) * 2.0)
    assert fd.execute([torch.ones(1)])[0].item() == 2
    with pytest.raises(errors.DefinitionNotOpenError):
        FusionDefinition().__exit__(None, None, None)
