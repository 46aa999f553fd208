"""Benchmarks that go on in a new process where one ends before its time."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest
from cases import cases
from gpu_log import Log
from gpu_steps import GPU, Found, Step, carry_out
from harness import OURS, Measured
from report import COPY
from restarts import Progress, supervised

ROOT = Path(__file__).parents[1]
CHILD = """
import os, signal, sys, time
from pathlib import Path
from restarts import BROKEN, Progress
path, said = map(Path, sys.argv[1:3])
progress = Progress.read(path)
for name in "abcde":
    if name in progress.known or ("step", name) in progress.ended:
        continue
    progress.at = "step", name
    progress.write(path)
    if name == "b":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "c":
        time.sleep(60)
    progress.known[name] = {"error": 0.5}
    progress.at = "", ""
    progress.write(path)
    if name == "d":
        sys.exit(BROKEN)
said.write_text(f"{sorted(progress.known)} {progress.ended}")
sys.exit(3)
"""


def test_what_ends_a_process_is_left_out_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    places = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    monkeypatch.setenv("PYTHONPATH", places)
    path, said = tmp_path / "progress", tmp_path / "said"
    command = sys.executable, "-c", CHILD, str(path), str(said)
    assert supervised(lambda _: command, path, 200.0, longest=15.0) == 3
    found = said.read_text()
    assert found.startswith("['a', 'd', 'e'] ")
    assert "('step', 'b'): 'ended by signal 11'" in found
    assert "('step', 'c'): 'not done after 15 s'" in found
    assert "step b: ended by signal 11" in capfd.readouterr().err
    assert not path.exists()


def test_a_process_goes_on_from_what_others_found(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    first, second, third = (Found(case) for case in cases("cuda")[:3])
    figures = {OURS: Measured(1e-5, 1.0), COPY: Measured(1e-5, 0.96)}
    step = Step(
        "own", 0.0, lambda each: dataclasses.replace(each, measured=figures), lambda _: True
    )
    found = {"first": first}
    log = Log.of(path)
    carry_out(log.begun(step), found, ["first"], lambda: 1.0, lambda each: None)
    log.progress.known[str(first.case)] = found["first"].facts
    log.begin("own", str(second.case))

    progress = Progress.read(path)
    progress.ended[progress.at] = "ended by signal 11"
    progress.ended["peers", str(first.case)] = "not done after 100 s"
    progress.write(path)

    log = Log.of(path)
    first, second, third = map(log.known, (first, second, third))
    assert first.row(GPU).of_copy == 0.96
    assert first.notes == ["peers left out: not done after 100 s"]
    assert second.row(GPU).failure == "ended by signal 11"
    assert not third.done
    again = {"first": first, "second": second, "third": third}
    kept: list[Found] = []
    carry_out(step, again, list(again), lambda: 1.0, kept.append)
    assert [each.case for each in kept] == [third.case]
