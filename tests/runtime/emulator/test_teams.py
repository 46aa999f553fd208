"""Teams of a block in the emulator: threads that meet without those of other teams."""

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
LIBRARY = CUDA.library.text(["FUSER_DEVICE", "join_team"])
TEAMS = 3

HEAD = """
extern "C" __global__ void __launch_bounds__({threads}) teams(const float* x, float* y) {{
  alignas(8) __shared__ unsigned char shared[2 * 8 * 3 * {warps}];
  const int at = threadIdx.y * {threads} / 3 + threadIdx.x;
"""
UNEQUAL = """
  for (int i = 0; i <= threadIdx.y; ++i) {{
    y[at] += join_team<{warps}, true>(x[at] + i, [](float x, float y) {{ return x + y; }}, shared);
  }}
}}
"""
MIXED = """
  if (threadIdx.y == 0) {{
    y[at] = join_team<{warps}, true>(x[at], [](float x, float y) {{ return x + y; }}, shared);
  }} else {{
    const double wide = x[at];
    y[at] = join_team<{warps}, true>(wide, [](double x, double y) {{ return x + y; }}, shared);
  }}
}}
"""
IN_TURN = """
  for (int i = 0; i < 4; ++i) {{
    y[at] += join_team<{warps}, false>(
        x[at] + i, [](float x, float y) {{ return x + y; }}, shared + i % 2 * 24 * {warps});
  }}
}}
"""
APART = """
  if (threadIdx.x < 32) meet_team<{warps}>();
  __syncthreads();
}}
"""
LEFT = """
  if (threadIdx.x >= 32) return;
  meet_team<{warps}>();
  y[at] = 1;
}}
"""
UNORDERED = """
  float* const of_team = reinterpret_cast<float*>(shared) + threadIdx.y;
  if (threadIdx.x == 0) *of_team = x[at];
  y[at] = *of_team;
}}
"""


def text(body: str, warps: int) -> str:
    return LIBRARY + (HEAD + body).format(warps=warps, threads=TEAMS * 32 * warps)


def run(body: str, warps: int, order: ThreadOrder) -> tuple[torch.Tensor, torch.Tensor]:
    """The input, a row for each team, and what becomes of it."""
    torch.manual_seed(0)
    x = torch.randint(-8, 9, (TEAMS, warps * 32)).float()
    y = torch.zeros_like(x)
    pointers = [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())]
    build(text(body, warps), "teams").launch(
        (1, 1, 1), (32 * warps, TEAMS, 1), pointers, order=order
    )
    return x, y


def summed(x: torch.Tensor) -> torch.Tensor:
    """What `UNEQUAL` makes: each team joins once more than the one before."""
    rows = [sum((row + i).sum() for i in range(team + 1)) for team, row in enumerate(x)]
    return torch.tensor(rows).view(-1, 1).expand(x.shape)


@ORDERS
@pytest.mark.parametrize("warps", [1, 2, 8])
def test_teams_do_not_wait_for_each_other(warps: int, order: ThreadOrder):
    x, y = run(UNEQUAL, warps, order)
    assert torch.equal(y, summed(x))


@ORDERS
@pytest.mark.parametrize("warps", [2, 8])
def test_teams_that_use_two_rooms_in_turn_meet_once_for_each(warps: int, order: ThreadOrder):
    x, y = run(IN_TURN, warps, order)
    wanted = sum((x + i).sum(1, keepdim=True) for i in range(4))
    assert torch.equal(y, torch.as_tensor(wanted).expand(x.shape))


@ORDERS
def test_teams_may_join_numbers_of_different_sizes(order: ThreadOrder):
    x, y = run(MIXED, 4, order)
    assert torch.equal(y, x.sum(1, keepdim=True).expand(x.shape))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_same_text_compiles(arch: str):
    assert compile_cubin(text(UNEQUAL, 4), "teams", arch).resources.spill_bytes == 0


@ORDERS
def test_threads_that_have_ended_do_not_come(order: ThreadOrder):
    """A barrier that is told how many threads meet waits for so many."""
    with pytest.raises(EmulatorDeadlockError, match=r"bar\.sync.*threads 32-63 have ended"):
        run(LEFT, 2, order)


@ORDERS
def test_a_block_has_no_more_teams_than_barriers(order: ThreadOrder):
    def meet(teams: int) -> None:
        source = text("meet_team<1>();\n}}", 1)
        build(source, "teams").launch(
            (1, 1, 1), (32, teams, 1), [ctypes.c_void_p()] * 2, order=order
        )

    meet(15)
    with pytest.raises(EmulatorFailureError, match="16 barriers"):
        meet(16)


@ORDERS
def test_threads_that_never_meet_are_reported(order: ThreadOrder):
    with pytest.raises(EmulatorDeadlockError, match=r"bar\.sync.*__syncthreads"):
        run(APART, 2, order)


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    "body", [UNEQUAL, IN_TURN, UNORDERED], ids=["ordered", "in turn", "unordered"]
)
def test_what_sanitizers_find_in_teams(body: str, sanitizer: Sanitizer):
    x, y = torch.randint(-8, 9, (TEAMS, 64)).float(), torch.zeros(TEAMS, 64)
    report = run_sanitized(text(body, 2), "teams", (1, 1, 1), (64, TEAMS, 1), [x, y], sanitizer)
    races = body is UNORDERED and sanitizer is Sanitizer.THREAD
    assert bool(report.findings) == races
