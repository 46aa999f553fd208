"""Rows swept in parts: which parts there are, and that results are the oracle's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import Sweep
from fuser.schedule.indices.index import Clamped
from fuser.schedule.indices.rewrites import affine_parts
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.parts import Part, parts_of
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.expressions import Call
from fuser.schedule.tree.statements import Let, Load
from tests.definitions import agrees, defined
from tests.segmented import segment_for

Build = Callable[..., Handle]


def sweeps(build: Build, *inputs: torch.Tensor) -> list[Sweep]:
    (segment,) = segment_for(defined(build, *inputs).fusion, inputs).segments
    return [sweep for sweep in arrange_rows(trace_rows(segment)).stages if sweep.axes]


def spans(parts: list[Part]) -> list[tuple[int, int] | None]:
    return [part.span for part in parts]


def joined_sum(fd: FusionDefinition, *pieces: Handle) -> Handle:
    return fd.ops.sum(fd.ops.cat(list(pieces), 1), [1])


def padded(before: int, after: int, value: float = 0.0) -> Build:
    def build(fd: FusionDefinition, x: Handle) -> Handle:
        wide = fd.ops.pad(x, [before, after], value)
        e = fd.ops.exp(wide - fd.ops.max(wide, [1], keepdim=True))
        return e / fd.ops.sum(e, [1], keepdim=True)

    return build


def turned_norm(fd: FusionDefinition, x: Handle, scale: Handle, rows: int) -> Handle:
    """The gradient of a rotary embedding of 128 elements, less its mean."""
    half = 64
    low = fd.ops.slice(x, [0, 0], [rows, half])
    high = fd.ops.slice(x, [0, half], [rows, 2 * half])
    back = fd.ops.add(fd.ops.pad(high, [0, half]), fd.ops.pad(fd.ops.neg(low), [half, 0]))
    both = (x + back) * scale
    return both - fd.ops.mean(both, [1], keepdim=True)


def test_a_concatenation_is_a_part_for_each_tensor():
    (sweep,) = sweeps(joined_sum, torch.empty(64, 100), torch.empty(64, 30))
    parts = parts_of(sweep, 16)
    assert spans(parts) == [(0, 100), (100, 130)]
    for part, tensor in zip(parts, ("T0", "T1"), strict=True):
        (load,) = (node for node in part.sweep.code if isinstance(node, Load))
        assert str(load.tensor).partition(":")[0] == tensor
        terms = [term for index in affine_parts(load.at) for term, _ in index.terms]
        assert not any(isinstance(term, Clamped) for term in terms)
        lets = [node.expression for node in part.sweep.code if isinstance(node, Let)]
        assert not any(isinstance(made, Call) and made.op == "where" for made in lets)
        assert part.sweep.axes == sweep.axes
        assert [fold.name for fold in part.sweep.folds] == [fold.name for fold in sweep.folds]


def test_where_parts_would_be_short_or_many_there_are_none():
    (sweep,) = sweeps(joined_sum, torch.empty(64, 100), torch.empty(64, 30))
    assert spans(parts_of(sweep, 31)) == [None]
    (sweep,) = sweeps(joined_sum, *(torch.empty(640, 30) for _ in range(4)))
    assert len(parts_of(sweep, 16)) == 4
    (sweep,) = sweeps(joined_sum, *(torch.empty(640, 30) for _ in range(5)))
    assert spans(parts_of(sweep, 16)) == [None]


def test_what_nothing_decides_is_one_part():
    for sweep in sweeps(padded(0, 0), torch.empty(64, 100)):
        assert spans(parts_of(sweep, 1)) == [None]


SIZES = [(70, 33), (300, 64), (5, 2000), (3000, 40), (9, 5001), (1, 70_001)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_sums_of_concatenations(rows: int, columns: int, dtype: torch.dtype):
    pieces = [torch.randint(-9, 9, (rows, columns + more)).to(dtype) for more in (0, 16, 3)]
    agrees(defined(joined_sum, *pieces), pieces, "cpu")


@pytest.mark.parametrize("operation", ["max", "min", "sum"])
@pytest.mark.parametrize("sizes", [(16, 5000), (5000, 16), (20, 20, 5000), (17, 300), (16, 16)])
@pytest.mark.parametrize("rows", [1, 40])
def test_lanes_that_are_moved_back_stay_in_their_part(
    rows: int, sizes: tuple[int, ...], operation: str
):
    # What is before the part, of the row before or of none, would be found.
    pieces = [torch.randn(rows, size).cumsum(0) for size in sizes]
    pieces[0][1::2] *= 100

    def build(fd: FusionDefinition, *pieces: Handle) -> Handle:
        return getattr(fd.ops, operation)(fd.ops.cat(list(pieces), 1), [1])

    agrees(defined(build, *pieces), pieces, "cpu")


@pytest.mark.parametrize(("before", "after"), [(0, 17), (16, 0), (20, 30), (1, 0), (-5, 16)])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_softmax_of_what_is_padded(rows: int, columns: int, before: int, after: int):
    x = torch.randn(rows, columns)
    agrees(defined(padded(before, after, 0.5), x), [x], "cpu")


@pytest.mark.parametrize("kept", [DataType.Float, DataType.BFloat16])
@pytest.mark.parametrize("rows", [3, 50, 4000])
def test_the_gradient_of_a_rotary_embedding(rows: int, kept: DataType):
    x, scale = torch.randn(rows, 128), torch.randn(rows, 128)

    def build(fd: FusionDefinition, x: Handle, scale: Handle) -> Handle:
        return fd.ops.cast(turned_norm(fd, x, scale, rows), kept)

    agrees(defined(build, x, scale), [x, scale], "cpu")
    moved = torch.randn(rows * 128 + 1)[1:].view(rows, 128)
    agrees(defined(build, moved, scale), [moved, scale], "cpu")


def test_an_index_is_checked_in_every_part():
    table, places = torch.randn(50, 40), torch.tensor([3, 49, 7] * 20)

    def build(fd: FusionDefinition, table: Handle, places: Handle) -> Handle:
        row = fd.ops.index_select(table, places, 0)
        return fd.ops.sum(fd.ops.cat([row, row * 2.0], 1), [1])

    fd = defined(build, table, places)
    agrees(fd, [table, places], "cpu")
    with pytest.raises(IndexError):
        fd.execute([table, torch.full_like(places, 50)])


def test_columns_are_summed_besides():
    x, y = torch.randn(500, 64), torch.randn(500, 40)

    def build(fd: FusionDefinition, x: Handle, y: Handle) -> Handle:
        joined = fd.ops.cat([x, y], 1)
        fd.add_output(fd.ops.sum(joined, [0]))
        return joined / fd.ops.sum(joined * joined, [1], keepdim=True)

    agrees(defined(build, x, y), [x, y], "cpu")
