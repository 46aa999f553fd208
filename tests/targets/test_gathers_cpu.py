"""Gathers in the processor's kernels: every mode, checked indices, errors that leave nothing."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import IndexOutOfRangeError
from fuser.frontend.handles import Handle
from tests.definitions import defined, only_kernel
from tests.row_functions import log_softmax, softmax
from tests.targets.rows.test_cpu import run

MODES = ("index_select", "gather", "take_along_axis")
INDICES = (torch.int64, torch.int32)


def index_for(mode: str, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Indices along a dimension, some from the end where that is allowed."""
    generator, size = torch.Generator().manual_seed(dim), shape[dim]
    sizes = [3] if mode == "index_select" else [3 if d == dim else n for d, n in enumerate(shape)]
    lowest = -size if mode == "take_along_axis" else 0
    return torch.randint(lowest, size, sizes, generator=generator).to(dtype)


def cross_entropy(fd: FusionDefinition, x: Handle, target: Handle) -> list[Handle]:
    """The mean loss and the losses; targets of -100 do not count."""
    counts = fd.ops.ne(target, -100)
    at = fd.ops.broadcast(fd.ops.where(counts, target, 0), [False, True])
    picked = fd.ops.squeeze(fd.ops.gather(log_softmax(fd, x, 1), at, 1), [1])
    losses = fd.ops.where(counts, fd.ops.neg(picked), 0.0)
    number = fd.ops.cast(fd.ops.sum(counts), DataType.Float)
    return [fd.ops.div(fd.ops.sum(losses), number), losses]


# -- in range ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", INDICES, ids=str)
def test_every_gather_along_any_dimension(mode: str, dtype: torch.dtype, dim: int):
    x = torch.randn(4, 5, 6)
    index = index_for(mode, (4, 5, 6), dim, dtype)
    (moved,) = run(lambda fd, x, i: getattr(fd.ops, mode)(x, i, dim) * 2.0, x, index)
    ours = index.long() % x.shape[dim]
    want = x.index_select(dim, ours) if mode == "index_select" else torch.gather(x, dim, ours)
    assert torch.equal(moved, want * 2.0)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_every_gather_of_a_log_softmax(mode: str, dim: int):
    x = torch.randn(7, 9)
    index = index_for(mode, (7, 9), dim, torch.int64)
    for normalized in (0, 1):
        run(
            lambda fd, x, i, along=normalized: getattr(fd.ops, mode)(
                log_softmax(fd, x, along), i, dim
            ),
            x,
            index,
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int8, torch.bool], ids=str)
def test_elements_of_any_type_are_gathered(dtype: torch.dtype):
    x = torch.randint(0, 2, (5, 6)).to(dtype)
    index = torch.tensor([[5, 0], [1, 1]])
    (got,) = run(lambda fd, x, i: fd.ops.eq(fd.ops.gather(x, i, 1), 1), x, index)
    assert torch.equal(got, torch.gather(x, 1, index) == 1)


def test_an_index_smaller_than_the_data_and_one_that_broadcasts():
    x = torch.randn(4, 5, 6)
    run(lambda fd, x, i: fd.ops.gather(x, i, 1) + 1.0, x, torch.randint(0, 5, (2, 3, 4)))
    for shape in ((4, 2, 1), (1, 2, 6), (1, 7, 1)):
        index = torch.randint(-5, 5, shape)
        run(lambda fd, x, i: fd.ops.take_along_axis(x, i, 1) + 1.0, x, index)
    run(
        lambda fd, x, i: fd.ops.take_along_axis(x, i, 1) + 1.0,
        torch.randn(1, 5, 6),
        torch.randint(-5, 5, (4, 2, 1)),
    )


def test_an_index_of_one_number():
    x = torch.randn(4, 5)
    for index in (torch.tensor(3), torch.tensor([3])):
        run(lambda fd, x, i: fd.ops.index_select(x, i, 1) * 2.0, x, index)
        run(lambda fd, x, i: fd.ops.sum(fd.ops.index_select(x, i, 1), [0]), x, index)


