"""Clusters in the emulator: blocks that meet, and write to each other's shared memory."""

from __future__ import annotations

import ctypes

import pytest
import torch

from fuser.codegen.target import CUDA
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.cuda.nvrtc import compile_cubin
from fuser.runtime.emulator import (
    EmulatorDeadlockError,
    EmulatorFailureError,
    Sanitizer,
    ThreadOrder,
    build,
    run_sanitized,
)

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")

ORDERS = pytest.mark.parametrize("order", ThreadOrder, ids=lambda order: order.name)
LIBRARY = CUDA.library.text(["FUSER_DEVICE", "open_barriers", "join_cluster", "maximum(float)"])

HEAD = """
extern "C" __global__ void __launch_bounds__({threads}) __cluster_dims__(1, {blocks}, 1)
clustered(const float* x, float* y) {{
  __shared__ cluster_mail<{blocks} * {warps}> mail;
  const int thread = threadIdx.x;
  const int at = (blockIdx.x * gridDim.y + blockIdx.y) * {threads} + thread;
  unsigned int joined = 0;
"""
JOINS = """
  open_barriers(mail.barriers);
  for (int i = 0; i < 3; ++i) {{
    const float value = x[at] + i;
    const float sum = join_cluster<{blocks}, {warps}>(
        value, [](float x, float y) {{ return x + y; }}, mail, joined);
    const float most = join_cluster<{blocks}, {warps}>(
        value, [](float x, float y) {{ return maximum(x, y); }}, mail, joined);
    y[at] += sum * (i + 1) + most;
  }}
}}
"""
UNOPENED = JOINS.replace("  open_barriers(mail.barriers);\n", "", 1)
WRONG_PHASE = """
  open_barriers(mail.barriers);
  meet_cluster();
  if (thread == 0) expect_bytes(mail.barriers, 8 * {blocks});
  if (thread == 0) {{
    for (int i = 0; i < {blocks}; ++i) {{
      send_across(mail.words[0] + blockIdx.y, blockIdx.y + 1, mail.barriers, i);
    }}
  }}
  await_bytes(mail.barriers, 1);
}}
"""
OWED = """
  open_barriers(mail.barriers);
  meet_cluster();
  if (thread == 0) expect_bytes(mail.barriers, 8);
  await_bytes(mail.barriers, 0);
}}
"""
TWICE = """
  open_barriers(mail.barriers);
  meet_cluster();
  expect_bytes(mail.barriers, 8);
}}
"""
SEND = "send_across(mail.words[0], 1, mail.barriers, 1);"
TOO_EARLY = f"""
  open_barriers(mail.barriers);
  {SEND}
}}}}
"""
TOO_LATE = f"""
  open_barriers(mail.barriers);
  meet_cluster();
  if (blockIdx.y == 1) return;
  {SEND}
}}}}
"""
APART = """
  if (thread < 32) meet_cluster();
  __syncthreads();
}}
"""
BESIDE = """
  open_barriers(mail.barriers);
  meet_cluster();
  if (thread < 32) {{
    if (thread == 0) expect_bytes(mail.barriers, 8 * {blocks});
    if (thread < {blocks}) send_across(mail.words[0] + blockIdx.y, 1, mail.barriers, thread);
    await_bytes(mail.barriers, 0);
  }}
  __syncthreads();
  y[at] = mail.words[0][thread % {blocks}];
}}
"""
OWN = """
  mail.words[0][thread % {warps}] = blockIdx.y;
  meet_cluster();
  __syncthreads();
  y[at] = mail.words[0][thread % {warps}];
}}
"""
OUTSIDE = """
  open_barriers(mail.barriers);
  unsigned long long local = 0;
  meet_cluster();
  send_across(&local, 1, mail.barriers, 0);
}}
"""


def text(body: str, blocks: int, warps: int) -> str:
    numbers = {"blocks": blocks, "warps": warps, "threads": 32 * warps}
    return LIBRARY + (HEAD + body).format(**numbers)


