"""The benchmarks' cases compute what they say, in as many kernels and bytes as they should."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import batch_norm_cases
import float8_cases
import pair_cases
import pytest
import shift_cases
import torch
import turned_cases
from case import FLOAT8, Case, Scratch, tensors
from cases import cases, small
from checks import WrongResultError, check_ours, error, working
from harness import alternate, balanced_orders
from host_time import chain, host_seconds, measure_execute
from liger import HAS_LIGER

from fuser.ir.four_bits import one_by_one

ROWS, COLUMNS = 5, 33
FIXED = (
    *("gelu", "permute", float8_cases.BLOCKS.name, float8_cases.NVFP4.name),
    *(*batch_norm_cases.SMALL, *shift_cases.SMALL, *pair_cases.SMALL, *turned_cases.SMALL),
)
"""Kinds that not every shape has."""
SMALL = list({str(case): case for case in (small(c, "cpu") for c in cases("cpu"))}.values())
ODD = [
    Case(case.kind, (ROWS, COLUMNS), case.dtype, "cpu")
    for case in SMALL
    if case.kind.name not in FIXED
]
TARGETS = {"cpu": "cpu", "cuda": "cuda:sm_90"}
EVERY = [case for device in TARGETS for case in cases(device)]


def described(case: Case) -> str:
    return f"{case}, {case.device}"


# -- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("case", [*SMALL, *ODD], ids=str)
def test_the_definition_computes_what_float64_does(case: Case, target: str) -> None:
    inputs = case.inputs()
    made = case.definition().execute(inputs, target=target)
    check_ours(case, made, case.exact(inputs))


@pytest.mark.parametrize("case", [*SMALL, *ODD], ids=str)
def test_the_definition_computes_what_torch_does(case: Case) -> None:
    inputs = case.inputs()
    made = case.definition().execute(inputs)
    written = tensors(case.kind.written(*inputs))
    assert [t.shape for t in made] == [t.shape for t in written]
    assert [t.dtype for t in made] == [t.dtype for t in written]
    if case.kind.drawn:
        return
    loose = {torch.float32: 1e-4, torch.bfloat16: 0.03}[case.dtype]
    for ours, theirs in zip(made, written, strict=True):
        near = loose + 2 * FLOAT8 if ours.dtype is torch.float8_e4m3fn else loose
        if ours.dtype is torch.float4_e2m1fn_x2:  # what lies between two may be either
            apart = one_by_one(ours).float() != one_by_one(theirs).float()
            assert apart.float().mean() < loose
        else:
            torch.testing.assert_close(ours.float(), theirs.float(), rtol=near, atol=near)


@pytest.mark.parametrize("case", [*SMALL, *ODD], ids=str)
def test_every_peer_computes_the_same(case: Case) -> None:
    inputs = case.inputs()
    exact = case.exact(inputs)
    like = tensors(case.kind.written(*inputs))
    scratch = {name: Scratch(torch.empty_like) for name in case.kind.into}

    def into(name: str) -> list[torch.Tensor]:
        outs = [torch.full_like(tensor, torch.nan) for tensor in like]
        case.kind.into[name](outs, scratch[name], *inputs)
        return outs

    peers = {name: lambda peer=peer: peer(*inputs) for name, peer in case.kind.eager.items()}
    peers |= {f"{name}, into": lambda name=name: into(name) for name in case.kind.into}
    kept, errors, notes = working(peers, exact)
    only_cuda = "_fused_rms_norm_backward"
    assert peers.keys() - kept.keys() <= {only_cuda}, notes
    most = {torch.float32: 2e-5, torch.bfloat16: 0.05}[case.dtype]
    most += case.kind.rounding
    assert case.kind.drawn or max(errors.values()) < most


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_inputs_are_the_same_each_time_and_left_alone(case: Case) -> None:
    first, second = case.inputs(), case.inputs()
    case.definition().execute(first)
    for peer in case.kind.eager.values():
        working({"peer": lambda peer=peer: peer(*first)}, case.exact(second))
    for ours, theirs in zip(first, second, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_peers_on_the_gpu(case: Case) -> None:
    few = small(case, "cuda")
    inputs = few.inputs()
    exact = few.exact(inputs)
    check_ours(few, few.definition().execute(inputs), exact)
    peers = {name: lambda peer=peer: peer(*inputs) for name, peer in few.kind.eager.items()}
    if few.kind.liger is not None and HAS_LIGER:
        liger = few.kind.liger
        peers["Liger"] = lambda: liger(*(tensor.clone() for tensor in inputs))
    kept, _, notes = working(peers, exact)
    assert kept.keys() == peers.keys(), notes


# -- plans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", EVERY, ids=described)
def test_how_many_kernels_are_planned(case: Case) -> None:
    plan = case.definition().plan(case.meta_inputs(), target=TARGETS[case.device])
    assert len(plan.kernels) == case.kernels, str(plan)
    assert all(kernel.kernel_source is not None for kernel in plan.kernels)
    assert not plan.externs


@pytest.mark.parametrize("case", EVERY, ids=described)
def test_bytes_are_moved_once(case: Case) -> None:
    plan = case.definition().plan(case.meta_inputs(), target=TARGETS[case.device])
    least, moved = sum(case.least_bytes()), plan.bytes_moved
    if len(plan.kernels) == 1:
        assert moved == least
    else:  # between kernels go a few numbers a row, and the numbers of the columns twice
        again = 0.0
        if case.device != "cpu":
            whole = (x.nbytes for x in case.meta_inputs() if x.shape == case.shape)
            again = (case.kind.gpu_reads - 1) * sum(whole)
        most = least + again + 48 * max(case.shape[0], case.shape[1]) + 2 * 8 * case.shape[-1] + 64
        assert least + again < moved <= most


def test_the_table_has_what_was_asked_for() -> None:
    names = {case.name for case in cases("cuda")}
    asked = {
        "gelu": ["8192, 3072"],
        "bias + gelu": ["8192, 3072"],
        "permute": ["768, 128, 64"],
        "transpose": ["8192, 8192"],
        "softmax": ["8192, 768", "4096, 32768", "2048, 131072"],
        "layernorm": ["8192, 768", "8192, 4096"],
        "layernorm backward": ["8192, 768", "8192, 4096"],
        "rmsnorm": ["8192, 768", "8192, 4096"],
        "rmsnorm backward": ["8192, 768", "8192, 4096"],
        "add + layernorm": ["16384, 4096"],
        "dropout + add + layernorm": ["16384, 4096"],
        "dropout + add + layernorm backward": ["16384, 4096"],
        **{
            f"cross entropy {part}": ["512, 32768", "8192, 30522", "4096, 128256"]
            for part in ("forward", "backward", "both")
        },
        "relative shift": ["4, 16, 512, 1024"],
        "relative shift backward": ["4, 16, 512, 1024"],
        "rotary embedding": ["4, 32, 2048, 128"],
        "rotary embedding backward": ["4, 32, 2048, 128"],
        "rotary embedding of pairs": ["4, 32, 2048, 128"],
        "average pool": ["32, 64, 128, 128"],
        "cumsum along rows backward": ["8192, 3072"],
        **{f"sum {part}": ["8192, 3072"] for part in ("inner", "outer", "all")},
    }
    assert {f"{name} [{shape}]" for name, shapes in asked.items() for shape in shapes} <= names
    assert len(cases("cuda")) == 2 * len(names)


def test_tensors_on_the_processor_are_at_most_100_megabytes() -> None:
    smaller = [case for case in cases("cpu") if case.kind.name != "transpose"]
    largest = (t.nbytes for case in smaller for t in case.meta_inputs())
    assert max(largest) <= 8192 * 3072 * 4


# -- checks and measuring ------------------------------------------------------------------------


def test_errors_are_relative_to_the_element_and_the_mean() -> None:
    exact = [torch.tensor([1.0, 3.0], dtype=torch.float64)]
    assert error([torch.tensor([1.0, 3.0])], exact) == 0.0
    assert error([torch.tensor([1.0, 4.0])], exact) == pytest.approx(1 / (3 + 2))
    assert error([torch.tensor([torch.nan, 3.0])], exact) == float("inf")
    assert error([torch.tensor([1.0])], exact) == float("inf")


def test_a_wrong_result_is_refused() -> None:
    case = SMALL[0]
    exact = case.exact(case.inputs())
    with pytest.raises(WrongResultError, match="is above"):
        check_ours(case, [exact[0].float() + 1], exact)
    with pytest.raises(WrongResultError, match="float64"):
        check_ours(case, exact, exact)


def test_peers_that_fail_are_left_out_by_name() -> None:
    def broken() -> object:
        raise NotImplementedError("no such kernel\nmore")

    one = torch.ones(3, dtype=torch.float64)
    peers = {"good": lambda: one, "wrong": lambda: 2 * one, "short": lambda: one[1:]}
    kept, errors, notes = working({**peers, "broken": broken}, [one])
    assert list(kept) == ["good", "wrong"]
    assert errors == {"good": 0.0, "wrong": 0.5}
    assert notes == [
        "wrong has errors of 50%",
        "short left out: its sizes differ, or it has NaN",
        "broken left out: NotImplementedError: no such kernel",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator and Linux' pages")
def test_kept_blocks_cost_no_page_faults() -> None:
    # In a process of its own: what lives in this one's heap may keep blocks from being reused.
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        cwd=Path(shift_cases.__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    counted, kept, given_back = map(float, done.stdout.split())
    if not counted:
        pytest.skip("this system counts no page faults")
    assert 10 * kept < given_back


FAULTS = """
import mmap
import resource
import torch
from buffers import give_back_freed, keep_freed
from harness import alternate

