"""The benchmarks for the GPU, as far as they run without one: order, time, waits and files."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import gpu
import gpu_all
import gpu_steps
import pytest
from case import Case
from cases import by_importance, cases
from gpu_steps import DRY, GPU, Found, Step, carry_out
from harness import OURS, Call, Measured
from report import COMPILED, COPY, EAGER, gpu_goals, is_near_goal, short_table
from rotation import LEAST_WAIT, MOST_WAIT, Waits
from torch_calls import LONGEST_WAIT, Timed


def case_of(name: str) -> Case:
    return next(case for case in cases("cuda") if str(case) == name)


def dry(only: str = "gelu", budget: float = 60, results: Path = Path()) -> gpu.Options:
    return gpu.Options(1, budget, results, "gpu-now", only, dry_run=True, no_save=True)


def measured_dry(given: gpu.Options) -> gpu.Report:
    return gpu.measure_all(given, DRY, lambda _: None)


# -- a dry run -----------------------------------------------------------------------------------


def test_a_dry_run_measures_each_kind_once() -> None:
    report = measured_dry(dry())
    assert [row.case for row in report.rows] == ["gelu [8, 48]"] * 2 + ["bias + gelu [8, 48]"] * 2
    assert all(row.of_copy and EAGER in row.ratios and not row.failure for row in report.rows)
    assert "these times mean nothing" in report.text()
    assert report.record()["goals"] == []
    short = report.short().splitlines()
    columns = "us of copy x eager x compile goals"
    assert " ".join(short[0].split()) == f"case f32 {columns} bf16 {columns}"
    assert [line.partition(" [")[0] for line in short[2:]] == ["gelu", "bias + gelu"]


def test_no_case_is_started_after_the_budget() -> None:
    report = measured_dry(dry(budget=-1.0))
    assert report.rows == []
    assert "no time for fuser and a copy: gelu [8, 48] f32, gelu [8, 48] bf16," in report.text()
    assert "no time for fuser and a copy: 4 cases" in report.short()


def test_a_case_that_fails_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise ValueError("of no use\nat all")

    monkeypatch.setattr(gpu_steps, "check_ours", refuse)
    report = measured_dry(dry(only="permute"))
    assert [row.verdict for row in report.rows] == ["FAILED", "FAILED"]
    assert "permute [24, 8, 4] f32: ValueError: of no use\n" in report.text()


def test_a_kernel_that_breaks_the_device_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After an address out of range, all that is asked of the device fails."""

    def refuse(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu_steps, "_own", refuse)
    monkeypatch.setattr(gpu_steps.torch.cuda, "empty_cache", refuse)
    found = gpu_steps.measure_own(Found(case_of("sum all [8192, 3072] f32")), GPU, 1)
    assert "illegal memory access" in found.row(GPU).failure


def test_a_peer_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object, **__: object) -> object:
        raise RuntimeError("no memory\nfor it")

    monkeypatch.setattr(gpu_steps, "working", no_memory)
    report = measured_dry(dry(only="permute"))
    assert not any(row.failure for row in report.rows)
    assert "contiguous left out: RuntimeError: no memory (permute" in report.text()


def test_files_are_written_after_each_case(tmp_path: Path) -> None:
    given = dataclasses.replace(dry("", results=tmp_path), dry_run=False, no_save=False)
    assert given.is_kept
    seen: list[tuple[str, str]] = []

    def keep(report: gpu.Report) -> None:
        gpu.keep_files(given, report)
        record = json.loads((tmp_path / "gpu-now.json").read_text())
        seen.append((record["unfinished"], (tmp_path / "gpu-now-short.txt").read_text()))

    report = gpu.measure_all(dry("permute"), DRY, keep)
    gpu.keep_files(given, report)
    first, table = seen[0]
    assert first == "fuser and a copy, after permute [24, 8, 4] f32"
    assert table.count("permute [24, 8, 4]") == 2  # a row, and where it was cut off
    assert len(seen) == 2 * 2  # two dtypes: fuser, then its peers
    assert "cut off" not in (tmp_path / "gpu-now.txt").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {
        *("gpu-now.txt", "gpu-now.json", "gpu-now-short.txt")
    }


def test_the_short_table_fits_the_end_of_a_log() -> None:
    figures = {OURS: Measured(1e-3, 1.0), COPY: Measured(1e-3, 1.0)}
    rows = [Found(case, measured=figures).row(GPU) for case in cases("cuda")]
    rows[0] = dataclasses.replace(rows[0], failure="why")
    text = short_table(rows)
    assert len(text) < 10_000
    first = text.splitlines()[2].split()
    assert first[2:] == ["3072]", *"----", "FAILED", "1000.0", "1.00", "-", "-", "met"]


# -- steps ---------------------------------------------------------------------------------------


class Clock:
    """Time that passes as it is told."""

    def __init__(self, left: float) -> None:
        self.left = left

    def passing(self, seconds: float) -> Callable[[Found], Found]:
        def measure(found: Found) -> Found:
            self.left -= seconds
            return dataclasses.replace(found, error=seconds)

        return measure