def run(
    body: str, blocks: int, warps: int, order: ThreadOrder, clusters: int = 2
) -> tuple[torch.Tensor, torch.Tensor]:
    """The input, a row for each cluster, and what becomes of it."""
    torch.manual_seed(0)
    x = torch.randint(-8, 9, (clusters, blocks * warps * 32)).float()
    y = torch.zeros_like(x)
    build(text(body, blocks, warps), "clustered").launch(
        (clusters, blocks, 1),
        (32 * warps, 1, 1),
        [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())],
        cluster=blocks,
        order=order,
    )
    return x, y


def joined(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x)
    for i in range(3):
        value = x + i
        total += value.sum(1, keepdim=True) * (i + 1) + value.amax(1, keepdim=True)
    return total


@ORDERS
@pytest.mark.parametrize("warps", [1, 2, 16])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_every_thread_of_a_cluster_gets_what_all_have(blocks: int, warps: int, order: ThreadOrder):
    x, y = run(JOINS, blocks, warps, order)
    assert torch.equal(y, joined(x))


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
@pytest.mark.parametrize("warps", [1, 16])
def test_the_same_text_compiles(warps: int, arch: str):
    assert compile_cubin(text(JOINS, 4, warps), "clustered", arch).resources.spill_bytes == 0


@ORDERS
def test_blocks_have_shared_memory_of_their_own(order: ThreadOrder):
    _, y = run(OWN, 4, 2, order)
    assert torch.equal(y.view(2, 4, 64), torch.arange(4.0).view(1, 4, 1).expand(2, 4, 64))


@ORDERS
def test_a_block_whose_threads_wait_elsewhere_gets_what_the_others_send(order: ThreadOrder):
    _, y = run(BESIDE, 4, 2, order)
    assert torch.equal(y, torch.ones_like(y))


@ORDERS
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (TOO_EARLY, "may not have begun|not open"),
        (OUTSIDE, "not in static shared memory"),
        (UNOPENED, "the barrier is not open"),
        (TWICE, "all that may arrive"),
        (WRONG_PHASE, "may have ended"),  # nobody waits for what is still to come
    ],
)
def test_wrong_use_is_refused(body: str, reason: str, order: ThreadOrder):
    with pytest.raises(EmulatorFailureError, match=reason):
        run(body, 2, 2, order)


def test_writes_to_a_block_that_has_ended_are_refused():
    with pytest.raises(EmulatorFailureError, match="may have ended"):
        run(TOO_LATE, 2, 2, ThreadOrder.ASCENDING)


@ORDERS
def test_threads_that_never_meet_are_reported(order: ThreadOrder):
    with pytest.raises(EmulatorDeadlockError, match=r"barrier\.cluster.*__syncthreads"):
        run(APART, 2, 2, order)


@ORDERS
def test_bytes_that_nobody_sends_are_reported(order: ThreadOrder):
    with pytest.raises(EmulatorDeadlockError, match=r"threads 0-63 wait at mbarrier\.try_wait"):
        run(OWED, 2, 2, order)


@pytest.mark.parametrize("cluster", [0, 3, 16])
def test_clusters_that_cuda_refuses(cluster: int):
    kernel = build(text(OWN, 2, 1), "clustered")
    pointer = ctypes.c_void_p(0)
    with pytest.raises(EmulatorFailureError, match="clusters"):
        kernel.launch(
            (1, 16 if cluster == 16 else 4, 1), (32, 1, 1), [pointer] * 2, cluster=cluster
        )


@pytest.mark.sanitizer
@ORDERS
def test_sanitizers_find_nothing_in_clusters(sanitizer: Sanitizer, order: ThreadOrder):
    x, y = torch.randint(-8, 9, (2, 4 * 64)).float(), torch.zeros(2, 4 * 64)
    grid, block = (2, 4, 1), (64, 1, 1)
    source = text(JOINS, 4, 2)
    report = run_sanitized(
        source, "clustered", grid, block, [x, y], sanitizer, cluster=4, order=order
    )
    assert not report.findings
    assert torch.equal(y, joined(x))
