"""Views that divide what others shift: the oracle's elements, wherever rows begin and end."""

from __future__ import annotations

import random

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from tests.definitions import close, defined

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_rows_that_begin_elsewhere(target: str, dtype: torch.dtype):
    batch, rows, columns = random.randint(1, 3), random.randint(5, 12), random.randint(70, 150)
    left, right = random.randint(0, 9), random.randint(1, 90)
    flat = rows * (columns + left + right)
    length = random.randint(70, 200)
    first, count = random.randint(0, 60), (flat - 60) // length

    def define(fd: FusionDefinition, x: Handle) -> Handle:
        padded = fd.ops.reshape(fd.ops.pad(x, [left, right], 1), [batch, flat])
        kept = fd.ops.slice(padded, [0, first], [batch, first + count * length])
        seen = fd.ops.reshape(kept, [batch, count, length])
        return fd.ops.eq(fd.ops.slice(seen, [0, 0, 2], [batch, count, length - 1]), 1)

    x = torch.randint(-2, 3, (batch, rows, columns)).to(dtype)
    fd = defined(define, x)
    close(fd.execute([x], target=target), interpret(fd.fusion, [x]), 0)


@pytest.mark.parametrize("batch", [1, 2])
def test_scores_that_are_skewed_and_back(batch: int):
    """Longformer's diagonals: the rows of a square, each one further to the right."""
    rows, columns = 70, 90

    def define(fd: FusionDefinition, x: Handle) -> tuple[Handle, Handle]:
        padded = fd.ops.pad(fd.ops.mul(x, 0.5), [0, rows])
        flat = fd.ops.reshape(padded, [batch, rows * (columns + rows)])
        kept = fd.ops.slice(flat, [0, 0], [batch, rows * (columns + rows) - rows])
        return padded, fd.ops.relu(fd.ops.reshape(kept, [batch, rows, columns + rows - 1]))

    x = torch.randn(batch, rows, columns)
    fd = defined(define, x)
    close(fd.execute([x]), interpret(fd.fusion, [x]), 0)