def call():
    return torch.zeros(16 << 20)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

before = faults()
fresh = mmap.mmap(-1, 1 << 24)
fresh[:] = bytes(1 << 24)
counted = faults() - before

# First, as a block that lies below another in the heap cannot be given back.
give_back_freed()
given_back = alternate({"fuser": call}, rounds=5)["fuser"].faults
keep_freed()
# small blocks are cut off the first large ones that are freed, until some are too large
kept = alternate({"fuser": call}, rounds=5, warm_up=16)["fuser"].faults
print(counted, kept, given_back)
"""


def test_rounds_end_early_when_the_time_is_used_up() -> None:
    calls: list[int] = []
    alternate({"fuser": lambda: calls.append(1)}, rounds=100, warm_up=1, most_seconds=0)
    assert len(calls) == 1 + 5


@pytest.mark.parametrize("count", range(1, 7))
def test_each_candidate_is_measured_after_each_other_one_equally_often(count: int) -> None:
    names = "abcdef"[:count]
    orders = balanced_orders(names)
    assert all(sorted(order) == list(names) for order in orders)
    followed = Counter(pair for order in orders for pair in pairwise(order))
    assert len(followed) == count * (count - 1)
    assert len(set(followed.values())) <= 1


def test_chains_have_as_many_kernels_as_segments() -> None:
    inputs = [torch.randn(64) for _ in range(3)]
    assert [len(chain(length).plan(inputs).kernels) for length in (1, 3)] == [1, 3]


def test_the_host_is_timed() -> None:
    assert 0 < host_seconds(lambda: None, "cpu", repeats=3) < 1e-3
    found = measure_execute("cpu", rounds=1, lengths=(1, 2))
    assert found.call > 0
    assert [goal.wanted for goal in found.goals()] == ["< 10 us", "< 5 us"]
