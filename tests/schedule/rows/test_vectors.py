"""How many neighbours a thread takes, and where the whole vectors of a row begin."""

from __future__ import annotations

import pytest
import torch

from fuser.schedule import CudaRowParameters
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.rows.vectors import Vectors, vectors_for
from fuser.schedule.tree.buffers import Buffers
from tests.definitions import Define
from tests.row_functions import softmax
from tests.schedule.row_bodies import segment_of

F32, BF16 = torch.float32, torch.bfloat16


def vectors(
    define: Define, *inputs: torch.Tensor, aligned: int = 64, may_move: bool = True
) -> Vectors:
    """Those of sweeps over a definition's longest axis; inputs are `aligned` to so many bytes."""
    segment = segment_of(define, *inputs)
    body = arrange_rows(trace_rows(segment))
    axis = max((a for sweep in body.stages for a in sweep.axes), key=lambda a: a.extent)
    sweeps = [sweep for sweep in body.stages if sweep.axes == (axis,)]
    bases = {lies.base for lies in segment.memory.values()}
    stored = set(segment.stores)
    alignments = {base: 64 if base in stored else aligned for base in bases}
    buffers = Buffers(segment.memory, alignments)
    return vectors_for(buffers, sweeps, axis, CudaRowParameters(), may_peel=True, may_move=may_move)


@pytest.mark.parametrize(("dtype", "lanes"), [(F32, 4), (torch.float64, 2)], ids=str)
def test_aligned_rows_have_whole_vectors(dtype: torch.dtype, lanes: int):
    assert vectors(softmax, torch.empty(8, 64, dtype=dtype)) == Vectors(lanes)


@pytest.mark.parametrize("length", [61, 62, 63])
def test_rows_that_start_anywhere_are_peeled(length: int):
    found = vectors(softmax, torch.empty(8, length))
    assert (found.lanes, found.whole, found.pieces) == (4, True, {})
    assert found.peel is not None
    assert found.peel.lanes == 4
    assert found.peel.at.constant == 0
    assert [term.extent for term, _ in found.peel.at.terms if isinstance(term, Axis)] == [8]


def test_aligned_rows_of_any_length_are_peeled_at_one_end():
    found = vectors(softmax, torch.empty(8, 64)[:, :61])
    assert found.peel is not None
    assert found.lanes == 4


def test_a_misaligned_input_is_read_in_pieces_for_the_sake_of_an_aligned_output():
    found = vectors(softmax, torch.empty(8, 64), aligned=8)
    assert found.peel is not None
    assert found.peel.tensor.name != "T0"
    assert [(tensor.name, count) for (tensor, _), count in found.pieces.items()] == [("T0", 2)]


def test_a_vector_of_columns_is_read_in_pieces_where_rows_are_peeled():
    def scaled(fd, x, w):
        return softmax(fd, x) * w

    found = vectors(scaled, torch.empty(8, 62), torch.empty(62))
    assert [(tensor.name, count) for (tensor, _), count in found.pieces.items()] == [("T1", 2)]


def test_vectors_that_may_not_move_are_narrow():
    assert vectors(softmax, torch.empty(8, 62), may_move=False) == Vectors(2)
    assert vectors(softmax, torch.empty(8, 61), may_move=False) == Vectors(1)