def carried_out(clock: Clock, guess: float, takes: float) -> tuple[list[str], list[str]]:
    """The cases that were measured, and those there was no time for."""
    found = {str(case): Found(case) for case in cases("cuda")[:6]}
    kept: list[str] = []
    step = Step("step", guess, clock.passing(takes), lambda _: True)
    missing = carry_out(
        step, found, list(found), lambda: clock.left, lambda each: kept.append(str(each.case))
    )
    assert [name for name, each in found.items() if each.error] == kept
    return kept, missing


def test_cases_are_measured_while_there_is_time_for_one_more() -> None:
    names = [str(case) for case in cases("cuda")[:6]]
    assert carried_out(Clock(100), 5, 10) == (names, [])
    assert carried_out(Clock(35), 5, 10) == (names[:3], names[3:])  # 5 are left: too few for 10
    assert carried_out(Clock(4), 5, 10) == ([], names)
    assert carried_out(Clock(-1), 0, 10) == ([], names)


def test_cases_that_a_step_does_not_want_are_not_missing() -> None:
    found = {str(case): Found(case) for case in cases("cuda")[:3]}
    step = Step("step", 1, Clock(0).passing(1), lambda _: False)
    assert carry_out(step, found, list(found), lambda: 0.0, lambda _: None) == []


def test_long_rows_are_measured_first_then_what_has_a_goal_beside_a_copy() -> None:
    ordered = [str(case) for case in by_importance(cases("cuda"))]
    assert sorted(ordered) == sorted(str(case) for case in cases("cuda"))
    place = ordered.index
    for long in ("softmax [2048, 131072]", "layernorm [8192, 4096]"):
        assert place(f"{long} bf16") < place("gelu [8192, 3072] f32")
    assert place("cross entropy forward [4096, 128256] f32") < place("softmax [8192, 768] f32")
    assert place("gelu [8192, 3072] f32") < place("sum all [8192, 3072] f32")


def measured(**ratios: float) -> dict[str, Measured]:
    names = {"eager": f"{EAGER}: eager", "compiled": f"{COMPILED}: default"}
    return {names[name]: Measured(1e-5, ratio) for name, ratio in ratios.items()}


def test_only_what_is_near_its_goal_is_autotuned() -> None:
    *_, compiled, autotuned = gpu_steps.steps(GPU, rounds=15)
    done = Found(
        case_of("softmax [4096, 32768] f32"), fd=case_of("gelu [8192, 3072] f32").definition()
    )
    assert not compiled.wanted(Found(done.case, failure="why"))
    assert compiled.wanted(done)
    for ratios, wanted in (
        (measured(), False),
        (measured(eager=2.0, compiled=1.35), True),
        (measured(eager=1.2), False),
        (measured(eager=2.0, compiled=1.5), False),
        (measured(eager=1.35, compiled=0.9), False),
    ):
        assert autotuned.wanted(dataclasses.replace(done, measured=ratios)) == wanted


def test_goals_are_near_within_a_tenth() -> None:
    short = case_of("softmax [8192, 768] f32")
    assert is_near_goal(short, {EAGER: 3.0, COMPILED: 1.0})
    assert not is_near_goal(short, {EAGER: 1.2, COMPILED: 1.1})
    assert not is_near_goal(short, {})


def test_a_goal_beside_peers_waits_for_torch_compile() -> None:
    case = case_of("softmax [4096, 32768] f32")
    assert [goal.wanted for goal in gpu_goals(case, {EAGER: 2.0}, 0.96)] == [">= 0.95x"]
    found = {EAGER: 2.0, COMPILED: 1.2}
    assert [goal.met for goal in gpu_goals(case, found, 0.96)] == [False, True]


def test_a_row_has_the_best_of_each_kind_of_peer() -> None:
    ways = {
        OURS: Measured(1e-5, 1.0),
        COPY: Measured(1e-5, 0.96),
        f"{COMPILED}: default": Measured(2e-5, 2.0),
        f"{COMPILED}: {gpu_steps.AUTOTUNED}": Measured(1.5e-5, 1.5),
        f"{EAGER}: eager": Measured(3e-5, 3.0),
    }
    row = Found(case_of("softmax [4096, 32768] f32"), measured=ways).row(GPU)
    assert row.ratios == {COMPILED: 1.5, EAGER: 3.0}
    assert [(goal.wanted, goal.met) for goal in row.goals] == [
        (">= 1.3x", True),
        (">= 0.95x", True),
    ]


# -- waits ---------------------------------------------------------------------------------------


def nothing() -> None:
    pass


def waits_for(hosts: list[float]) -> tuple[list[float], Waits]:
    """The waits behind which calls were timed that took the host so long."""
    waited: list[float] = []

    def timed(_: Call, wait: float) -> Timed:
        waited.append(wait)
        return Timed(gpu=1e-3, host=hosts.pop(0))

    waits = Waits(timed)
    while hosts:
        assert waits.seconds(nothing) == 1e-3
    return waited, waits


