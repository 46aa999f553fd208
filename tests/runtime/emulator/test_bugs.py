"""What the emulator shows of a mistake in a kernel: wrong numbers, NaN, or an error with the line.

Mistakes that leave the numbers right need a sanitizer: test_sanitizers.py.
"""

from __future__ import annotations

import re

import pytest
import torch

from fuser.codegen.target import CUDA
from fuser.errors import FuserError
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.emulator import EmulatorDeadlockError, EmulatorFailureError, ThreadOrder
from tests.runtime.emulator import cuda_bugs
from tests.runtime.emulator.cuda_bugs import THREADS, lines_of, name_of
from tests.runtime.emulator.cuda_kernels import floats, launch

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)


def run(source: str, order: ThreadOrder, blocks: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The input and what a kernel makes of it."""
    x, y = floats(THREADS) + 20, torch.zeros(THREADS)
    shared = 8 * THREADS
    grid, block = (blocks, 1, 1), (THREADS, 1, 1)
    launch(source, name_of(source), grid, block, [x, y], shared_bytes=shared, order=order)
    return x, y


def error_of(source: str, order: ThreadOrder, blocks: int = 1) -> FuserError:
    with pytest.raises((EmulatorDeadlockError, EmulatorFailureError)) as raised:
        run(source, order, blocks)
    assert f"kernel {name_of(source)}:" in str(raised.value)
    return raised.value


# -- barriers --------------------------------------------------------------------------------------


@ORDERS
def test_missing_barrier_between_write_and_read_gives_wrong_numbers(order: ThreadOrder) -> None:
    x, y = run(cuda_bugs.READ_BEFORE_WRITE, order)
    assert y.isnan().any()
    assert not torch.equal(y, x.flip(0))


def test_missing_barrier_between_read_and_write_shows_where_threads_run_ahead() -> None:
    results: dict[ThreadOrder, bool] = {}
    for order in ThreadOrder:
        x, y = run(cuda_bugs.WRITE_BEFORE_READ, order)
        next_ = torch.cat([x[1:], torch.zeros(1)])
        results[order] = torch.equal(y, next_ + 2 * x.flip(0))
    assert results == {
        ThreadOrder.ASCENDING: True,
        ThreadOrder.RUN_AHEAD: False,
        ThreadOrder.REVERSED: False,
    }


@ORDERS
def test_buffer_used_again_without_a_barrier_gives_wrong_numbers(order: ThreadOrder) -> None:
    x, y = run(cuda_bugs.REUSED_BUFFER, order)
    centred = x - x.mean()
    assert not torch.allclose(y, x.mean() + (centred * centred).sum())
    barrier = cuda_bugs.REUSED_BUFFER.replace("// the barrier is missing", "__syncthreads();")
    x, y = run(barrier, order)
    assert torch.allclose(y, x.mean() + (centred * centred).sum())


@ORDERS
def test_shared_memory_that_nobody_wrote_is_nan_in_every_block(order: ThreadOrder) -> None:
    source = cuda_bugs.UNWRITTEN_SHARED
    x, y = run(source, order, blocks=3)
    assert torch.equal(y[:-1], x[1:] + x[:-1])
    assert y[-1].isnan()
    _, y = run(source.replace("d[threadIdx.x] = x", "x"), order, blocks=2)
    assert y.isnan().all()


@ORDERS
def test_barriers_in_both_branches_are_a_deadlock_of_both_lines(order: ThreadOrder) -> None:
    source = cuda_bugs.DIVERGENT_BARRIER
    error = error_of(source, order)
    assert isinstance(error, EmulatorDeadlockError)
    first, second = lines_of(source)
    assert f"threads 0-39 wait at __syncthreads, line {first}" in str(error)
    assert f"threads 40-63 wait at __syncthreads, line {second}" in str(error)


# -- warps -----------------------------------------------------------------------------------------


@ORDERS
def test_shuffle_in_divergent_code_is_a_deadlock_of_both_lines(order: ThreadOrder) -> None:
    source = cuda_bugs.DIVERGENT_SHUFFLE
    error = error_of(source, order)
    assert isinstance(error, EmulatorDeadlockError)
    shuffle, barrier = lines_of(source)
    assert f"threads 0-15 wait at __shfl_down_sync, line {shuffle}" in str(error)
    assert f"threads 16-63 wait at __syncthreads, line {barrier}" in str(error)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (cuda_bugs.SHUFFLE_FROM_EXITED_LANE, "reads lane [0-9]+, which takes no part"),
        (cuda_bugs.SHUFFLE_OUTSIDE_OF_MASK, "reads lane [0-9]+, which takes no part"),
        (cuda_bugs.CALLER_OUTSIDE_OF_MASK, "the calling lane is not in its own mask"),
        (cuda_bugs.EMPTY_MASK, "the calling lane is not in its own mask"),
    ],
    ids=["exited lane", "lane outside of the mask", "caller outside of the mask", "empty mask"],
)
@ORDERS
def test_wrong_masks_are_failures_of_their_line(
    source: str, reason: str, order: ThreadOrder
) -> None:
    error = error_of(source, order)
    assert isinstance(error, EmulatorFailureError)
    (line,) = lines_of(source)
    assert f"line {line}: " in str(error)
    assert re.search(reason, str(error))


@ORDERS
def test_different_masks_are_a_deadlock_of_their_line(order: ThreadOrder) -> None:
    source = cuda_bugs.DIFFERENT_MASKS
    error = error_of(source, order)
    assert isinstance(error, EmulatorDeadlockError)
    (line,) = lines_of(source)
    assert f"wait at __any_sync, line {line}" in str(error)


# -- memory ----------------------------------------------------------------------------------------


@ORDERS
def test_an_access_that_is_not_aligned_is_a_failure_of_its_line(order: ThreadOrder) -> None:
    error = error_of(cuda_bugs.MISALIGNED_VECTOR, order)
    assert isinstance(error, EmulatorFailureError)
    (line,) = lines_of(cuda_bugs.MISALIGNED_VECTOR)
    assert f"line {line}: memory: an access 4 bytes past a multiple of the 16" in str(error)


@ORDERS
def test_more_shared_memory_than_a_text_may_declare_is_a_failure(order: ThreadOrder) -> None:
    error = error_of(cuda_bugs.LARGE_SHARED, order)
    assert "bytes of shared memory in the text" in str(error)
    run(cuda_bugs.LARGE_SHARED.replace("12352", "12288"), order)


def test_blocks_run_in_both_orders() -> None:
    x, y = run(cuda_bugs.FIRST_BLOCK_IS_LAST, ThreadOrder.RUN_AHEAD, blocks=3)
    assert y[0] == 2
    x, y = run(cuda_bugs.FIRST_BLOCK_IS_LAST, ThreadOrder.REVERSED, blocks=3)
    assert y[0] == 0
    assert torch.equal(y[1:], x[1:])


# -- copies ahead ----------------------------------------------------------------------------------


def copied(body: str, order: ThreadOrder) -> tuple[torch.Tensor, torch.Tensor]:
    library = CUDA.library.text(["FUSER_DEVICE", "copy_ahead", "wait_for_copies"])
    source = f"""{library}
extern "C" __global__ void copied(const float* x, float* y) {{
  extern __shared__ __align__(16) unsigned char row_memory[];
  float* const own = reinterpret_cast<float*>(row_memory) + threadIdx.x * 2;
  {body}
}}"""
    return run(source, order)


@ORDERS
def test_copies_are_there_once_they_are_waited_for(order: ThreadOrder) -> None:
    copy = "copy_ahead<1, 1>(own, x + threadIdx.x);"
    x, y = copied(f"{copy} wait_for_copies(); y[threadIdx.x] = *own;", order)
    assert torch.equal(y, x)
    x, y = copied(f"{copy} y[threadIdx.x] = *own; wait_for_copies();", order)
    assert y.isnan().all()


@ORDERS
def test_copies_are_aligned(order: ThreadOrder) -> None:
    with pytest.raises(EmulatorFailureError, match=r"cp\.async: .* not aligned"):
        copied("copy_ahead<2, 2>(own, x + 1);", order)


# -- traps and endless waiting ---------------------------------------------------------------------


@ORDERS
def test_trap_is_a_failure_of_its_line_and_block(order: ThreadOrder) -> None:
    (line,) = lines_of(cuda_bugs.TRAP)
    error = error_of(cuda_bugs.TRAP, order, blocks=3)
    assert f"line {line}: __trap: the kernel trapped" in str(error)
    run(cuda_bugs.TRAP, order, blocks=2)


@ORDERS
def test_failed_assertion_is_a_failure_with_its_line_and_text(order: ThreadOrder) -> None:
    (line,) = lines_of(cuda_bugs.ASSERTION)
    error = error_of(cuda_bugs.ASSERTION, order)
    assert f"line {line}: assert: threadIdx.x != 5 || x[5] == 1000" in str(error)


@ORDERS
def test_waiting_for_what_no_thread_does_is_a_deadlock(order: ThreadOrder) -> None:
    (line,) = lines_of(cuda_bugs.ENDLESS_WAIT)
    error = error_of(cuda_bugs.ENDLESS_WAIT, order)
    assert isinstance(error, EmulatorDeadlockError)
    assert f"threads 0-63 wait at __nanosleep, line {line}" in str(error)


# -- afterwards ------------------------------------------------------------------------------------

FAILING = (
    cuda_bugs.DIVERGENT_SHUFFLE,
    cuda_bugs.SHUFFLE_FROM_EXITED_LANE,
    cuda_bugs.CALLER_OUTSIDE_OF_MASK,
    cuda_bugs.DIVERGENT_BARRIER,
    cuda_bugs.ASSERTION,
    cuda_bugs.ENDLESS_WAIT,
)
CORRECT = cuda_bugs.READ_BEFORE_WRITE.replace("// the barrier is missing", "__syncthreads();")


@ORDERS
@pytest.mark.parametrize("source", FAILING, ids=name_of)
def test_launches_after_a_failed_one_are_not_affected(source: str, order: ThreadOrder) -> None:
    first = str(error_of(source, order))
    x, y = run(CORRECT, order, blocks=2)
    assert torch.equal(y, x.flip(0))
    assert str(error_of(source, order)) == first
    x, y = run(CORRECT, order)
    assert torch.equal(y, x.flip(0))


def test_blocks_after_a_failed_one_do_not_run() -> None:
    source = """
extern "C" __global__ void first_fails(const float* x, float* y) {
  if (blockIdx.x == 1) __trap();
  y[blockIdx.x] = 1;
}"""
    x, y = torch.zeros(4), torch.zeros(4)
    with pytest.raises(EmulatorFailureError):
        launch(source, "first_fails", (4, 1, 1), (32, 1, 1), [x, y])
    assert y.tolist() == [1, 0, 0, 0]
