"""Definitions made of functions, and whether what a target computes is what the oracle does.

fd = defined(lambda fd, x: fd.ops.exp(x) + 1.0, x)
agrees(fd, [x], "emulator")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import KernelSource
from fuser.frontend.handles import Handle
from fuser.ir.dtypes import from_torch
from fuser.ir.tolerance import tolerance

Given = Sequence["torch.Tensor | float"]
Made = Handle | Sequence[Handle]
Define = Callable[..., Made]
"""From the definition and its inputs to its outputs."""


def defined(define: Define, *inputs: torch.Tensor | float) -> FusionDefinition:
    """The definition for inputs such as these, tensors or numbers, that returns what `define` makes
    of them."""
    with FusionDefinition() as fd:
        handles = (
            fd.from_pytorch(x) if isinstance(x, torch.Tensor) else fd.define_scalar()
            for x in inputs
        )
        made = define(fd, *handles)
        for out in [made] if isinstance(made, Handle) else made:
            fd.add_output(out)
    return fd


def built(text: str) -> FusionDefinition:
    """The definition that a printed one, its function `nvfuser_fusion`, builds."""
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(text, names)
    with FusionDefinition() as fd:
        names["nvfuser_fusion"](fd)
    return fd


def defined_by_ops(define: Define, *inputs: torch.Tensor | float) -> FusionDefinition:
    """As `defined`, by a function of `fd.ops` in place of `fd`."""
    return defined(lambda fd, *handles: define(fd.ops, *handles), *inputs)


def only_kernel(fd: FusionDefinition, inputs: Given, target: str = "cpu") -> KernelSource:
    """What is compiled of a plan that has one kernel."""
    (kernel,) = fd.plan(inputs, target=target).kernels
    assert kernel.kernel_source is not None
    return kernel.kernel_source


def one_kernel(target: str, define: Define, *inputs: torch.Tensor) -> FusionDefinition:
    """A definition that is one kernel, which agrees with the oracle."""
    fd = defined(define, *inputs)
    plan = fd.plan(inputs, target=target)
    assert len(plan.kernels) == len(plan.steps) == 1, str(plan)
    fd.validate(inputs, target=target)
    return fd


def agrees(fd: FusionDefinition, inputs: Given, target: str) -> list[torch.Tensor]:
    """The outputs on `target`, which are the oracle's: numbers, dtypes and sizes."""
    return fd.validate(inputs, target=target)


def close(
    results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], terms: int = 1
) -> None:
    """Each result is as near as sums of so many terms are, and NaN where that is expected."""
    for got, want in zip(results, expected, strict=True):
        dtype = from_torch(want.dtype)
        assert dtype is not None
        relative, absolute = tolerance(dtype, terms)
        torch.testing.assert_close(got, want, rtol=relative, atol=absolute, equal_nan=True)
