"""The repro scripts run, say what they ran, and fail where the answer or the plan is wrong."""

from __future__ import annotations

import importlib
import io
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from fuser import FusionDefinition
from fuser.integrations import dynamo
from repros.common import check, compare_plans, table

ROOT = Path(__file__).parent.parent
SCRIPTS = ("gelu_bookend_views.py", "transpose_bookend_views.py")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run_apart(script: str, *options: str) -> Ended:
    """A script by itself."""
    command = [sys.executable, str(ROOT / "repros" / script), "--device", "cpu", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return Ended(done.returncode, done.stdout, done.stderr)


def run(script: str, *options: str) -> Ended:
    """A script in this process, which has imported torch already."""
    path, out, err = ROOT / "repros" / script, io.StringIO(), io.StringIO()
    torch._dynamo.reset()
    dynamo.clear_reports()
    code: str | int = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.syspath_prepend(str(path.parent))
        patch.setattr(sys, "argv", [str(path), "--device", "cpu", *options])
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    message = code if isinstance(code, str) else ""
    status = code if isinstance(code, int) else 1
    return Ended(status, out.getvalue(), err.getvalue() + message)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_one_kernel_that_is_right(script: str, target: str) -> None:
    run_it = run_apart if target == "cpu" else run
    done = run_it(script, "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "total: 1 kernel(s), 1 alias(es), 0 torch call(s)" in done.stdout
    assert "checked" in done.stdout
    assert "eager" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_views_in_all_eight_ways_are_one_kernel(target: str) -> None:
    done = run("view_chain_segments.py", "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("6.3 MB")]
    reported = [line.partition(": ")[0][-1] for line in rows[:8]]
    assert reported == list("32221111")
    assert len(rows) == 8 + 3
    assert all(re.search(r" 1 +0 +[01]  6\.3 MB$", line) for line in rows)
    assert "checked" in done.stdout
    assert "eager" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_a_norm_that_ends_in_8_bits_is_one_kernel(target: str) -> None:
    size = "8" if target == "emulator" else "small"
    done = run("float8_rows.py", "--size", size, "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "checked" in done.stdout
    assert "total: 1 kernel(s), 0 alias(es), 0 torch call(s)" in done.stdout
    assert "total: 1 kernel(s), 0 alias(es), 1 torch call(s)" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_a_quantization_to_4_bits_is_one_kernel(target: str) -> None:
    done = run("nvfp4.py", "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "checked" in done.stdout
    assert "total: 1 kernel(s), 0 alias(es), 0 torch call(s)" in done.stdout
    assert "total: 1 kernel(s), 0 alias(es), 1 torch call(s)" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_dropout_keeps_a_seed_instead_of_a_mask(target: str) -> None:
    size = "8" if target == "emulator" else "small"
    done = run("dropout_layernorm.py", "--size", size, "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked") == 2
    assert done.stdout.count("total: 1 kernel(s), 0 alias(es), 0 torch call(s)") == 2


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_cross_entropy_writes_no_log_probabilities_for_its_loss(target: str) -> None:
    done = run("cross_entropy.py", "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked") == 3
    moved = compared(done.stdout)
    assert moved["forward, loss only"] == ["1", "1.0 MB", "4 B", "1.0 MB"]
    assert moved["backward"] == ["1", "1.0 MB", "1.0 MB", "2.1 MB"]
    assert moved["forward, loss only, nvFuser's cuts"] == ["4", "1.0 MB", "1.0 MB", "2.1 MB"]
    assert moved["backward, nvFuser's cuts"] == ["4", "3.1 MB", "3.1 MB", "6.3 MB"]
    assert "F.cross_entropy" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_the_gradient_of_a_slice_is_a_pad(target: str) -> None:
    done = run("gather_to_slice.py", "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked") == 2
    moved = compared(done.stdout)
    assert moved["forward"] == ["1", "1.6 MB", "786.4 kB", "2.4 MB"]
    assert moved["backward"] == ["1", "786.4 kB", "1.6 MB", "2.4 MB"]
    assert int(moved["backward, nvFuser's cuts"][0]) > 1
    ends = r"1 kernel\(s\), 2.4 MB moved, eager torch takes [0-9.]+ times as long$"
    assert all(re.search(f"^{name}: {ends}", done.stdout, re.M) for name in ("forward", "backward"))


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_the_loss_module_is_two_kernels_under_torch_compile(target: str) -> None:
    options = ["--size", "small", "--target", target, "--rounds", "1"]
    done = run("cross_entropy_module.py", *options)
    assert done.returncode == 0, done.stderr
    assert "checked" in done.stdout
    assert done.stdout.count("(100.0 %) in 1 partition(s)") == 2
    assert done.stdout.count("total: 1 kernel(s), 0 alias(es), 0 torch call(s)") == 2
    assert re.search(r"1\.0 MB +72 B ", done.stdout)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_the_shift_has_no_index_under_torch_compile(target: str) -> None:
    done = run("xlnet_rel_shift.py", "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "checked" in done.stdout
    assert done.stdout.count("(100.0 %) in 1 partition(s)") == 2
    assert "0 alias(es), 0 torch call(s), 2.4 MB moved" in done.stdout


def test_a_shift_that_gathers_is_refused(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "repros"))
    monkeypatch.setattr("fuser.integrations.dynamo.rewrite_graph", lambda module: 0)
    script = importlib.import_module("xlnet_rel_shift")
    torch._dynamo.reset()
    script.dynamo.clear_reports()
    shift = torch.compile(
        lambda x, at: torch.index_select(x, 1, at), backend="fuser", options={"target": "cpu"}
    )
    shift(torch.randn(4, 8), torch.arange(4))
    (report,) = script.dynamo.reports()
    wrong = script.verdict(report.partitions, [50.0])
    assert wrong[:2] == [
        "torch computes 50.0 %",
        "there are 1 partitions, not one for each direction",
    ]
    assert wrong[2].endswith("reads an index")


def compared(printed: str) -> dict[str, list[str]]:
    """The cells of the table of plans, by the plan's name."""
    _, _, after = printed.partition("segments  ")
    rows = after.partition("\n\n")[0].splitlines()[2:]
    cells = [re.split(" {2,}", row) for row in rows]
    return {name: figures for name, *figures in cells}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_size_that_does_not_fit_is_refused(script: str) -> None:
    done = run(script, "--size", "100")
    assert done.returncode == 2
    assert "multiple of 128" in done.stderr


@pytest.mark.parametrize("option", ["--rounds=-1", "--target=cuda", "--target=wibble"])
def test_an_option_that_does_not_fit_is_refused(option: str) -> None:
    done = run(SCRIPTS[0], "--size", "small", option)
    assert done.returncode == 2
    assert option.partition("=")[0] in done.stderr.splitlines()[-1]


def test_a_wrong_answer_ends_with_status_1() -> None:
    right = torch.ones(4, 4)
    with pytest.raises(SystemExit, match="WRONG: output 0 is not"):
        check([right + 1], [right])
    with pytest.raises(SystemExit, match="strides"):
        check([right], [right.t()])
    with pytest.raises(SystemExit, match="torch gives 1"):
        check([], [right])


def test_a_loss_that_writes_its_log_probabilities_is_refused(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "repros"))
    script = importlib.import_module("cross_entropy")
    saved = [torch.zeros(8, dtype=torch.int64), torch.rand(8, script.COLUMNS)]
    saved += [torch.ones(()), torch.ones(())]
    inputs = saved[1], saved[0]
    good = script.plan_for(script.forward, False, inputs, "cpu")
    cut = script.plan_for(script.forward, True, inputs, "cpu")
    back = script.plan_for(script.backward, False, saved, "cpu")
    cut_back = script.plan_for(script.backward, True, saved, "cpu")

    assert script.verdict({"forward, loss only": good, "backward": back}, 8) == []
    wrong = script.verdict({"forward, loss only": cut, "backward": cut_back}, 8)
    assert [words.partition(" takes ")[0] for words in wrong[::2]] == ["the loss", "the backward"]
    assert "the loss writes" in wrong[1]

    module = importlib.import_module("cross_entropy_module")
    assert module.verdict([good, back], [100.0, 100.0], 8) == []
    wrong = module.verdict([cut, cut_back], [100.0, 90.0], 8)
    assert [words.split(" ")[2] for words in wrong] == ["10.0", "takes", "writes", "takes"]


def test_plans_are_compared_by_what_they_move() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(fd.ops.exp(x))
    plan = fd.plan([torch.ones(1000)])
    assert compared(compare_plans({"exp": plan})) == {"exp": ["1", "4.0 kB", "4.0 kB", "8.0 kB"]}


def test_tables_align_numbers_to_the_right() -> None:
    assert table(["name", "size"], [["a", "1 B"], ["bc", "10 B"]]).splitlines() == [
        "name  size",
        "----  ----",
        "a      1 B",
        "bc    10 B",
    ]
