"""Goals, the table and the picture of a benchmark."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from case import Case
from cases import cases
from harness import Measured
from picture import draw
from report import (
    CPU_COLUMNS,
    GPU_COLUMNS,
    Row,
    better,
    cpu_goals,
    failed,
    goal_lines,
    gpu_goals,
    mostly_reads,
    note_lines,
    row_table,
)


def case_named(name: str, device: str = "cuda") -> Case:
    return next(case for case in cases(device) if str(case) == name)


def test_eager_is_the_better_of_its_ways() -> None:
    measured = {
        "eager: slow": Measured(3.0, 3.0),
        "eager: fast": Measured(2.0, 2.0),
        "torch.compile": Measured(1.5, 1.5),
    }
    assert better(measured, "eager") == 2.0
    assert better(measured, "torch.compile") == 1.5
    assert better(measured, "Liger") is None


def test_goals_on_the_processor() -> None:
    found = {"eager": 3.0, "torch.compile": 1.9, "eager, as called": 9.0}
    met = [goal.met for goal in cpu_goals(case_named("gelu [8192, 3072] f32"), found, 1.0)]
    assert met == [False, True]
    (softmax,) = cpu_goals(case_named("softmax [8192, 768] f32"), found, 1.0)
    assert (softmax.wanted, softmax.measured, softmax.met) == (">= 1.5x", "1.90x", True)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gelu [8192, 3072] f32", [">= 0.97x", ">= 0.95x"]),
        ("softmax [8192, 768] bf16", [">= 0.97x", ">= 0.95x"]),
        ("softmax [4096, 32768] bf16", [">= 1.3x", ">= 0.95x"]),
        ("layernorm backward [8192, 4096] f32", [">= 1.3x", ">= 0.85x"]),
        ("cross entropy both [512, 32768] f32", [">= 1.3x", ">= 0.95x"]),
        ("sum inner [8192, 3072] f32", [">= 0.97x"]),
    ],
)
def test_goals_on_the_gpu(name: str, wanted: list[str]) -> None:
    goals = gpu_goals(case_named(name), {"eager": 1.0, "torch.compile": 1.2}, of_copy=1.0)
    assert [goal.wanted for goal in goals] == wanted


def test_a_read_is_the_measure_of_what_writes_little() -> None:
    reading = {case.kind.name for case in cases("cuda") if mostly_reads(case)}
    sums = {"sum inner", "sum outer", "sum all", "sums inner, outer and all"}
    assert reading == {"cross entropy forward", "cross entropy of pixels", *sums}


def some_rows() -> list[Row]:
    case, other = case_named("gelu [8192, 3072] f32"), case_named("softmax [8192, 768] bf16")
    found = {"eager": 2.5, "torch.compile": 1.5, "eager, as called": 4.0}
    goals = cpu_goals(case, found, 0.5)
    notes = ["Liger left out: ImportError: no triton"]
    row = Row(case.name, "f32", 201_326_592, 6e-3, 0.97, found, 5e-6, 1e-6, goals, notes)
    return [row, failed(other, "ValueError: no")]


def test_the_table_has_a_row_a_case() -> None:
    lines = row_table(some_rows(), CPU_COLUMNS).splitlines()
    assert lines[2].split()[-11:] == [
        "201", "6.00", "0.97", "2.50", "1.50", "4.00", "-", "5.0", "1e-06", "not", "met",
    ]  # fmt: skip
    assert lines[3].split()[-1] == "FAILED"
    assert lines[4] == "softmax [8192, 768] bf16: ValueError: no"
    assert "6000.0" in row_table(some_rows(), GPU_COLUMNS)


def test_what_is_missed_or_left_out_is_said() -> None:
    rows = some_rows()
    assert note_lines(rows) == "Liger left out: ImportError: no triton (gelu [8192, 3072] f32)"
    text = goal_lines(rows[0].goals)
    assert text.startswith("goals met: 1 of 2; 0 of those missed, a copy")
    assert text.endswith(">= 2x     1.50x   3.00x")


@pytest.mark.parametrize(("of_copy", "beyond"), [(0.7, 0), (0.8, 1)])
def test_what_a_copy_would_miss_as_well_is_counted(of_copy: float, beyond: int) -> None:
    found = {"eager": 2.5, "torch.compile": 1.5}
    goals = cpu_goals(case_named("gelu [8192, 3072] f32"), found, of_copy)
    assert f"; {beyond} of those missed" in goal_lines(goals)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    facts = {"processor": "x", "torch": "2", "date": "today", "commit": "c"}
    record = {"machine": facts, "rows": [asdict(row) for row in some_rows()]}
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps(record))
    draw(path)
    assert path.with_suffix(".png").stat().st_size > 1000


@pytest.mark.parametrize("failure", ["", "CUDA error"])
def test_there_is_no_picture_without_peers(
    failure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that had no time for them, or in which the first kernel broke the GPU."""
    pytest.importorskip("matplotlib")
    rows = [{**asdict(row), "ratios": {}, "failure": failure} for row in some_rows()]
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"machine": {}, "rows": rows}))
    draw(path)
    assert "has nothing beside fuser" in capsys.readouterr().out
