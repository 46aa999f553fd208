"""Tests after one whose kernel has broken the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest
from tests import broken_device
from tests.broken_device import pytest_runtest_protocol

def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a device")

@pytest.fixture
def breaks(monkeypatch):
    broken_device.is_broken = lambda: True
"""
TESTS = """
import pytest
pytestmark = pytest.mark.gpu
def test_before(): pass
def test_breaking(breaks): assert 0, "illegal address"
def test_after(): pass
"""


def outcome(folder: Path, *options: str) -> str:
    """What pytest says of three tests, of which the second breaks the device."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_three.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "-rA", ".")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for ours in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(ours, None)
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return run.stdout + run.stderr


def test_another_process_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    said = outcome(tmp_path, "-n", "1")
    assert "illegal address" in said
    assert "PASSED test_three.py::test_before" in said
    assert "PASSED test_three.py::test_after" in said


def test_without_other_processes_none_goes_on(tmp_path: Path) -> None:
    said = outcome(tmp_path, "-p", "no:xdist")
    assert "illegal address" in said
    assert "test_three.py::test_breaking broke the device" in said
    assert "test_three.py::test_after" not in said
