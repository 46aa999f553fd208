"""FUSER_CHECK=index: CUDA kernels report an index out of range, as those of the CPU always do."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition, debug
from fuser.errors import CheckOptionError, IndexOutOfRangeError
from fuser.frontend.handles import Handle

TARGETS = ("cpu", "emulator")
MODES = ("index_select", "gather", "take_along_axis")


pytestmark = pytest.mark.usefixtures("checks_indices")


def exponentials(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("wrong", [-7, -1, 6, 1000])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", TARGETS)
def test_an_index_out_of_range_is_named(target: str, mode: str, wrong: int, dtype: torch.dtype):
    x = torch.randn(40, 6)
    shape = (40,) if mode == "index_select" else (40, 1)
    good = (torch.arange(40) % 6).to(dtype).view(shape)
    bad = good.clone()
    bad.view(-1)[-1] = wrong
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(x), fd.from_pytorch(good)
        fd.add_output(getattr(fd.ops, mode)(exponentials(fd, data), at, 1))
    (want,) = fd.execute([x, good], target=target)
    lowest = -6 if mode == "take_along_axis" else 0
    if wrong < lowest or wrong > 5:
        words = f"^{mode}: index {wrong} is out of range; allowed: {lowest} to 5$"
        with pytest.raises(IndexOutOfRangeError, match=words):
            fd.execute([x, bad], target=target)
    assert torch.equal(fd.execute([x, good], target=target)[0], want)


@pytest.mark.parametrize("target", TARGETS)
def test_a_selected_position_and_a_checked_index(target: str):
    with FusionDefinition() as fd:
        data, position = fd.define_tensor([-1, -1]), fd.define_scalar(DataType.Int)
        at = fd.define_tensor([-1], dtype=DataType.Int)
        fd.add_output(fd.ops.exp(fd.ops.select(data, position, 1)))
        fd.add_output(fd.ops.sum(fd.ops.check_index(at, 3, "embedding")))
    x, good = torch.randn(4, 5), torch.tensor([0, 2])
    fd.execute([x, -5, good], target=target)
    with pytest.raises(IndexOutOfRangeError, match=r"^select: index -6 .* -5 to 4$"):
        fd.execute([x, -6, good], target=target)
    with pytest.raises(IndexOutOfRangeError, match=r"^embedding: index 3 .* 0 to 2$"):
        fd.execute([x, 0, good + 1], target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_of_several_errors_one_is_reported_whole(target: str):
    rows = 4000 if target == "cpu" else 200
    x, first = torch.randn(rows, 8), torch.full((rows, 1), 11)
    with FusionDefinition() as fd:
        data, a, b = fd.from_pytorch(x), fd.from_pytorch(first), fd.from_pytorch(first)
        y = exponentials(fd, data)
        fd.add_output(fd.ops.gather(y, a, 1) + fd.ops.take_along_axis(y, b, 1))
    words = r"^(gather: index 11 .* 0 to 7|take_along_axis: index 99 .* -8 to 7)$"
    for start in range(0, rows, rows // 8):
        a, b = torch.zeros_like(first), torch.zeros_like(first)
        a[start:], b[: start + 1] = 11, 99
        with pytest.raises(IndexOutOfRangeError, match=words):
            fd.execute([x, a, b], target=target)


def test_the_text_for_a_device_reports_and_compiles():
    def source() -> str:
        with FusionDefinition() as fd:
            data, at = fd.define_tensor([-1, -1]), fd.define_tensor([-1, 1], dtype=DataType.Int)
            fd.add_output(fd.ops.gather(exponentials(fd, data), at, 1))
        (kernel,) = fd.plan(
            [torch.empty(64, 512), torch.zeros(64, 1).long()], target="cuda:sm_90"
        ).kernels
        assert kernel.compile().spill_bytes == 0
        return kernel.source

    assert "long long* errors)" in source()
    debug.reload()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FUSER_CHECK")
        assert "errors" not in source()


def test_an_unknown_check_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert debug.parse_checks({}) == debug.parse_checks({"FUSER_CHECK": ","}) == frozenset()
    assert debug.parse_checks({"FUSER_CHECK": " index,"}) == {"index"}
    monkeypatch.setenv("FUSER_CHECK", "indices")
    debug.reload()
    with pytest.raises(CheckOptionError, match=r"unknown check 'indices'; the valid .*: index$"):
        debug.checking("index")


@pytest.mark.parametrize("rows", [16, 600])
@pytest.mark.parametrize("folded", [False, True])
def test_an_index_is_checked_in_every_part_of_a_row(rows: int, folded: bool) -> None:
    # A concatenation along the row: it is swept in two parts, which check the same index.
    x, at, y = torch.randn(rows, 9), torch.randint(0, 9, (rows, 64)), torch.randn(rows, 32)
    with FusionDefinition() as fd:
        data, index, half = map(fd.from_pytorch, (x, at, y))
        added = fd.ops.gather(data, index, 1) + fd.ops.cat([half, half], 1)
        fd.add_output(fd.ops.sum(added, [1]) if folded else added)
    fd.validate([x, at, y])
    for column in (3, 60):
        bad = at.clone()
        bad[rows - 1, column] = 12
        with pytest.raises(IndexOutOfRangeError, match="gather: index 12 is out of range"):
            fd.execute([x, bad, y])


@pytest.mark.parametrize("shape", [(5, 64), (5, 100), (70, 128)], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_not_there_report_nothing(target: str, shape: tuple[int, int]):
    """Their threads fold nothing, so that an index made of a fold is none."""
    x = torch.rand(shape) * 7
    with FusionDefinition() as fd:
        data = fd.from_pytorch(x)
        place = fd.ops.cast(fd.ops.max(data, [1], keepdim=True), DataType.Int)
        fd.add_output(fd.ops.take_along_axis(exponentials(fd, data), place, 1))
    (got,) = fd.execute([x], target=target)
    expected = (x - x.amax(1, keepdim=True)).exp().gather(1, x.amax(1, keepdim=True).long())
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("mode", ["scatter", "scatter_add"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(70, 12), (5, 300), (3, 20000)], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_a_point_out_of_range_changes_no_element(
    target: str, shape: tuple[int, int], dim: int, mode: str
):
    """A cache that is updated in place keeps its first row when a position runs over its end."""
    cache, rows = torch.randn(shape), [1 if d == dim else size for d, size in enumerate(shape)]
    source = torch.randn(rows)
    with FusionDefinition() as fd:
        data, at, new = map(fd.from_pytorch, (cache, torch.zeros(rows).long(), source))
        fd.add_output(getattr(fd.ops, mode)(data, at, new, dim), alias_input=data)
    for wrong in (-1, shape[dim]):
        after = cache.clone()
        with pytest.raises(IndexOutOfRangeError, match=f"^{mode}: index {wrong} "):
            fd.execute([after, torch.full(rows, wrong), source], target=target)
        assert torch.equal(after, cache)
    fd.execute([after, torch.full(rows, 2), source], target=target)
    assert torch.equal(after, getattr(cache, mode)(dim, torch.full(rows, 2), source))