def test_a_position_selected_at_run_time():
    x = torch.randn(4, 5)
    with FusionDefinition() as fd:
        handle, at = fd.from_pytorch(x), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.sum(fd.ops.select(handle, at, 1) * 2.0))
    for position in (0, 4, -1, -5):
        (got,) = fd.execute([x, position])
        torch.testing.assert_close(got, (x[:, position] * 2.0).sum())
    with pytest.raises(IndexOutOfRangeError, match=r"^select: index 5 .* -5 to 4"):
        fd.execute([x, 5])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keepdim_of", ["sum", "max"])
def test_a_row_value_gathered_along_its_only_element(mode: str, keepdim_of: str):
    index = (
        torch.zeros(3, dtype=torch.int64) if mode == "index_select" else torch.zeros(3, 5).long()
    )

    def define(fd: FusionDefinition, x: Handle, at: Handle) -> Handle:
        total = getattr(fd.ops, keepdim_of)(x, [0], keepdim=True)
        return getattr(fd.ops, mode)(total, at, 0)

    run(define, torch.randn(4, 5), index)


def test_an_index_that_the_kernel_computes():
    def define(fd: FusionDefinition, x: Handle, at: Handle) -> list[Handle]:
        odd = fd.ops.remainder(at * 2 + 1, 6)
        return [
            fd.ops.gather(log_softmax(fd, x, 1), odd, 1),
            fd.ops.gather(x, fd.ops.cast(odd, DataType.Int32), 1),
        ]

    run(define, torch.randn(4, 6), torch.randint(0, 50, (4, 3)))


def test_a_gather_of_a_gather():
    def define(fd: FusionDefinition, x: Handle, first: Handle, second: Handle) -> Handle:
        return fd.ops.gather(fd.ops.gather(softmax(fd, x, 1), first, 1), second, 1)

    run(define, torch.randn(4, 6), torch.randint(0, 6, (4, 5)), torch.randint(0, 5, (4, 3)))


def test_embedded_rows_are_normalized():
    def define(fd: FusionDefinition, table: Handle, at: Handle) -> Handle:
        rows = fd.ops.index_select(table, at, 0)
        variance, mean = fd.ops.var_mean(rows, [1], correction=0, keepdim=True)
        return (rows - mean) * fd.ops.rsqrt(variance + 1e-5)

    run(define, torch.randn(50, 33), torch.randint(0, 50, (20,)))
    run(define, torch.randn(50, 33).T.contiguous().T, torch.randint(0, 50, (20,)))


@pytest.mark.parametrize("width", [9, 31, 60, 64])
def test_the_index_of_a_row_is_checked_once_however_short_the_row(width: int):
    x, index = torch.randn(40, width), torch.randint(0, 40, (70,))
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(x), fd.from_pytorch(index)
        fd.add_output(fd.ops.index_select(data, at, 0) * 2.0)
    (rows,) = fd.execute([x, index], target="cpu")
    assert torch.equal(rows, x[index] * 2.0)
    kernel = fd.last_cuda_code(intrinsic_code=False)
    assert kernel.index("checked_index(") < kernel.rindex("for (")


def test_costly_values_of_gathered_elements_are_swept_again():
    def define(fd: FusionDefinition, x: Handle, at: Handle) -> Handle:
        picked = fd.ops.atan(fd.ops.gather(x, at, 1))
        return fd.ops.var_mean(picked, [2], correction=0)[0]

    run(define, torch.randn(18, 3, 4), torch.randint(0, 3, (18, 1, 2)))
    run(define, torch.randn(18, 3, 40), torch.randint(0, 3, (18, 2, 40)))


@pytest.mark.parametrize("shape", [(1, 3), (5, 1000), (300, 64)])
def test_a_cross_entropy_loss(shape: tuple[int, int]):
    target = torch.randint(0, shape[1], shape[:1])
    target[::3] = -100 if shape[0] > 1 else target[::3]
    x = torch.randn(shape)
    loss, _ = run(cross_entropy, x, target, length=1000)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(x, target))


# -- out of range --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INDICES, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrong", [6, 99, -7, -1])
def test_an_index_out_of_range_is_named(mode: str, dtype: torch.dtype, wrong: int):
    x, index = torch.randn(4, 6), index_for(mode, (4, 6), 1, dtype)
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(x), fd.from_pytorch(index)
        fd.add_output(getattr(fd.ops, mode)(log_softmax(fd, data, 1), at, 1))
    want = fd.execute([x, index])
    bad = index.clone()
    bad.view(-1)[-1] = wrong
    wraps = mode == "take_along_axis"
    if wraps and wrong == -1:
        assert fd.execute([x, bad])[0].shape == want[0].shape
        return
    words = f"^{mode}: index {wrong} is out of range; allowed: {-6 if wraps else 0} to 5$"
    with pytest.raises(IndexOutOfRangeError, match=words):
        fd.execute([x, bad])
    assert torch.equal(fd.execute([x, index])[0], want[0])


