"""Neighbouring rows that are cut: which spans there are, and that results are the oracle's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.schedule.code.row_body import RowBody
from fuser.schedule.indices.index import Clamped
from fuser.schedule.indices.rewrites import affine_parts
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cpu.spans import rows_in_spans
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.statements import Load
from tests.definitions import agrees, defined
from tests.segmented import segment_for

Build = Callable[..., Handle]


def rows_of(build: Build, *inputs: torch.Tensor) -> RowBody:
    (segment,) = segment_for(defined(build, *inputs).fusion, inputs).segments
    return arrange_rows(trace_rows(segment))


def extents(body: RowBody) -> list[int]:
    return [axis.extent for axis in body.rows]


def clamped_loads(body: RowBody) -> int:
    """Of how many loads an index is clamped."""
    nodes = (node for sweep in body.stages for node in sweep.code if isinstance(node, Load))
    parts = ((part for part in affine_parts(node.at)) for node in nodes)
    return sum(any(isinstance(t, Clamped) for p in each for t, _ in p.terms) for each in parts)


def joined_sum(fd: FusionDefinition, *pieces: Handle) -> Handle:
    return fd.ops.sum(fd.ops.cat(list(pieces), 1), [0])


def turned_back(fd: FusionDefinition, x: Handle, cosine: Handle, sine: Handle) -> Handle:
    """The gradient of what several heads share, each of 128 elements turned by its position."""
    half = 64
    turned = fd.ops.mul(x, sine)
    low = fd.ops.slice(turned, [0, 0, 0], [6, 40, half])
    high = fd.ops.slice(turned, [0, 0, half], [6, 40, 2 * half])
    back = fd.ops.add(fd.ops.pad(high, [0, half]), fd.ops.pad(fd.ops.neg(low), [half, 0]))
    return fd.ops.sum(fd.ops.add(fd.ops.mul(x, cosine), back), [0])


def test_rows_are_cut_where_another_tensor_is_read():
    body = rows_of(joined_sum, torch.empty(50, 96), torch.empty(50, 160))
    assert extents(body) == [256]
    assert clamped_loads(body) == 2
    cut = rows_in_spans(body, 16)
    assert extents(cut) == [8, 32]
    # Where the span begins is clamped: the lanes read a run of memory.
    for load in (n for sweep in cut.stages for n in sweep.code if isinstance(n, Load)):
        assert load.at.coefficient(cut.rows[-1]) == 1


def test_spans_that_would_be_short_are_none():
    body = rows_of(joined_sum, torch.empty(50, 96), torch.empty(50, 164))
    assert rows_in_spans(body, 16) is body
    assert extents(rows_in_spans(body, 4)) == [65, 4]


def test_what_reads_one_tensor_is_not_cut():
    body = rows_of(joined_sum, torch.empty(50, 256))
    assert extents(rows_in_spans(body, 16)) == [256]


def test_rows_that_are_cut_already_read_runs():
    x = torch.empty(50, 2, 64)

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        flat = fd.ops.reshape(x, [50, 128])
        turned = [fd.ops.slice(flat, [0, 64], [50, 128]), fd.ops.slice(flat, [0, 0], [50, 64])]
        return fd.ops.sum(fd.ops.mul(fd.ops.cat(turned, 1), flat), [0])

    body = rows_in_spans(rows_of(build, x), 16)
    assert extents(body) == [2, 64]
    assert clamped_loads(body) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    "sizes", [(64, 64), (48, 80), (16, 32, 16), (512, 32), (30, 34), (4096, 48)]
)
@pytest.mark.parametrize("rows", [1, 30, 700])
def test_sums_over_the_rows_of_concatenations(
    rows: int, sizes: tuple[int, ...], dtype: torch.dtype
):
    pieces = [torch.randint(-9, 9, (rows, size)).to(dtype) for size in sizes]
    agrees(defined(joined_sum, *pieces), pieces, "cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_gradient_of_what_heads_share(dtype: torch.dtype):
    x, angles = torch.randn(6, 40, 128).to(dtype), torch.randn(40, 128)
    given = [x, angles.cos(), angles.sin()]
    agrees(defined(turned_back, *given), given, "cpu")


@pytest.mark.parametrize(("before", "after"), [(16, 32), (0, 48), (-16, 16), (5, 0)])
def test_softmax_over_the_rows_of_what_is_padded(before: int, after: int):
    x = torch.randn(40, 320)

    def build(fd: FusionDefinition, x: Handle) -> Handle:
        wide = fd.ops.cast(fd.ops.pad(x, [before, after], 0.5), DataType.Float)
        e = fd.ops.exp(wide - fd.ops.max(wide, [0], keepdim=True))
        fd.add_output(fd.ops.sum(e, [0, 1]))
        return e / fd.ops.sum(e, [0], keepdim=True)

    agrees(defined(build, x), [x], "cpu")
