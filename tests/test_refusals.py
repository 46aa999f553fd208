"""Mistakes that show only when a definition is executed: each is refused before anything runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.flop_counter import FlopCounterMode

import fuser
from fuser import DataType, FusionDefinition, errors, pipeline
from fuser.runtime.cpu import toolchain


def _launched() -> int:
    return fuser.stats()["kernels_launched"]


@pytest.mark.parametrize(
    ("dtype", "too_large"),
    [(DataType.Int32, 2**40 + 5), (DataType.Int, 2**63), (DataType.Int, 2**70)],
)
def test_an_integer_scalar_out_of_range_is_refused_at_every_call(
    dtype: DataType, too_large: int
) -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([2], fd.define_scalar(dtype=dtype), DataType.Float))
    assert fd.execute([1])[0].tolist() == [1.0, 1.0]
    with pytest.raises(errors.ScalarInputError):
        fd.execute([too_large])


def test_an_update_that_does_not_fit_leaves_every_input_as_it_was() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1], contiguity=True)
        b = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(a + 1.0, alias_input=a)
        fd.add_output(a + b, alias_input=b)
    before, first = _launched(), torch.ones(5)
    with pytest.raises(errors.AliasUpdateError, match="sizes differ"):
        fd.execute([first, torch.ones(1)])
    assert torch.equal(first, torch.ones(5))
    assert _launched() == before


def test_an_expanded_input_cannot_be_updated() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1], contiguity=False)
        fd.add_output(a + 1.0, alias_input=a)
    with pytest.raises(errors.FuserError):
        fd.execute([torch.ones(1).expand(5)])


def test_an_input_of_no_elements_may_have_any_strides() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1, -1], contiguity=False)
        fd.add_output(a + 1.0, alias_input=a)
    assert fd.execute([torch.ones(1, 0).expand(3, 0)]) == []


def test_a_size_without_a_value_names_the_scalar() -> None:
    with FusionDefinition() as fd:
        i, j = fd.define_scalar(dtype=DataType.Int), fd.define_scalar(dtype=DataType.Int)
        fd.add_output(fd.ops.full([fd.ops.div(i, j)], 1.0, DataType.Float))
    words = r"fd\.ops\.div\(S0, S1\): the scalar has no value: an integer is divided by 0"
    with pytest.raises(errors.ScalarEvaluationError, match=words):
        fd.execute([3, 0])


def test_a_failure_in_torch_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("not enough memory")

    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(fd.ops.argsort(t, 0))
    monkeypatch.setattr(torch, "argsort", full)
    with pytest.raises(errors.ExternError, match=r"argsort.*not enough memory"):
        fd.execute([torch.ones(2)])


def test_an_index_out_of_range_names_the_operation() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        index = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(t, index, dim=0))
    with pytest.raises(errors.IndexOutOfRangeError, match=r"index_select: index 7 .* 0 to 2"):
        fd.execute([torch.ones(3), torch.tensor([7])])


def test_a_target_that_is_no_string_is_named() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) + 1.0)
    for wrong in (3, ["cpu"]):
        with pytest.raises(errors.TargetError, match=re.escape(repr(wrong))):
            fd.execute([torch.ones(3)], target=wrong)  # type: ignore[arg-type]
        with pytest.raises(errors.TargetError, match=re.escape(repr(wrong))):
            fd.fec.is_compiled([torch.ones(3)], target=wrong)  # type: ignore[arg-type]


def test_an_operation_looked_up_on_the_definition_tells_where_it_is() -> None:
    with (
        pytest.raises(errors.UnknownMemberError, match=r"fd\.ops\.permute"),
        FusionDefinition() as fd,
    ):
        fd.permute(None)


def test_a_compiler_that_cxx_names_in_vain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setattr(pipeline, "find_compiler", lambda: None)
    monkeypatch.setattr(toolchain, "_warned", type(toolchain._warned)())
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1], contiguity=True) + 1.0)
    with pytest.warns(RuntimeWarning, match="CXX names '/nonexistent', which is no program"):
        assert torch.equal(fd.execute([torch.ones(3)])[0], torch.full((3,), 2.0))


def doubled(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) * 2.0)
    return fd


def _freed() -> torch.Tensor:
    x = torch.randn(4, 6)
    x.untyped_storage().resize_(0)
    return x


def _fake(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return FakeTensorMode().from_tensor(torch.zeros(sizes, dtype=dtype))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: torch._efficientzerotensor((4, 6)), "a Tensor that has none"),  # pyright: ignore
        (_freed, "a Tensor that has none, as where its storage was freed"),
        (lambda: _fake(4, 6), "a FakeTensor, which holds no numbers"),
        (lambda: torch.empty(4, 6, device="meta"), "a meta tensor, which holds no numbers"),
        (lambda: TwoTensor(torch.randn(4, 6), torch.randn(4, 6)), "wrappers of other tensors"),
    ],
    ids=["zero", "freed", "fake", "meta", "wrapper"],
)
def test_a_tensor_without_memory_is_refused(made: Callable[[], torch.Tensor], words: str) -> None:
    x = torch.randn(4, 6)
    fd = doubled(x)
    for _ in range(2):  # also once there is a plan
        for run in (fd.execute, fd.validate, fd.profile):
            with pytest.raises(errors.InputKindError) as raised:
                run([made()])
            assert str(raised.value).startswith("input 0 (T0): expected a tensor with memory, got")
            assert words in str(raised.value)
        assert torch.equal(fd.execute([x])[0], x * 2)


@pytest.mark.filterwarnings("error")
def test_a_fake_can_be_planned_and_written_into_a_script() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        index = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(x, index, 0) * 2.0)
        fd.add_output(x + 1.0, alias_input=x)
    fakes = [_fake(4, 6), _fake(3, dtype=torch.int64)]
    assert str(fd.plan(fakes)) == str(fd.plan([torch.ones(4, 6), torch.tensor([0, 1, 2])]))
    assert "(4, 6)" in fd.repro_script_for(fakes)
    assert "(4, 6)" in fd.repro_script_for(fakes, numbers=True)


def test_no_elements_need_no_memory() -> None:
    assert doubled(torch.randn(4, 6)).execute([torch.randn(0, 6)])[0].shape == (0, 6)


def test_a_call_inside_of_a_function_transform_is_refused() -> None:
    fd = doubled(torch.randn(4, 6))
    with pytest.raises(errors.InputKindError, match="function transform"):
        torch.func.vmap(lambda x: fd.execute([x])[0])(torch.randn(3, 4, 6))


def test_a_call_that_torch_traces_is_refused() -> None:
    x = torch.randn(4, 6)
    fd = doubled(x)
    with pytest.raises(errors.TracingError, match="ProxyTorchDispatchMode"):
        make_fx(lambda x: fd.execute([x])[0])(x)
    with FakeTensorMode(), pytest.raises(errors.TracingError, match="FakeTensorMode"):
        fd.execute([x])
    with FlopCounterMode(display=False):  # only looks on
        assert torch.equal(fd.execute([x])[0], x * 2)


def test_without_a_compiler_an_update_that_does_not_fit_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "find_compiler", lambda: None)
    monkeypatch.setattr(toolchain, "find_compiler", lambda: None)
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1], contiguity=True)
        b = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(a + 1.0, alias_input=a)
        fd.add_output(a + b, alias_input=b)
    first = torch.ones(5)
    monkeypatch.setattr(toolchain, "_warned", threading.Event())
    unfused = pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler")
    with unfused, pytest.raises(errors.AliasUpdateError, match="sizes differ"):
        fd.execute([first, torch.ones(1)])
    assert torch.equal(first, torch.ones(5))


@pytest.mark.parametrize("given", [torch.ones(4, 6), 5, None, iter([torch.ones(4, 6)]), "x"])
def test_inputs_are_a_list(given: object) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="a list of tensors and Python numbers"):
        doubled(torch.ones(4, 6)).execute(given)  # pyright: ignore[reportArgumentType]


def test_a_device_that_is_none_is_refused() -> None:
    with pytest.raises(errors.ArgumentError, match="torch knows no such device"):
        doubled(torch.ones(4, 6)).execute([torch.ones(4, 6)], device=[])  # pyright: ignore


def test_a_size_may_be_given_for_a_vector() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.reshape(x, fd.define_vector(2)))
    assert fd.execute([torch.ones(4, 6), torch.Size([3, 8])])[0].shape == (3, 8)
