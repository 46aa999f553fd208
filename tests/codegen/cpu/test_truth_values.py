"""Loops over truth values, choices and bytes are vectorized: g++ does so for comparisons, not for
stored truth values, and for choices of what is read anyway."""

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
SHORT = 256
"""Columns of rows whose lanes are few."""

Define = Callable[[FusionDefinition, Handle, Handle], Handle]


def mean(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.mean(x, dims=[1], keepdim=True)


def largest(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.max(x, dims=[1], keepdim=True)


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


def barrier(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    """What prices come to, of those that were never below a barrier."""
    rows = [fd.ops.slice(x, [row, 0], [row + 1, COLUMNS]) for row in range(32)]
    price = fd.ops.full([1, COLUMNS], fd.define_scalar(100.0), DataType.Float)
    alive = fd.ops.full([1, COLUMNS], fd.define_scalar(True), DataType.Bool)
    for row in rows:
        price = price * fd.ops.exp(0.02 * row + 0.0002)
        alive = fd.ops.bitwise_and(alive, price > 85.0)
    return mean(fd, fd.ops.where(alive, fd.ops.relu(price - 100.0), 0.0))


def powers_of_the_row(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    """With the derivative of a power by its exponent, which a row has and chooses by."""
    first = fd.ops.slice(x, [0, 0], [ROWS, 1])
    positive = fd.ops.relu(x)
    zero = fd.ops.logical_and(fd.ops.eq(positive, 0.0), first >= 0.0)
    power = fd.ops.where(zero, 0.0, fd.ops.pow(positive, first) * fd.ops.log(positive))
    return fd.ops.where(first > 1.0, power, 1.0 - power) - mean(fd, power)


SPECIAL: dict[str, Define] = {
    "powers of the row": powers_of_the_row,
    "a barrier": barrier,
    "a power of what was clamped": lambda fd, x, m: fd.ops.pow(fd.ops.clamp(x, 0.1, 1.0), 2.4),
    "a power of a number": lambda fd, x, m: fd.ops.pow(10.0, x) * x,
    "angles compared": lambda fd, x, m: fd.ops.atan2(x, mean(fd, x)) > 0.5,
    "rests": lambda fd, x, m: fd.ops.remainder(fd.ops.relu(x), 0.3),
    "rests of rows": lambda fd, x, m: fd.ops.fmod(x, largest(fd, x)),
}
"""Functions that are something else for some operands."""

BYTES: dict[str, Define] = {
    "bytes": lambda fd, x, m: fd.ops.cast(fd.ops.clamp(x, -128.0, 127.0), DataType.Int8),
    "bytes of rows": lambda fd, x, m: fd.ops.cast(
        fd.ops.clamp(x / mean(fd, x), 0.0, 255.0), DataType.UInt8
    ),
}
"""Stores of bytes, which might change anything if they were stores of characters."""


def masked(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    return fd.ops.where(m, x, fd.define_scalar(float("-inf")))


def unless_all_masked(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    """The powers of a softmax, and 0 in a row that has none: the largest, and whether any is
    masked, are folds of one sweep."""
    scores = masked(fd, x, m)
    largest = fd.ops.max(scores, dims=[1], keepdim=True)
    none = fd.ops.logical_not(fd.ops.any(scores > -1e30, [1], keepdim=True))
    return fd.ops.where(none, 0.0, fd.ops.exp(scores - largest))


def chosen_by_the_row(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    """Powers in place of which a row may have 0, beside a mask, and their mean."""
    first = fd.ops.slice(x, [0, 0], [ROWS, 1])
    powers = fd.ops.where(first > 0.0, 0.0, fd.ops.exp(masked(fd, x, m)) / (2.0 + first * first))
    return powers - mean(fd, powers)


def flags_of_rows_and_of_columns(fd: FusionDefinition, x: Handle, m: Handle) -> Handle:
    """Sums of neighbours, those of some rows and those of some columns."""
    row, column = fd.ops.slice(m, [0, 0], [ROWS, 1]), fd.ops.slice(m, [0, 0], [1, SHORT - 4])
    parts = [fd.ops.slice(x, [0, at], [ROWS, SHORT - 4 + at]) / 49.0 for at in range(4)]
    a, b, c, d = (fd.ops.where(row, part, 0.0) + part * part for part in parts)
    return a + b + c + fd.ops.where(column, d, 0.0)


SHORT_CASES: dict[str, Define] = {
    "flags of rows and of columns": flags_of_rows_and_of_columns,
    "powers unless all is masked": unless_all_masked,
    "dropped too": lambda fd, x, m: unless_all_masked(fd, x, m) * (uniform(fd) > 0.1),
    "chosen by the row": chosen_by_the_row,
}


def uniform(fd: FusionDefinition) -> Handle:
    return fd.ops.uniform(0.0, 1.0, shape=[ROWS, SHORT], dtype=DataType.Float)


@needs_notes
@pytest.mark.parametrize("name", [*CASES, *SPECIAL, *BYTES, *SHORT_CASES])
def test_every_loop_is_vectorized(name: str, tmp_path: Path) -> None:
    columns = SHORT if name in SHORT_CASES else COLUMNS
    x, m = torch.randn(ROWS, columns), torch.rand(ROWS, columns) > 0.5
    m[3] = False
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x), fd.from_pytorch(m)
        fd.add_output({**CASES, **SPECIAL, **BYTES, **SHORT_CASES}[name](fd, *given))
    fd.validate([x, m])
    assert_vectorized(only_kernel(fd, [x, m]), tmp_path)
