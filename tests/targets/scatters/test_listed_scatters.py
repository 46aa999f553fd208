"""Scatters by lists of points in the emulator: rows of any number of points, cut and whole.

The oracle's numbers come from torch, added in float64.
"""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.codegen import Size
from fuser.frontend.handles import Handle
from fuser.passes import scatter_forms
from fuser.runtime.backend import EmulatorBackend
from fuser.runtime.emulator import Sanitizer, ThreadOrder
from fuser.schedule import CudaRowParameters
from tests.definitions import agrees, defined
from tests.mapped_by import map_by
from tests.runtime.emulator.sanitized_plan import run_plan_sanitized

ARCHS = ("sm_80", "sm_90", "sm_100")
EVERY = 8
"""Points of a row that a warp adds up, where there are no more points than rows."""


@pytest.fixture
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than eight points are cut."""
    map_by(monkeypatch, CudaRowParameters(listed_points=1))


def added(fd: FusionDefinition, base: Handle, index: Handle, source: Handle) -> Handle:
    return fd.ops.index_add(base, index, source, 0)


def into_zeros(rows: int, dtype: DataType = DataType.Float):
    def define(fd: FusionDefinition, index: Handle, source: Handle) -> Handle:
        _, columns = fd.ops.shape(source)
        zeros = fd.ops.full([rows, columns], 0.0, dtype)
        return fd.ops.index_put_accumulate(zeros, index, source)

    return define


def hot(points: int, rows: int, share: float) -> torch.Tensor:
    """Rows of points, of which a share goes to row 3."""
    generator = torch.Generator().manual_seed(points)
    at = torch.randint(0, rows, (points,), generator=generator)
    return at.masked_fill(torch.rand(points, generator=generator) < share, 3)


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
@pytest.mark.parametrize(
    ("points", "share"), [(EVERY, 1.0), (EVERY + 1, 1.0), (128, 1.0), (136, 1.0), (300, 0.5)]
)
def test_rows_are_whole_up_to_a_number_of_points_and_cut_beyond(
    points: int, share: float, order: ThreadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 136 points, 17 pieces: the last of a group of 16 joins the last of all."""
    monkeypatch.setattr(EmulatorBackend, "order", order)
    at, source = hot(points, 300, share), torch.randn(points, 40)
    agrees(defined(added, *(inputs := [torch.randn(300, 40), at, source])), inputs, "emulator")


@pytest.mark.usefixtures("_cut")
def test_pieces_of_pieces_of_pieces() -> None:
    """2100 points of one row are 263 pieces, which are 17 groups, which are 2."""
    at = hot(2100, 2100, 1.0)
    at[::700] = torch.tensor([0, 2099, 7])
    inputs = [at, torch.randn(2100, 16)]
    agrees(defined(into_zeros(2100), *inputs), inputs, "emulator")


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("turned", [False, True])
def test_every_copy_of_a_row_is_cut(dim: int, *, turned: bool) -> None:
    """Dimensions beside that of the points have its lists in common."""
    shape, at = [3, 4, 5], hot(60, 100, 0.7)
    shape.insert(dim, 100)
    base, points = torch.randn(shape), list(shape)
    points[dim] = 60
    source = torch.randn(points)
    if turned:
        base, source = (x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (base, source))

    def define(fd: FusionDefinition, base: Handle, index: Handle, source: Handle) -> Handle:
        return fd.ops.exp(fd.ops.index_add(base, index, source, dim) * 0.1)

    inputs = [base, at, source]
    fd = defined(define, *inputs)
    *_, kernel = fd.plan(inputs, target="emulator").kernels
    assert ("lists" in kernel.source) is (dim < 2)  # 60, 20 and 5 columns
    agrees(fd, inputs, "emulator")


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("columns", [16, 33, 136])
def test_pieces_of_every_size_of_number(columns: int, dtype: torch.dtype) -> None:
    source = torch.randint(-3, 4, (200, columns)).to(dtype)
    base = torch.randint(-3, 4, (200, columns)).to(dtype)
    at = hot(200, 200, 0.8)
    (got,) = defined(added, base, at, source).execute([base, at, source], target="emulator")
    assert torch.equal(got, base.index_add(0, at, source))


