"""Everything that needs a GPU, in under 10 minutes; a table of what passed comes last.

    python benchmarks/gpu_all.py [--budget 570] [--results benchmarks/results]

Needs no installation: torch with CUDA, cuda-bindings, networkx, numpy, pytest and hypothesis are
enough. Each stage has a limit of its own, and none gets more than is left of the budget; the
benchmarks stop starting cases in time. Exits with status 1 if anything fails, 2 where there is no
GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from harness import RESULTS, ROOT, table

HELP = """\
make gpu needs an NVIDIA GPU that torch can use, and there is none:
  {problem}
On a machine with one, install a CUDA build of torch (pip install torch), then:
  pip install 'cuda-bindings>=13,<14' networkx numpy pytest hypothesis
Without a GPU, `make test` runs the same CUDA kernels through the emulator."""


REPROS = {
    "gelu": "gelu_bookend_views",
    "transpose": "transpose_bookend_views",
    "cross entropy": "cross_entropy",
    "gather to slice": "gather_to_slice",
    "dropout + layernorm": "dropout_layernorm",
    "view chains": "view_chain_segments",
}
ON_GPU = ("--device", "cuda")
FEWEST_SECONDS = 5
LAST_CASE = 60
"""Seconds that the benchmarks may take after the last case was started, and to write."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and how many seconds it may take; `paced` ones are told how many."""

    name: str
    command: tuple[str, ...]
    seconds: float
    paced: bool = False

    def within(self, seconds: float) -> Stage:
        """The same, with no more time than there is."""
        limit = min(self.seconds, seconds)
        pace = ("--budget", f"{max(limit - LAST_CASE, 0):.0f}") if self.paced else ()
        return Stage(self.name, (*self.command, *pace), limit)


def stages(results: Path) -> list[Stage]:
    """The stages in order."""
    python = sys.executable
    found = [Stage("tests", (python, "-m", "pytest", "-q", "-m", "gpu", *gpu_tests()), 180)]
    found += [
        Stage(f"{name} repro", (python, f"repros/{script}.py", *ON_GPU), 60)
        for name, script in REPROS.items()
    ]
    saved = ("--results", str(results))
    found.append(Stage("benchmarks", (python, "benchmarks/gpu.py", *saved), 330, paced=True))
    checker = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if checker is not None:
        small = ("--size", "small", "--rounds", "0", *ON_GPU)
        gelu = (python, f"repros/{REPROS['gelu']}.py", *small)
        found.append(Stage("compute-sanitizer", (checker, "--error-exitcode", "1", *gelu), 90))
    return found


def gpu_tests() -> list[str]:
    """The files that mark a test: others may import what this machine does not have."""
    return [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.gpu" in path.read_text()
    ]


def run(stage: Stage) -> list[str]:
    """Run a stage with its output shown; a row of the table."""
    if stage.seconds < FEWEST_SECONDS:
        return [stage.name, "-", "FAILED, no time left"]
    print(f"\n=== {stage.name}: {' '.join(stage.command)}", flush=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    start = time.monotonic()
    try:
        done = subprocess.run(
            stage.command, cwd=ROOT, env=environment, timeout=stage.seconds, check=False
        )
        outcome = "passed" if done.returncode == 0 else f"FAILED, exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        outcome = f"FAILED, not done after {stage.seconds:.0f} s"
    return [stage.name, f"{time.monotonic() - start:.0f} s", outcome]


def problem() -> str | None:
    """Why nothing can run; None if it can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch.cuda.is_available() is False; does nvidia-smi show a device?"
    if importlib.util.find_spec("cuda.bindings") is None:
        return "cuda-bindings is not installed"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="everything that needs a GPU")
    parser.add_argument("--budget", type=float, default=570, help="seconds for everything")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    end = time.monotonic() + given.budget
    found = problem()
    if found is not None:
        print(HELP.format(problem=found), file=sys.stderr)
        return 2
    rows = [run(stage.within(end - time.monotonic())) for stage in stages(given.results)]
    if not any(row[0] == "compute-sanitizer" for row in rows):
        rows.append(["compute-sanitizer", "-", "not installed, left out"])
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print(table(["stage", "took", "outcome"], rows))
    return 1 if any("FAILED" in row[2] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
