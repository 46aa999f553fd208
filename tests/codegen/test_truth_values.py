"""Loops over truth values and choices are vectorized: g++ does so for comparisons, not for stored
truth values, and for choices of what is read anyway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import only_kernel
from tests.vector_notes import assert_vectorized, needs_notes

ROWS, COLUMNS = 64, 1000

Define = Callable[[FusionDefinition, Handle, Handle], Handle]


def mean(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(x, dims=[1], keepdim=True)


CASES: dict[str, Define] = {
    "mask": lambda fd, x, m: m * x,
    "mask as float": lambda fd, x, m: fd.ops.cast(m, DataType.Float),
    "chosen by a mask": lambda fd, x, m: fd.ops.where(m, x, 0.0),
    "not a mask": lambda fd, x, m: fd.ops.logical_not(m) * x,
    "mask and comparison": lambda fd, x, m: fd.ops.logical_and(m, x > 0.5) * x,
    "comparison": lambda fd, x, m: (x > 0.0) * x,
    "comparison as bfloat16": lambda fd, x, m: fd.ops.cast(x > 0.0, DataType.BFloat16),
    "two comparisons": lambda fd, x, m: fd.ops.logical_or(x > 1.0, x < 0.0) * x,
    "not positive after relu": lambda fd, x, m: fd.ops.le(fd.ops.relu(x), 0.0),
    "changed by a clamp": lambda fd, x, m: fd.ops.ne(fd.ops.clamp(x, -1.0, 1.0), x),
    "a choice compared": lambda fd, x, m: fd.ops.gt(fd.ops.where(x > 0.0, 2.0, x), 1.0),
    "rows of comparisons": lambda fd, x, m: x - mean(fd, (x > 0.0) * x),
    "rows chosen by a mask": lambda fd, x, m: x - mean(fd, fd.ops.where(m, x, -1.0)),
    "any of a mask": lambda fd, x, m: fd.ops.any(m, [1]),
    "all of a mask": lambda fd, x, m: fd.ops.all(m, [1]),
    "any comparison": lambda fd, x, m: fd.ops.any(x > 0.0, [1]),
    "all comparisons": lambda fd, x, m: fd.ops.all(x > 0.0, [1]),
    "any of columns": lambda fd, x, m: fd.ops.any(m, [0]),
    "all of columns compared": lambda fd, x, m: fd.ops.all(x > 0.0, [0]),
    "smallest of a mask": lambda fd, x, m: fd.ops.min(m, [1]),
    "the first of the largest": lambda fd, x, m: fd.ops.argmax(x, 1),
    "a size or a number": lambda fd, x, m: x - mean(fd, fd.ops.where(m, x, fd.ops.size(x, 0))),
}


@needs_notes
@pytest.mark.parametrize("name", CASES)
def test_every_loop_is_vectorized(name: str, tmp_path: Path) -> None:
    x, m = torch.randn(ROWS, COLUMNS), torch.rand(ROWS, COLUMNS) > 0.5
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x), fd.from_pytorch(m)
        fd.add_output(CASES[name](fd, *given))
    fd.validate([x, m])
    assert_vectorized(only_kernel(fd, [x, m]), tmp_path)
