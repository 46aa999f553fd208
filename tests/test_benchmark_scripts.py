"""The benchmark scripts, as far as they run without a GPU and without time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cpu
import function_cases
import functions
import gpu
import gpu_all
import models
import pytest
import shapes
import torch
from cases import cases, small
from checks import WrongResultError
from harness import ROOT


def dry(only: str = "gelu", budget: float = 60) -> gpu.Options:
    return gpu.Options(1, budget, Path(), only, dry_run=True, no_save=True)


def test_a_dry_run_measures_each_kind_once() -> None:
    text, record, fine = gpu.report(dry(), gpu.DRY)
    assert fine
    assert [row.case for row in record["rows"]] == ["gelu [8, 48]"] * 2 + [
        "bias + gelu [8, 48]"
    ] * 2
    assert "these times mean nothing" in text
    assert record["goals"] == []


def test_no_case_is_started_after_the_budget() -> None:
    text, record, fine = gpu.report(dry(budget=-1.0), gpu.DRY)
    assert fine
    assert record["rows"] == []
    assert "no time for: gelu [8192, 3072] f32, gelu [8192, 3072] bf16, bias + gelu" in text


def test_a_case_that_fails_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise ValueError("of no use\nat all")

    monkeypatch.setattr(gpu, "check_ours", refuse)
    text, record, fine = gpu.report(dry(only="permute"), gpu.DRY)
    assert not fine
    assert [row.verdict for row in record["rows"]] == ["FAILED", "FAILED"]
    assert "permute [24, 8, 4] f32: ValueError: of no use\n" in text


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history")
def test_a_tree_is_measured_beside_an_earlier_one() -> None:
    command = [sys.executable, "benchmarks/before_after.py", "HEAD", "--only", "permute"]
    done = subprocess.run(
        [*command, "--rounds", "1", "--no-save"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    head, _, first, second = done.stdout.strip().splitlines()[-4:]
    assert head.split("  ")[-1].strip() == "before / now"
    assert first.startswith("permute [768, 128, 64]    f32")
    assert float(second.split()[-1]) > 0


def test_small_and_odd_shapes_have_a_row_for_each_kind_and_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shapes, "keep_freed", lambda: None)  # of this process, for good
    shapes.main(["--only", "sum all", "--rounds", "1", "--no-save"])
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.startswith("sum ")]
    assert [row[:3] for row in rows] == [["sum", "all", "f32"], ["sum", "all", "bf16"]]
    assert all(float(ratio) > 0 for row in rows for ratio in row[3:])
    assert len(rows[0]) == 3 + len(shapes.SHAPES)


def test_peers_on_the_processor_have_both_regimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "compiled", lambda function: function)  # compiling takes long
    case = next(
        small(case, "cpu") for case in cases("cpu") if case.kind.name == "layernorm backward"
    )
    row, regimes = cpu.measure(case, rounds=1, seconds=0)
    assert row.ratios.keys() == {
        f"{peer}{regime}" for peer in ("eager", "torch.compile") for regime in ("", ", as called")
    }
    assert list(regimes) == ["as called", "no page faults"]
    assert [goal.words.rpartition(", against")[0] or "faults" for goal in row.goals] == [
        f"{case}, no page faults",
        "faults",
    ]


def test_models_have_a_row_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    models.main(["--small", "--rounds", "1"])
    *_, training, inference, shift = capsys.readouterr().out.splitlines()[:-1]
    assert training.split()[:2] == ["small", "training"]
    assert inference.split()[:2] == ["small", "inference"]
    assert shift.split()[:3] == ["XLNet's", "shift", "backward"]
    assert all(row.count("100.0 %") == 1 for row in (training, inference, shift))
    assert shift.split()[-1] == "2"


def test_a_function_has_a_row_for_each_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def softplus(x: torch.Tensor) -> torch.Tensor:
        return (x.exp() + 1).log().sum(1)

    case = function_cases.Function("small", softplus, function_cases.normal((3, 5)))
    monkeypatch.setattr(functions, "FUNCTIONS", (case,))
    monkeypatch.setattr(functions, "PEERS", ("eager",))  # inductor takes long
    monkeypatch.setattr(functions, "HEAD", [name for name in functions.HEAD if "ind" not in name])
    functions.main(["--rounds", "1", "--no-save"])
    lines = capsys.readouterr().out.splitlines()
    forward, backward = (line.split() for line in lines if line.startswith("small"))
    assert (forward[1], backward[1]) == ("forward", "backward")
    assert forward[-3:-1] == backward[-3:-1] == ["100", "%"]
    assert any(line.startswith("eager: geometric mean") for line in lines)


def test_wrong_results_of_a_function_are_an_error() -> None:
    exact = [torch.ones(4, dtype=torch.float64)]
    calls = {"fuser": lambda: torch.full((4,), 1.01), "eager": lambda: torch.ones(4)}
    with pytest.raises(WrongResultError, match=r"error 5\.0e-03, eager's 0\.0"):
        functions.check(calls, exact)


def test_stages_get_no_more_than_is_left() -> None:
    stage = gpu_all.Stage("benchmarks", ("python",), 330, paced=True)
    assert stage.within(1000) == gpu_all.Stage("benchmarks", ("python", "--budget", "270"), 330)
    assert stage.within(100).command == ("python", "--budget", "40")
    assert gpu_all.run(stage.within(2)) == ["benchmarks", "-", "FAILED, no time left"]


def test_the_stages_are_all_there() -> None:
    names = [stage.name for stage in gpu_all.stages(Path())]
    assert names[0] == "tests"
    assert {"gelu repro", "cross entropy repro", "benchmarks"} <= set(names)
    for stage in gpu_all.stages(Path()):
        scripts = [part for part in stage.command if part.endswith(".py")]
        assert all((gpu_all.ROOT / script).exists() for script in scripts)
