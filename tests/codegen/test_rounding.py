"""Which kernels may not contract: those of a fusion that compares with an extreme."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource, may_contract
from fuser.frontend.handles import Handle
from fuser.runtime import cpu, nvrtc
from fuser.schedule.loop_nest import Launch
from tests.definitions import Define, defined


def contracts(define: Define, dtype: torch.dtype = torch.float32) -> bool:
    return may_contract(defined(define, torch.ones(4, 6, dtype=dtype)).fusion)


def is_largest(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.eq(x, fd.ops.max(x, [1], keepdim=True))


def is_nearly_smallest(fd: FusionDefinition, x: Handle) -> Handle:
    least = fd.ops.broadcast_in_dim(fd.ops.min(x, [1]), [4, 6], [0])
    return fd.ops.le(fd.ops.cast(least, DataType.Double), x)


@pytest.mark.parametrize("define", [is_largest, is_nearly_smallest])
def test_a_comparison_with_an_extreme_rounds_everywhere_alike(define: Define):
    assert not contracts(define)


@pytest.mark.parametrize(
    "define",
    [
        lambda fd, x: x * 2.0 + 1.0,
        lambda fd, x: x / fd.ops.max(x, [1], keepdim=True),
        lambda fd, x: fd.ops.gt(x, 0.5),
        lambda fd, x: fd.ops.gt(x, fd.ops.mean(x, [1], keepdim=True)),
        lambda fd, x: fd.ops.gt(x, fd.ops.max(x, [1], keepdim=True) * 0.5),
    ],
)
def test_other_kernels_contract(define: Define):
    assert contracts(define)


def test_integers_are_not_rounded():
    assert contracts(is_largest, torch.int32)


def test_the_compilers_are_told():
    exact, fast = (KernelSource("k", "", "", (), Launch(), contracts=c) for c in (False, True))
    assert set(cpu.flags(exact)) - set(cpu.flags(fast)) == {"-ffp-contract=off"}
    assert set(nvrtc.options(exact)) - set(nvrtc.options(fast)) == {"--fmad=false"}
    assert exact.key != fast.key
