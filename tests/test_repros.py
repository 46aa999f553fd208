"""The repro scripts run, say what they ran, and fail where the answer is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repros.common import check

ROOT = Path(__file__).parent.parent
SCRIPTS = ("gelu_bookend_views.py", "transpose_bookend_views.py")


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "repros" / script), "--device", "cpu", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_one_kernel_that_is_right(script: str, target: str) -> None:
    done = run(script, "--size", "small", "--target", target, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "total: 1 kernel(s), 1 alias(es), 0 torch call(s)" in done.stdout
    assert "checked" in done.stdout
    assert "eager" in done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_size_that_does_not_fit_is_refused(script: str) -> None:
    done = run(script, "--size", "100")
    assert done.returncode == 2
    assert "multiple of 128" in done.stderr


def test_a_wrong_answer_ends_with_status_1() -> None:
    right = torch.ones(4, 4)
    with pytest.raises(SystemExit, match="WRONG: output 0 is not"):
        check([right + 1], [right])
    with pytest.raises(SystemExit, match="strides"):
        check([right], [right.t()])
    with pytest.raises(SystemExit, match="torch gives 1"):
        check([], [right])
