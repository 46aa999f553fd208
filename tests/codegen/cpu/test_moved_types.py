"""Narrow floats that are only moved are integers in the text of the processor, and stay exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Tensor as Handle

Define = Callable[[FusionDefinition, Handle], Handle]

MOVED: dict[str, Define] = {
    "permuted": lambda fd, t: fd.ops.stride_order(fd.ops.permute(t, dims=[1, 0]), [1, 0]),
    "sliced, concatenated": lambda fd, t: fd.ops.cat(
        [fd.ops.slice(t, [0, 3], [16, 24]), fd.ops.flip(t, [1])], 1
    ),
    "padded by zero": lambda fd, t: fd.ops.pad(t, [3, 2]),
    "chosen, or zero": lambda fd, t: fd.ops.where(fd.ops.gt(fd.ops.iota(24), 5), t, 0.0),
    "gathered": lambda fd, t: fd.ops.index_select(t, fd.ops.iota(24, step=-1, start=23), 1),
}
COMPUTED: dict[str, Define] = {
    "padded by one": lambda fd, t: fd.ops.pad(t, [3, 2], 1.0),
    "chosen, or minus zero": lambda fd, t: fd.ops.where(fd.ops.gt(fd.ops.iota(24), 5), t, -0.0),
    "negated": lambda fd, t: fd.ops.cast(-t, t.dtype()),
    "converted": lambda fd, t: fd.ops.cast(t, DataType.Double),
}
TYPES = [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]


def executed(define: Define, dtype: torch.dtype) -> str:
    """The text of what `define` makes of numbers of every kind, which is what the oracle makes."""
    x = torch.randn(16, 24)
    x[0, :5] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    x = x.to(dtype)
    with FusionDefinition() as fd:
        fd.add_output(define(fd, fd.from_pytorch(x)))
    fd.validate([x])
    (kernel,) = fd.plan([x]).kernels
    return kernel.source.partition('extern "C"')[2]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MOVED)
def test_what_is_moved_is_an_integer(name: str, dtype: torch.dtype) -> None:
    text = executed(MOVED[name], dtype)
    assert f"const int{8 * dtype.itemsize}* __restrict T" in text
    assert "float" not in text
    assert "half" not in text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_is_not(name: str, dtype: torch.dtype) -> None:
    text = executed(COMPUTED[name], dtype)
    assert "const int16* __restrict T" not in text


def test_a_scalar_of_the_type_is_a_number() -> None:
    x = torch.randn(16, 24).bfloat16()
    with FusionDefinition() as fd:
        t, s = fd.from_pytorch(x), fd.define_scalar(None, DataType.BFloat16)
        fd.add_output(fd.ops.where(fd.ops.gt(fd.ops.iota(24), 5), t, s))
    fd.validate([x, 1.5])
