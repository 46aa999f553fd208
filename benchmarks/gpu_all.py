"""Everything that needs a GPU, in under 10 minutes; short tables come last.

    python benchmarks/gpu_all.py [--budget 540] [--results benchmarks/results]

Needs no installation: torch with CUDA, cuda-bindings, networkx, numpy, pytest and hypothesis are
enough; pytest-xdist makes the tests faster. Each stage has a limit of its own; the benchmarks get
what is left of the budget, and the stages before them no more than leaves `LEAST_FOR_BENCHMARKS`.
Everything is written into the folder of results as it comes, so that a run that is cut off has as
much as it did: the benchmarks' tables, `gpu-<date>-stages.txt` and, with all that was printed,
`gpu-<date>-log.txt`. The folder is also read from the environment variable RESULTS. Exits with
status 1 if anything fails, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from harness import RESULTS, ROOT, table, write

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
LEAST_FOR_BENCHMARKS = 270
LAST_CASE = 35
"""Seconds that the benchmarks may take to begin, for the case they started last, and to draw."""
LAST_WORDS = 15
"""Seconds in which pytest says what has failed until it was interrupted: it waits 10 for those of
its processes that do not end."""
WORKERS = 6
"""Processes for the tests: each compiles on a core of its own."""
NO_DEVICE = "Device not supported"
"""What the memory checker says where a virtual machine does not let it see the GPU."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and how many seconds it may take; in the `last_words` of them it is interrupted.
    Where its output has the words `excused`, it was left out. `paced` ones are told their time, and
    get all that is left."""

    name: str
    command: tuple[str, ...]
    seconds: float
    paced: bool = False
    excused: str = ""
    last_words: float = 0

    def within(self, seconds: float) -> Stage:
        """The same, with no more time than there is."""
        left = seconds if self.paced else seconds - LEAST_FOR_BENCHMARKS
        limit = min(self.seconds, left)
        pace = ("--budget", f"{max(limit - LAST_CASE, 0):.0f}") if self.paced else ()
        return replace(self, command=(*self.command, *pace), seconds=limit, paced=False)


def stages(results: Path, stem: str) -> list[Stage]:
    """The stages in order."""
    python = sys.executable
    shared = ("-n", str(WORKERS)) if is_installed("xdist") else ()
    # One whose kernel never ends: its process is ended, and xdist starts another.
    limit = ("--timeout", "60", "--timeout-method", "thread")
    limited = limit if is_installed("pytest_timeout") else ("-o", "faulthandler_timeout=60")
    tests = (python, "-m", "pytest", "-q", "-m", "gpu", *shared, *limited, *gpu_tests())
    found = [Stage("tests", tests, 150, last_words=LAST_WORDS)]
    found += [
        Stage(f"{name} repro", (python, f"repros/{script}.py", *ON_GPU), 40)
        for name, script in REPROS.items()
    ]
    checker = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if checker is not None:
        found.append(Stage("compute-sanitizer", checked(checker, python), 60, excused=NO_DEVICE))
    saved = ("--results", str(results), "--stem", stem)
    found.append(Stage("benchmarks", (python, "benchmarks/gpu.py", *saved), 500, paced=True))
    return found


def checked(checker: str, python: str) -> tuple[str, ...]:
    """A small gelu under the memory checker. Errors of the API are torch's own: it asks the driver
    for what an older one does not have."""
    gelu = (f"repros/{REPROS['gelu']}.py", "--size", "small", "--rounds", "0", *ON_GPU)
    return (checker, "--error-exitcode", "1", "--report-api-errors", "no", python, *gelu)


def gpu_tests() -> list[str]:
    """The files that mark a test: others may import what this machine does not have."""
    return [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.gpu" in path.read_text()
    ]


def run(stage: Stage, log: Path) -> list[str]:
    """Run a stage with its output shown, and added to the log; a row of the table."""
    if stage.seconds < FEWEST_SECONDS:
        return [stage.name, "-", "FAILED, no time left"]
    start = time.monotonic()
    with log.open("a") as kept:
        said: list[str] = []

        def say(text: str) -> None:
            print(text, end="", flush=True)
            said.append(text)
            kept.write(text)
            kept.flush()

        say(f"\n=== {stage.name}: {' '.join(stage.command)}\n")
        status = _output_of(stage, say)
    outcome = "passed" if status == 0 else f"FAILED, exit status {status}"
    if status is None:
        outcome = f"FAILED, not done after {stage.seconds:.0f} s"
    if status and stage.excused and stage.excused in "".join(said):
        outcome = f"left out: {stage.excused}"
    return [stage.name, f"{time.monotonic() - start:.0f} s", outcome]


def _output_of(stage: Stage, say: Callable[[str], None]) -> int | None:
    """Run a stage and `say` what it prints; its exit status, None if its time was up.

    It has a process group of its own, with which all that it started ends."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background, and inherited
        signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        stage.command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def end() -> None:
        if process.poll() is None:
            late.set()
            if stage.last_words:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(stage.last_words)
        _kill(process.pid)

    timer = threading.Timer(max(stage.seconds - stage.last_words, 0), end)
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            say(line)
        status = process.wait()
    finally:
        timer.cancel()
        _kill(process.pid)
    return None if late.is_set() else status


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of it has ended
        os.killpg(group, signal.SIGKILL)


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package it would be in
        return False


def problem() -> str | None:
    """Why nothing can run; None if it can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch.cuda.is_available() is False; does nvidia-smi show a device?"
    if not is_installed("cuda.bindings"):
        return "cuda-bindings is not installed"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="everything that needs a GPU")
    budget = "seconds for everything, once torch is imported"
    parser.add_argument("--budget", type=float, default=540, help=budget)
    asked = os.environ.get("RESULTS")
    parser.add_argument("--results", type=Path, default=Path(asked) if asked else RESULTS)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    end = time.monotonic() + given.budget
    found = problem()
    if found is not None:
        print(HELP.format(problem=found), file=sys.stderr)
        return 2
    results: Path = given.results.resolve()
    rows = run_all(results, f"gpu-{time.strftime('%Y-%m-%d')}", lambda: end - time.monotonic())
    return 1 if any("FAILED" in row[2] for row in rows) else 0


def _end(*_: object) -> None:
    """So that the stage at hand ends too."""
    sys.exit(1)


def run_all(results: Path, stem: str, left: Callable[[], float]) -> list[list[str]]:
    """Run the stages, and print what they came to; the rows of their table."""
    head = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    log, short = results / f"{stem}-log.txt", results / f"{stem}-short.txt"
    write(log, f"{head}\n")
    short.unlink(missing_ok=True)
    planned = stages(results, stem)
    rows: list[list[str]] = []
    if not any(stage.name == "compute-sanitizer" for stage in planned):
        rows.append(["compute-sanitizer", "-", "left out: not installed"])
    for stage in planned:
        rows.append(run(stage.within(left()), log))
        text = f"{head}\n\n{table(['stage', 'took', 'outcome'], rows)}\n"
        write(results / f"{stem}-stages.txt", text)
    print(f"\nwritten into {results}")
    if short.exists():
        print(f"\n{short.read_text()}")
    print(f"\n{head}\n\n{table(['stage', 'took', 'outcome'], rows)}")
    return rows


if __name__ == "__main__":
    sys.exit(main())