@pytest.mark.usefixtures("_cut")
def test_what_surrounds_them_is_in_the_kernel() -> None:
    """Rows' own factors, points' own weights, and readers that need the base, too."""

    def define(
        fd: FusionDefinition, x: Handle, at: Handle, source: Handle, weight: Handle, scale: Handle
    ) -> list[Handle]:
        rows = fd.ops.broadcast(scale, [False, True])
        base, weights = x * rows, fd.ops.broadcast(weight, [False, True])
        total = fd.ops.index_add(base, at, fd.ops.sin(source) * weights, 0)
        return [total * rows + base, fd.ops.cast(total, DataType.BFloat16)]

    inputs = [
        *(torch.randn(50, 48), hot(90, 50, 0.4), torch.randn(90, 48)),
        *(torch.randn(90), torch.randn(50)),
    ]
    fd = defined(define, *inputs)
    assert len(fd.plan(inputs, target="emulator").kernels) == 1
    agrees(fd, inputs, "emulator")


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("costly", [False, True])
def test_a_base_is_read_early_and_computed_once_a_row(*, costly: bool) -> None:
    def define(fd: FusionDefinition, base: Handle, index: Handle, source: Handle) -> Handle:
        return added(fd, fd.ops.exp(base) if costly else base, index, source)

    inputs = [torch.randn(60, 40), hot(90, 60, 0.5), torch.randn(90, 40)]
    fd = defined(define, *inputs)
    (kernel,) = fd.plan(inputs, target="emulator").kernels
    assert ("base[ahead]" in kernel.source) is not costly
    agrees(fd, inputs, "emulator")


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("rows", [1, 2, 31, 33, 257, 1000])
@pytest.mark.parametrize("points", [1, 31, 257])
def test_any_numbers_of_rows_and_points(rows: int, points: int) -> None:
    inputs = [torch.arange(points) * 7 % rows, torch.randn(points, 17)]
    agrees(defined(into_zeros(rows), *inputs), inputs, "emulator")


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("rows", [1, 40])
def test_points_out_of_range_are_in_no_list(rows: int) -> None:
    at = torch.tensor([0, rows, -rows - 1, 0, 10**12, 0])
    source = torch.randn(6, 24)
    (got,) = defined(into_zeros(rows), at, source).execute([at, source], target="emulator")
    assert torch.equal(got[1:], torch.zeros(rows - 1, 24))
    torch.testing.assert_close(got[0], source[[0, 3, 5]].sum(0))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
def test_no_race_and_no_stray_access(sanitizer: Sanitizer, order: ThreadOrder) -> None:
    inputs = [torch.randn(150, 40), hot(300, 150, 0.6), torch.randn(300, 40)]
    (got,) = run_plan_sanitized(defined(added, *inputs), inputs, sanitizer, order)
    exact = inputs[0].double().index_add(0, inputs[1], inputs[2].double())
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_no_spills(dtype: torch.dtype, arch: str) -> None:
    inputs = [torch.zeros(100, 768, dtype=dtype), torch.zeros(50).long()]
    inputs.append(torch.zeros(50, 768, dtype=dtype))
    (kernel,) = defined(added, *inputs).plan(inputs, target=f"cuda:{arch}").kernels
    assert kernel.compile().spill_bytes == 0


def test_a_plan_moves_each_byte_once() -> None:
    """The gradient of an embedding: that of every word is read, and every row is written."""
    gradient = torch.zeros(3000, 768, dtype=torch.bfloat16)
    inputs = [torch.zeros(3000).long(), gradient]
    define = into_zeros(5000, DataType.BFloat16)
    plan = defined(define, *inputs).plan(inputs, target="cuda:sm_90")
    (kernel,) = plan.kernels
    assert kernel.bytes_read == gradient.nbytes + 8 * 3000
    assert kernel.bytes_written == 5000 * 768 * 2


@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (2, 768), (100, 768)])
def test_few_rows_are_shared_out(rows: int, columns: int) -> None:
    """As many warps have something to add as run at once, of 132 multiprocessors 8 each."""
    source = torch.empty(1 << 19, columns, device="meta")
    inputs = [source[:, 0].long(), source]
    (kernel,) = defined(into_zeros(rows), *inputs).plan(inputs, target="cuda:sm_90").kernels
    assert kernel.kernel_source is not None
    sizes = {a.name: a.number for a in kernel.kernel_source.arguments if isinstance(a, Size)}
    (longest,) = (number for name, number in sizes.items() if name.endswith("_longest"))
    assert (1 << 19) // longest * sizes["chunks"] >= 8 * 132
    assert sizes["cut_by"] == 8 * 132


def test_rows_are_added_up_where_nothing_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As other mappings are asked for in tests: by parameters of no resident thread."""
    map_by(monkeypatch, CudaRowParameters(resident_threads=0))
    inputs = [torch.randn(30, 40), hot(100, 30, 0.3), torch.randn(100, 40)]
    agrees(defined(added, *inputs), inputs, "emulator")


def test_the_text_depends_on_no_size() -> None:
    texts = set[str]()
    for rows, points in ((100, 50), (5000, 3000), (100_000, 1 << 17)):
        inputs = [torch.zeros(points).long(), torch.empty(points, 768)]
        (kernel,) = defined(into_zeros(rows), *inputs).plan(inputs, target="cuda:sm_90").kernels
        assert kernel.kernel_source is not None
        texts.add(kernel.kernel_source.code)
    assert len(texts) == 1


def test_columns_that_are_too_many_for_lists_are_added_by_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scatter_forms, "MOST_COLUMNS", 20)
    inputs = [torch.randn(30, 40), hot(90, 30, 0.5), torch.randn(90, 40)]
    fd = defined(added, *inputs)
    assert "lists" not in fd.plan(inputs, target="emulator").kernels[-1].source
    agrees(fd, inputs, "emulator")
