"""A call whose arithmetic takes no time, beside the peers', and the first call in a process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cases import SMALL_GELU
from checks import bound, check_ours, working
from harness import OURS, ROOT, Call, Measured, alternate, table
from report import COMPILED, COPY, EAGER
from torch_calls import compiled

CALLS = 2000


def measure_small(rounds: int) -> tuple[str, dict[str, Measured]]:
    """What a call costs beside its arithmetic."""
    case = SMALL_GELU
    inputs = case.inputs()
    exact = case.exact(inputs)
    fd = case.definition()
    errors = {OURS: check_ours(case, fd.execute(inputs), exact)}
    peers = {f"{EAGER}: {name}": bound(peer, inputs) for name, peer in case.kind.eager.items()}
    peers[COMPILED] = bound(compiled(case.kind.written), inputs)
    kept, found, _ = working(peers, exact)
    candidates = {OURS: lambda: fd.execute(inputs), **kept, COPY: inputs[0].clone}
    measured = alternate(candidates, rounds, clock=_average_of_many)
    errors |= found
    rows = [
        [
            name,
            f"{m.seconds * 1e6:.2f}",
            f"{m.ratio:.2f}",
            f"{errors[name]:.0e}" if name in errors else "-",
        ]
        for name, m in measured.items()
    ]
    head = ["", "us a call", "x fuser", "error"]
    return f"{case}, executed warm\n\n{table(head, rows)}", measured


def _average_of_many(call: Call) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def measure_first_calls() -> tuple[str, dict[str, float]]:
    """Fresh processes, with empty caches and with those that the same process filled; medians."""
    repeats = {"fuser": 7, "cubin": 7, "torch.compile": 3}
    words = {
        "fuser": "fuser: definition to result",
        "cubin": "fuser: definition to CUDA cubin, sm_90",
        "torch.compile": "torch.compile: function to result",
    }
    found: dict[str, float] = {}
    rows: list[list[str]] = []
    for name, count in repeats.items():
        pairs = [_first_calls(name) for _ in range(count)]
        cold, warm = (statistics.median(times) for times in zip(*pairs, strict=True))
        found |= {name: cold, f"{name}, warm": warm}
        rows.append([words[name], f"{cold:.3f}", f"{warm:.3f}", str(count)])
    head = ["", "s, cold disk cache", "s, warm", "runs"]
    return f"first call of a gelu, fresh processes\n\n{table(head, rows)}", found


def _first_calls(name: str) -> tuple[float, float]:
    """Seconds of the first call in a process with an empty cache, and in one after it."""
    with tempfile.TemporaryDirectory() as empty:
        return _first_call(name, empty), _first_call(name, empty)


def _first_call(name: str, cache: str) -> float:
    caches = {"FUSER_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("first_call.py")), name],
        env={**os.environ, **caches, "FUSER_CACHE": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"first call of {name} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])
