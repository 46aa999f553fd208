"""The code that is run, by nvFuser's names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fuser
from fuser import DataType, FusionDefinition, errors


@pytest.fixture(autouse=True)
def _oracle() -> None:
    """These run the real thing."""


X = torch.randn(6, 8)


def row_sums() -> FusionDefinition:
    """A kernel, a product by torch, and an alias."""
    with FusionDefinition() as fd:
        t = fd.from_pytorch(X)
        fd.add_output(fd.ops.sum(t * 2.0, [1]))
        fd.add_output(fd.ops.matmul(t, fd.ops.permute(t, [1, 0])))
        fd.add_output(fd.ops.permute(t, [1, 0]))
    return fd


def test_the_code_of_a_call_is_that_of_its_plan() -> None:
    fd = row_sums()
    source = fd.plan([X]).kernels[0].source
    for library in (False, True):
        code = fd.cuda_code_for([X], library)
        assert (source in code) == library
        assert source[source.index('extern "C"') :] in code
        assert code == fd.fec.get_cuda_kernel([X], intrinsic_code=library)
    assert "// matmul: no kernel; matmul by torch\n" in code
    assert "no kernel; permute by host\n" in code


def test_cuda_code_needs_no_gpu() -> None:
    meta = torch.empty(6, 8, device="meta")
    assert "__global__" in row_sums().fec.get_cuda_kernel([meta], target="cuda:sm_90")
    assert "__global__" in row_sums().cuda_code_for([X], target="cuda:sm_90")
    assert "blockIdx" not in row_sums().cuda_code_for([X])


def test_schedules_are_loop_nests() -> None:
    fd = row_sums()
    assert "for i0 < 6" in fd.scheduled_fusion_ir_for([X])
    assert "Parameters(" not in fd.scheduled_fusion_ir_for([X])
    assert "Parameters(" in fd.scheduled_fusion_ir_for([X], tensor_transforms=True)
    assert fd.fec.get_scheduled_ir([X], True) == fd.scheduled_fusion_ir_for([X], True)
    assert fd.fusion_ir() == repr(fd)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.prod(fd.define_tensor(shape=[-1], dtype=fuser.DataType.ComplexFloat)))
    assert "fd.ops.prod" in fd.scheduled_fusion_ir_for([torch.randn(3, dtype=torch.complex64)])


def test_the_last_call_is_the_last_even_of_known_inputs() -> None:
    fd = row_sums()
    for get in (
        fd.last_cuda_code,
        fd.last_scheduled_fusion_ir,
        fd.fec.get_most_recent_scheduled_ir,
    ):
        with pytest.raises(errors.NothingSavedError, match="execute"):
            get()
    large = torch.randn(70, 8)
    for x in (X, large, X):
        fd.execute([x])
        fd.plan([torch.randn(5, 8)])
        assert fd.last_cuda_code() == fd.cuda_code_for([x])
        assert fd.last_scheduled_fusion_ir() == fd.scheduled_fusion_ir_for([x])
        assert f"for i0 < {len(x)}" in fd.fec.get_most_recent_scheduled_ir()


def test_what_is_compiled_is_known() -> None:
    fd = row_sums()
    fd.plan([X])
    assert not fd.fec.is_compiled([X])
    fd.execute([X])
    assert fd.fec.is_compiled([X])
    assert not fd.fec.is_compiled([X], target="emulator")
    assert not fd.fec.is_compiled([torch.randn(9, 8)])
    with pytest.raises(errors.InputCountError):
        fd.fec.is_compiled([])


def test_without_a_compiler_nothing_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    fd = row_sums()
    fd.execute([X])
    with pytest.raises(errors.NothingSavedError, match="planned"):
        fd.last_cuda_code()


NAMED: list[tuple[str, Callable[[FusionDefinition], object]]] = [
    ("last_cuda_code", lambda fd: fd.last_cuda_code()),
    ("last_scheduled_fusion_ir", lambda fd: fd.last_scheduled_fusion_ir()),
    (
        "fec.get_most_recent_scheduled_ir",
        lambda fd: fd.fec.get_most_recent_scheduled_ir(),
    ),
    ("cuda_code_for", lambda fd: fd.cuda_code_for([])),
    ("scheduled_fusion_ir_for", lambda fd: fd.scheduled_fusion_ir_for([])),
    ("fec.get_cuda_kernel", lambda fd: fd.fec.get_cuda_kernel([])),
    ("fec.get_scheduled_ir", lambda fd: fd.fec.get_scheduled_ir([])),
    ("validate", lambda fd: fd.validate([])),
]


@pytest.mark.parametrize(("name", "call"), NAMED)
def test_errors_name_the_method_that_was_called(
    name: str, call: Callable[[FusionDefinition], object]
) -> None:
    with FusionDefinition() as fd, pytest.raises(errors.DefinitionOpenError, match=f"^{name}: "):
        call(fd)
    if "last" in name or "recent" in name:
        with pytest.raises(errors.NothingSavedError, match=f"^{name}: "):
            call(row_sums())


def test_a_device_may_be_named_as_nvfuser_has_it() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([4], 2.0, DataType.Float) * fd.define_scalar())
    assert fd.fec.get_cuda_kernel([2.0], False, "cpu") == fd.fec.get_cuda_kernel([2.0])
    assert fd.fec.get_scheduled_ir([2.0], device="cpu") == fd.fec.get_scheduled_ir([2.0])
    assert fd.fec.is_compiled([2.0], "cpu") is False
    fd.execute([2.0], device="cpu")
    assert fd.fec.is_compiled([2.0], "cpu")
    assert fd.plan([2.0], device="cpu").kernels
    with pytest.raises(errors.ArgumentError, match="the inputs are on cpu"):
        row_sums().fec.get_cuda_kernel([X], device=0)
    with pytest.raises(errors.ArgumentError, match="the inputs are on cpu"):
        row_sums().validate([X], None, 0)
