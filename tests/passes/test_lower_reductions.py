"""Means, variances and places of extremes made of folds."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Reduce
from fuser.ir.verify import verify
from fuser.passes.lower_reductions import lower_reductions
from tests.definitions import Define, close, defined
from tests.passes.rewriting import folds
from tests.segmented import concrete

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def lowered(define: Define, x: torch.Tensor) -> Fusion:
    """The pass's result; it verifies, and gives the oracle's numbers."""
    before = concrete(defined(define, x).fusion, [x])
    after = lower_reductions(before)
    verify(after, "after lower_reductions")
    assert [v.type for v in after.output_values] == [v.type for v in before.output_values]
    close(interpret(after, [x]), interpret(before, [x]), x.numel())
    return after


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_mean_is_a_sum_divided(dtype: torch.dtype, keepdim: bool):
    after = lowered(lambda fd, x: fd.ops.mean(x, [1], keepdim=keepdim), torch.randn(4, 6).to(dtype))
    assert folds(after) == ["sum"]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_variance_is_two_sums(dtype: torch.dtype, keepdim: bool):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        both = fd.ops.var_mean(x, [0, 2], correction=0, keepdim=keepdim)
        return [*both, fd.ops.var(x, [1], keepdim=keepdim)]

    assert folds(lowered(define, torch.randn(4, 6, 3).to(dtype))) == ["sum"] * 4


@pytest.mark.parametrize("dims", [[0], [1, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_of_complex_numbers_the_parts_are_summed(dtype: torch.dtype, name: str, dims: list[int]):
    x = torch.randn(4, 6, 3, dtype=dtype)
    after = lowered(lambda fd, x: getattr(fd.ops, name)(x, dims, keepdim=True), x)
    reduced = [s.op for s in after.statements if isinstance(s.op, Reduce)]
    assert len(reduced) == 2
    assert not any(op.arg.dtype.is_complex for op in reduced)


def test_a_sum_may_become_one_of_complex_numbers():
    after = lowered(
        lambda fd, x: fd.ops.sum(x, [1], dtype=DataType.ComplexFloat), torch.randn(4, 6)
    )
    assert folds(after) == ["sum"] * 2


@pytest.mark.parametrize("correction", [0, 1, 5, 6, 7])
def test_any_correction(correction: int):
    lowered(lambda fd, x: fd.ops.var(x, [1], correction=correction), torch.randn(4, 6))


@pytest.mark.parametrize("fold", ["sum", "prod", "max", "min", "any", "all"])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool], ids=str
)
def test_a_fold_reads_the_type_it_folds_in(fold: str, dtype: torch.dtype):
    x = torch.randint(0, 3, (4, 6)).to(dtype)
    after = lowered(lambda fd, x: getattr(fd.ops, fold)(x, [1]), x)
    (reduction,) = [s for s in after.statements if isinstance(s.op, Reduce)]
    assert reduction.op.arg.dtype is reduction.out.dtype
    assert reduction.op.arg.dtype not in (DataType.BFloat16, DataType.Half)


@pytest.mark.parametrize("dtype", [DataType.Double, DataType.Half, DataType.Int])
def test_a_fold_in_a_type_of_its_own(dtype: DataType):
    lowered(lambda fd, x: fd.ops.sum(x, [0], dtype=dtype), torch.randint(-9, 9, (4, 6)))


def test_nothing_over_no_elements():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.mean(x, [1]), fd.ops.var(x, [1]), *fd.ops.welford(x, [1])]

    lowered(define, torch.randn(4, 0))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8], ids=str)
def test_the_place_of_an_extreme_is_two_extremes(dtype: torch.dtype, keepdim: bool):
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.argmax(x, [1], keepdim), fd.ops.argmin(x), fd.ops.argmin(x, 0)]

    x = torch.randint(0, 5, (4, 6)).to(dtype)
    if dtype.is_floating_point:
        x[1, 3:5], x[2, 2] = torch.nan, torch.inf
    assert folds(lowered(define, x)) == ["max", "min", "min", "min", "min", "min"]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_welford_is_two_sums(dtype: torch.dtype, keepdim: bool):
    x = torch.randn(4, 6).to(dtype)
    assert folds(lowered(lambda fd, x: fd.ops.welford(x, [1], keepdim), x)) == ["sum", "sum"]


def test_equal_means_are_handed_out_as_tensors_of_their_own():
    def define(fd: FusionDefinition, x: Handle) -> list[Handle]:
        return [fd.ops.var_mean(x, [0])[1] for _ in range(3)]

    x = torch.randn(4, 6)
    first, *others = interpret(lowered(define, x), [x])
    assert not {first.data_ptr()} & {other.data_ptr() for other in others}


def test_other_complex_reductions_stay():
    complex_ = torch.randn(4, 6, dtype=torch.complex64)
    assert folds(lowered(lambda fd, x: fd.ops.var(x, [1]), complex_)) == ["var"]
