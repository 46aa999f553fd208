"""Random inputs of a test are its own: what runs or is imported before it changes none."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
DRAWN = torch.rand(4)
IMPORTED = """
import importlib, sys
import pytest
sys.modules.update(dict.fromkeys(("transformers", "thunder", "matplotlib")))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except pytest.skip.Exception:
        pass
"""


@pytest.mark.parametrize("place", ["module", "test"])
def test_inputs_depend_on_the_name_and_on_the_seed(
    place: str, request: pytest.FixtureRequest
) -> None:
    name, found = request.node.nodeid, torch.rand(4)
    if place == "module":
        name, found = name.partition("::")[0], DRAWN
    seed = zlib.crc32(name.encode()) + request.config.getoption("--seed")
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(seed)))


def test_tests_are_found_without_optional_packages() -> None:
    """A machine with a GPU has what `benchmarks/gpu_all.py` lists, and `pytest -m gpu` runs there:
    one module that could not be imported would keep all others from running."""
    modules = [path.relative_to(ROOT).with_suffix("").parts for path in TESTS.rglob("test_*.py")]
    run = subprocess.run(
        (sys.executable, "-c", IMPORTED, *(".".join(parts) for parts in modules)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_tests_run_without_the_cache_of_pytest() -> None:
    """A checkout that nobody writes to."""
    command = (sys.executable, "-m", "pytest", "-q", "--co", "-p", "no:cacheprovider", "tests/gpu")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
