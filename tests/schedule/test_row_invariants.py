"""Indices that loops have in common are found, and checked, before them."""

from __future__ import annotations

import re

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.ir.interpret import interpret
from tests.definitions import only_kernel

ROWS, COLUMNS = 12, 300


def mixed(index: torch.Tensor) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """Lines of a table, read where there is a sum over all of them: no row is kept."""
    x, labels = torch.randn(ROWS, COLUMNS), torch.randint(0, 9, (ROWS,))
    with FusionDefinition() as fd:
        ops = fd.ops
        given, at, label = map(fd.from_pytorch, (x, index, labels))
        fd.add_output(given * 0.3 + ops.index_select(given, at, 0) * 0.7)
        fd.add_output(ops.sum(ops.index_select(label, at, 0), [0]))
    return fd, [x, index, labels]


def test_lines_are_read_as_runs() -> None:
    fd, inputs = mixed(torch.randperm(ROWS))
    torch.testing.assert_close(fd.execute(inputs), interpret(fd.fusion, inputs))
    text = only_kernel(fd, inputs).kernel
    line = re.search(r"T\d+_in\[i1 \+ (T\d+_index) \*", text)
    assert line is not None, text
    found = text.rindex(f"{line[1]} = checked_index(", 0, line.start())
    assert "#pragma omp simd\n" in text[found : line.start()], "before the loop of the line"


@pytest.mark.parametrize("place", [0, 5, ROWS - 1])
@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_a_wrong_index_is_reported(place: int, wrong: int) -> None:
    index = torch.arange(ROWS)
    index[place] = wrong
    fd, inputs = mixed(index)
    with pytest.raises(IndexOutOfRangeError, match=f"index {wrong} "):
        fd.execute(inputs)


def test_lines_of_no_columns_check_nothing() -> None:
    with FusionDefinition() as fd:
        x, at = fd.from_pytorch(torch.zeros(4, 0)), fd.from_pytorch(torch.tensor([9, 9]))
        fd.add_output(fd.ops.index_select(x, at, 0) * 2.0)
    (found,) = fd.execute([torch.zeros(4, 0), torch.tensor([9, 9])])
    assert found.shape == (2, 0)


def test_parts_of_a_line_share_its_index() -> None:
    """A concatenation along a line is swept in parts, which read at one index."""
    x, y = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    index, labels = torch.randperm(ROWS), torch.randint(0, 9, (ROWS,))
    with FusionDefinition() as fd:
        ops = fd.ops
        one, other, at, label = map(fd.from_pytorch, (x, y, index, labels))
        fd.add_output(ops.index_select(ops.cat([one, other], 1), at, 0) * 2.0)
        fd.add_output(ops.sum(ops.index_select(label, at, 0), [0]))
    inputs = [x, y, index, labels]
    torch.testing.assert_close(fd.execute(inputs), interpret(fd.fusion, inputs))
