"""Which gathers need no check of their indices, with the oracle's numbers."""

from __future__ import annotations

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Cast, CheckIndex, Gather, Value
from fuser.passes.known_indices import mark_known_indices
from tests.passes.rewriting import Draft, names, rewritten


def is_marked(draft: Draft, index: Value, size: int = 8, mode: str = "index_select") -> bool:
    draft.out(draft.add(Gather(mode, draft.tensor(torch.randn(size)), index, 0)))
    (gather,) = (
        s.op for s in rewritten(mark_known_indices, draft).statements if s.op.__class__ is Gather
    )
    assert isinstance(gather, Gather)
    return gather.in_range


def test_places_of_bytes_need_none_in_a_table_of_256() -> None:
    def of_bytes(size: int) -> bool:
        draft = Draft()
        at = draft.tensor(torch.tensor([0, 254], dtype=torch.uint8))
        return is_marked(draft, draft.add(Cast(at, DataType.Int)), size)

    assert of_bytes(256)
    assert not of_bytes(255)


@pytest.mark.parametrize("mode", ["index_select", "gather", "take_along_axis"])
def test_clamped_places_need_none(mode: str) -> None:
    def clamped(low: int, high: int) -> bool:
        draft = Draft()
        at = draft.tensor(torch.tensor([2, 5]))
        return is_marked(
            draft, draft.pointwise("clamp", at, draft.number(low), draft.number(high)), mode=mode
        )

    assert clamped(0, 7)
    assert not clamped(0, 8)
    assert not clamped(-1, 7)  # as it may count from the end


def test_a_check_of_what_is_in_range_is_gone() -> None:
    draft = Draft()
    at = draft.pointwise("remainder", draft.tensor(torch.tensor([3, 12])), draft.number(8))
    draft.out(
        draft.pointwise("neg", draft.add(CheckIndex(at, 8, "one_hot"))),
        draft.pointwise("neg", draft.add(CheckIndex(at, 7, "one_hot"))),
    )
    assert names(rewritten(mark_known_indices, draft)) == ["remainder", "neg", "check_index", "neg"]


@pytest.mark.parametrize("size", [200, 300])
def test_kernels_check_what_is_not_known(size: int) -> None:
    table, at = torch.randn(size, 3), torch.tensor([0, 7, 199, 255], dtype=torch.uint8)
    with FusionDefinition() as fd:
        rows = fd.ops.index_select(
            fd.from_pytorch(table), fd.ops.cast(fd.from_pytorch(at), dtype=DataType.Int), 0
        )
        fd.add_output(fd.ops.neg(rows))
    (kernel,) = fd.plan([table, at]).kernels
    assert ("report_index" in kernel.source) == (size < 256)
    if size < 256:
        with pytest.raises(IndexOutOfRangeError, match="255"):
            fd.execute([table, at])
    else:
        (found,) = fd.execute([table, at])
        assert torch.equal(found, -table[at.long()])


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("length", [5, 40])
def test_places_along_rows_are_those_of_each_element(length: int, target: str) -> None:
    """Short rows are made without a loop, where each place is a number of the text."""
    table, x = torch.randn(length + 2), torch.randn(40, length)
    with FusionDefinition() as fd:
        row = fd.ops.iota(length, dtype=DataType.Int)
        at = fd.ops.reshape(fd.ops.broadcast_in_dim(row, [40, length], [1]), [40 * length])
        chosen = fd.ops.index_select(fd.from_pytorch(table), fd.ops.clamp(at, 0, length + 1), 0)
        fd.add_output(fd.ops.reshape(chosen, [40, length]) * fd.from_pytorch(x))
    (found,) = fd.execute([table, x], target=target)
    torch.testing.assert_close(found, table[:length] * x)