def test_the_gather_that_is_wrong_is_named():
    x = torch.randn(4, 6)
    with FusionDefinition() as fd:
        data = fd.from_pytorch(x)
        first, second = (
            fd.define_tensor([-1, -1], dtype=DataType.Int),
            fd.define_tensor([-1, -1], dtype=DataType.Int),
        )
        y = softmax(fd, data, 1)
        fd.add_output(fd.ops.gather(y, first, 1) + fd.ops.take_along_axis(y, second, 1))
    good, bad = torch.zeros(4, 1).long(), torch.full((4, 1), 6)
    with pytest.raises(IndexOutOfRangeError, match=r"^gather: index 6 .* 0 to 5$"):
        fd.execute([x, bad, good])
    with pytest.raises(IndexOutOfRangeError, match=r"^take_along_axis: index 6 .* -6 to 5$"):
        fd.execute([x, good, bad])


def test_a_checked_index_is_an_error_of_the_operation_it_names():
    index = torch.tensor([[0, 5], [3, 6]])
    with FusionDefinition() as fd:
        at = fd.ops.check_index(fd.from_pytorch(index), 6, "embedding")
        fd.add_output(fd.ops.sum(at, [1]))
    with pytest.raises(IndexOutOfRangeError, match=r"^embedding: index 6 .* 0 to 5$"):
        fd.execute([index])
    assert fd.execute([index - 1 + (index == 0)])[0].tolist() == [4, 7]


def test_no_input_is_replaced_where_an_index_is_wrong():
    x, index = torch.randn(4, 6), torch.tensor([[0], [1], [9], [2]])
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(x), fd.from_pytorch(index)
        fd.add_output(data * 2.0, data)
        fd.add_output(fd.ops.gather(softmax(fd, data, 1), at, 1))
    before = x.clone()
    with pytest.raises(IndexOutOfRangeError):
        fd.execute([x, index])
    assert torch.equal(x, before)
    fd.execute([x, index % 6])
    assert torch.equal(x, before * 2.0)


def test_an_empty_dimension_has_no_index():
    with FusionDefinition() as fd:
        data, at = fd.from_pytorch(torch.empty(4, 0)), fd.define_tensor([-1], dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(data, at, 1))
    assert fd.execute([torch.empty(4, 0), torch.empty(0).long()])[0].shape == (4, 0)
    with pytest.raises(IndexOutOfRangeError, match="none, the dimension is empty"):
        fd.execute([torch.empty(4, 0), torch.zeros(1).long()])


def test_an_error_in_one_of_many_rows_is_found_on_any_thread():
    x, target = torch.randn(3000, 100), torch.randint(0, 100, (3000,))
    fd = defined(cross_entropy, x, target)
    assert only_kernel(fd, [x, target]).launch.threaded
    for row in (0, 1499, 1500, 2999):
        bad = target.clone()
        bad[row] = 100
        with pytest.raises(IndexOutOfRangeError, match=r"^gather: index 100 "):
            fd.execute([x, bad])
    fd.execute([x, target])


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_two_results_of_one_gather_that_lie_otherwise_are_made_one_after_the_other(target: str):
    """Each would be made whole for each row of the other."""
    x, at = torch.randn(90, 2, 2, 2), torch.randint(0, 2, (1, 40, 1, 1))
    with FusionDefinition() as fd:
        chosen = fd.ops.take_along_axis(fd.from_pytorch(x), fd.from_pytorch(at), 1)
        fd.add_output(fd.ops.neg(fd.ops.flip(chosen, [3, 2, 1, 0])))
        fd.add_output(fd.ops.exp(chosen))
    (kernel,) = fd.plan([x, at], target=target).kernels
    assert kernel.source.count("for (index64 i0 = 0;") == (target == "cpu")
    if target == "cpu":
        assert kernel.source.count("\n  #pragma omp parallel for") == 2
    fd.validate([x, at], target=target)
