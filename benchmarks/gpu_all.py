"""Everything that needs a GPU, in under 8 minutes; a table of what passed comes last.

Needs no installation: torch with CUDA, cuda-bindings and pytest are enough. Exits with status 1
if anything fails, 2 where there is no GPU.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import torch
from harness import ROOT, table

HELP = """\
make gpu needs an NVIDIA GPU that torch can use, and there is none:
  {problem}
On a machine with one, install a CUDA build of torch (pip install torch), then:
  pip install 'cuda-bindings>=13,<14' pytest
Without a GPU, `make test` runs the same CUDA kernels through the emulator."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and how many seconds it may take."""

    name: str
    command: tuple[str, ...]
    seconds: int


def stages() -> list[Stage]:
    """The stages in order."""
    gelu, transpose = "repros/gelu_bookend_views.py", "repros/transpose_bookend_views.py"
    on_gpu = ("--device", "cuda")
    found = [
        Stage("tests", (sys.executable, "-m", "pytest", "-m", "gpu", *gpu_tests()), 180),
        Stage("gelu repro", (sys.executable, gelu, *on_gpu), 60),
        Stage("transpose repro", (sys.executable, transpose, *on_gpu), 60),
    ]
    checker = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if checker is not None:
        small = ("--size", "small", "--rounds", "0", *on_gpu)
        checked = (checker, "--error-exitcode", "1", sys.executable, gelu, *small)
        found.append(Stage("compute-sanitizer", checked, 90))
    found.append(Stage("benchmarks", (sys.executable, "benchmarks/gpu.py"), 200))
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
        outcome = f"FAILED, not done after {stage.seconds} s"
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
    found = problem()
    if found is not None:
        print(HELP.format(problem=found), file=sys.stderr)
        return 2
    rows = [run(stage) for stage in stages()]
    if not any(row[0] == "compute-sanitizer" for row in rows):
        rows.append(["compute-sanitizer", "-", "not installed, left out"])
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print(table(["stage", "took", "outcome"], rows))
    return 1 if any("FAILED" in row[2] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
