"""Folds and scans of one element become that element, with the oracle's numbers and strides."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Scan
from fuser.passes.lone_elements import take_lone_elements
from fuser.passes.lower_reductions import lower_reductions
from tests.passes.rewriting import folds
from tests.segmented import concrete

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
KINDS = ("sum", "prod", "max", "min", "any", "all")


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool], ids=str)
def test_what_has_one_element_is_not_folded(dtype: torch.dtype, keepdim: bool):
    x = torch.tensor([[3.0, -0.0, -2.0, 0.5], [1.0, 2.0, 4.0, 0.0]]).to(dtype)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x.T.unsqueeze(0).unsqueeze(2))
        made = [getattr(fd.ops, kind)(given, [0, 2], keepdim=keepdim) for kind in KINDS]
        if dtype.is_floating_point:
            made.append(fd.ops.mean(given, [0, 2], keepdim=keepdim))
            made += fd.ops.var_mean(given, [0, 2], correction=0, keepdim=keepdim)
            made.append(fd.ops.argmax(given, 0, keepdim=keepdim))
        for out in made:
            fd.add_output(out)
    inputs = [x.T.unsqueeze(0).unsqueeze(2)]
    before = concrete(fd.fusion, inputs)
    after = take_lone_elements(lower_reductions(before))
    assert folds(after) == []
    for got, want in zip(interpret(after, inputs), interpret(before, inputs), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool], ids=str)
def test_nor_is_a_tensor_without_dimensions(dtype: torch.dtype):
    x = torch.tensor(3).to(dtype)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        for kind in KINDS:
            fd.add_output(getattr(fd.ops, kind)(given))
    after = take_lone_elements(lower_reductions(concrete(fd.fusion, [x])))
    assert folds(after) == []
    assert interpret(after, [x]) == interpret(fd.fusion, [x])


def test_longer_ones_are_folded():
    with FusionDefinition() as fd:
        x = fd.define_tensor([1, -1])
        fd.add_output(fd.ops.sum(x, [0, 1]))
    after = take_lone_elements(concrete(fd.fusion, [torch.ones(1, 2)]))
    assert folds(after) == ["sum"]


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_a_sum_of_a_negative_zero_alone_is_zero(sizes: tuple[int, ...]):
    x = torch.full(sizes, -0.0)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(given))
        fd.add_output(fd.ops.mean(given))
    for total in fd.execute([x]):
        assert not total.signbit().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
def test_what_is_folded_is_a_tensor_of_its_own(dtype: torch.dtype):
    x = torch.ones((), dtype=dtype)
    kinds = ("sum", "prod", "any", "all") if dtype.is_complex else KINDS
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        for kind in kinds:
            fd.add_output(getattr(fd.ops, kind)(given))
    for got in (*fd.execute([x]), *interpret(fd.fusion, [x])):
        assert got.data_ptr() != x.data_ptr()
        assert got == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (1, 5), (5, 1)])
def test_a_scan_of_one_element_is_that_element(sizes: tuple[int, ...], reverse: bool):
    x = torch.full(sizes, -0.0)
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        for kind in ("cumsum", "cumprod", "cummax", "cummin"):
            fd.add_output(getattr(fd.ops, kind)(given, sizes.index(1), reverse=reverse))
    after = take_lone_elements(concrete(fd.fusion, [x]))
    assert not any(isinstance(statement.op, Scan) for statement in after.statements)
    total, *others = fd.execute([x])
    assert not total.signbit().any()
    assert all(other.signbit().all() for other in others)