def test_a_wait_is_twice_what_the_host_took() -> None:
    waited, waits = waits_for([1e-3, 2e-3, 1e-6, 1e-4])
    assert waited == [LONGEST_WAIT, 2e-3, 4e-3, LEAST_WAIT]
    assert waits.host_seconds(nothing) == pytest.approx(5.5e-4)
    assert waits.host_seconds(print) == 0.0


def test_what_the_wait_did_not_hide_is_timed_once_more() -> None:
    waited, _ = waits_for([5.0, 1e-3, 3e-3, 1e-3])
    assert waited == [LONGEST_WAIT, MOST_WAIT, 2e-3, 6e-3]
    waited, _ = waits_for([1.0, 1.0])  # a call that waits for the GPU
    assert waited == [LONGEST_WAIT, MOST_WAIT]


# -- all stages ----------------------------------------------------------------------------------


def test_stages_get_no_more_than_is_left() -> None:
    paced = gpu_all.Stage("benchmarks", ("python",), 330, paced=True)
    assert paced.within(1000) == gpu_all.Stage("benchmarks", ("python", "--budget", "295"), 330)
    assert paced.within(100).command == ("python", "--budget", "65")
    tests = gpu_all.Stage("tests", ("python",), 150)
    assert tests.within(570).seconds == 150
    assert tests.within(300).seconds == 30  # the benchmarks have the others


def test_a_stage_without_time_is_not_started(tmp_path: Path) -> None:
    tests = gpu_all.Stage("tests", ("python",), 150).within(100)
    assert gpu_all.run(tests, tmp_path / "log") == ["tests", "-", "FAILED, no time left"]


def python_stage(code: str, seconds: float = 60, excused: str = "") -> gpu_all.Stage:
    return gpu_all.Stage("stage", (sys.executable, "-c", code), seconds, excused=excused)


def test_outcomes_of_stages(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _, _, passed = gpu_all.run(python_stage("print('all well')"), log)
    assert passed == "passed"
    failing = "import sys; print('Device not supported', file=sys.stderr); sys.exit(3)"
    assert gpu_all.run(python_stage(failing), log)[2] == "FAILED, exit status 3"
    excused = python_stage(failing, excused=gpu_all.NO_DEVICE)
    assert gpu_all.run(excused, log)[2] == "left out: Device not supported"
    text = log.read_text()
    assert "all well\n" in text
    assert text.count("\nDevice not supported\n") == 2


def test_a_stage_whose_time_is_up_ends_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_all, "FEWEST_SECONDS", 0)
    child = "import subprocess, sys; print('begun', flush=True); "
    child += "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    stage = python_stage(child, seconds=1)
    assert gpu_all.run(stage, tmp_path / "log")[2] == "FAILED, not done after 1 s"
    assert "begun\n" in (tmp_path / "log").read_text()


def test_a_stage_whose_time_is_up_says_what_it_has_to_say(tmp_path: Path) -> None:
    child = "import time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: print('2 failed')"
    stage = dataclasses.replace(python_stage(child, seconds=14), last_words=10)
    assert gpu_all.run(stage, tmp_path / "log")[2] == "FAILED, not done after 14 s"
    assert "\n2 failed\n" in (tmp_path / "log").read_text()


def test_the_stages_are_all_there() -> None:
    planned = gpu_all.stages(Path("folder"), "gpu-now")
    names = [stage.name for stage in planned]
    assert (names[0], names[-1]) == ("tests", "benchmarks")
    assert {"gelu repro", "cross entropy repro"} <= set(names)
    assert planned[-1].command[-4:] == ("--results", "folder", "--stem", "gpu-now")
    for stage in planned:
        scripts = [part for part in stage.command if part.endswith(".py")]
        assert all((gpu_all.ROOT / script).exists() for script in scripts)


def test_the_memory_checker_is_told_to_leave_errors_of_the_api() -> None:
    command = gpu_all.checked("compute-sanitizer", "python")
    assert command[:5] == (
        "compute-sanitizer",
        "--error-exitcode",
        "1",
        "--report-api-errors",
        "no",
    )


def test_short_tables_come_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "gpu-now-short.txt"
    code = f"from pathlib import Path; Path({str(short)!r}).write_text('rows of the table'); 1 / 0"
    monkeypatch.setattr(gpu_all, "stages", lambda *_: [python_stage("pass"), python_stage(code)])
    monkeypatch.setattr(gpu_all, "LEAST_FOR_BENCHMARKS", 0)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    rows = gpu_all.run_all(tmp_path, "gpu-now", lambda: 100.0)
    assert [row[2] for row in rows] == [
        *("left out: not installed", "passed", "FAILED, exit status 1")
    ]
    printed = capfd.readouterr().out
    assert printed.index("ZeroDivisionError") < printed.index("\nrows of the table")
    assert printed.index("\nrows of the table") < printed.index("\nstage  ")
    assert "FAILED, exit status 1" in (tmp_path / "gpu-now-stages.txt").read_text()
