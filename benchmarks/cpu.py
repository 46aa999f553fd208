"""fuser beside eager torch, torch.compile and a copy, on the processor.

    python benchmarks/cpu.py [--rounds 21] [--results benchmarks/results] [--no-save]

Large outputs cost more to page in than to compute: glibc gives a freed block above 32 MiB back to
the system, and the next output of that size faults in every page again. fuser keeps such outputs
in a pool. So that the comparison says how much of its advantage that is, there are two regimes:

- as called: everybody allocates its output as a user's call does.
- no page faults: every peer writes into a buffer made once, in huge pages as fuser's are; eager
  by `out=` and in-place operations, torch.compile by a function that ends in `out.copy_(...)`,
  which it compiles to one loop that writes to `out`. The faults that were counted are printed.

fuser is called in the same way in both. All candidates of both regimes alternate in one process
on two pinned threads; a ratio is the median, over the rounds, of a peer's time over fuser's.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PINNED = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "2"}
if __name__ == "__main__" and not PINNED.keys() <= os.environ.keys():
    # OpenMP reads them when it is loaded, so they have to be there before torch is.
    os.execve(sys.executable, [sys.executable, *sys.argv], PINNED | os.environ)

import torch
from cases import LARGE, SMALL_GELU, Case
from harness import (
    OURS,
    ROOT,
    Call,
    Goal,
    Measured,
    alternate,
    description,
    error,
    first,
    goal_table,
    machine,
    save,
    table,
)
from row_cases import ROWS

from fuser import FusionDefinition

AS_CALLED, REUSED = "as called", "no page faults"
HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14
SMALL_CALLS = 2000


def define(case: Case) -> FusionDefinition:
    with FusionDefinition() as fd:
        case.define(fd)
    return fd


# -- large tensors -------------------------------------------------------------------------------


def as_called(case: Case, inputs: list[torch.Tensor]) -> dict[str, Call]:
    """fuser, the peers, torch.compile and a copy; all allocate."""
    fd = define(case)
    candidates: dict[str, Call] = {OURS: lambda: fd.execute(inputs)}
    for name, peer in case.peers.items():
        candidates[name] = functools.partial(peer, *inputs)
    candidates["torch.compile"] = functools.partial(torch.compile(case.written), *inputs)
    candidates["copy"] = inputs[0].clone
    return candidates


def reused(case: Case, inputs: list[torch.Tensor]) -> dict[str, Call]:
    """The peers, torch.compile and a copy, each into a buffer that is there already."""
    like = case.written(*inputs)
    candidates: dict[str, Call] = {}
    for name, peer in case.into.items():
        buffers = huge_empty_like(like), huge_empty_like(like)
        candidates[name] = functools.partial(peer, *buffers, *inputs)

    def written_into(out: torch.Tensor, *given: torch.Tensor) -> None:
        out.copy_(case.written(*given))

    compiled, out = torch.compile(written_into), huge_empty_like(like)
    candidates["torch.compile"] = lambda: compiled(out, *inputs)
    target, source = huge_empty_like(inputs[0]), inputs[0]
    candidates["copy"] = lambda: target.copy_(source)
    return candidates


def huge_empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialized tensor, in huge pages where the system has them."""
    made = torch.empty_like(tensor)
    start = -(-made.data_ptr() // HUGE_PAGE) * HUGE_PAGE
    length = (made.data_ptr() + made.nbytes - start) // HUGE_PAGE * HUGE_PAGE
    if length > 0 and sys.platform == "linux":
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), ctypes.c_int(MADV_HUGEPAGE))
    return made


def measure(case: Case, rounds: int) -> tuple[str, dict[str, dict[str, Measured]]]:
    """The table of one case, and its figures by regime."""
    inputs = case.inputs("cpu")
    fresh, into = as_called(case, inputs), reused(case, inputs)
    errors = check(case, fresh, inputs)
    names = {f"{name} / reused": call for name, call in into.items()}
    all_measured = alternate({**fresh, **names}, rounds)
    regimes = {
        AS_CALLED: {name: all_measured[name] for name in fresh},
        REUSED: {OURS: all_measured[OURS]}
        | {name: all_measured[f"{name} / reused"] for name in into},
    }
    head = ["", "ms", "x fuser", "faults", "ms, reused", "x fuser", "faults", "largest error"]
    rows = [
        [
            name,
            *cells(regimes[AS_CALLED].get(name)),
            *cells(regimes[REUSED].get(name)),
            errors[name],
        ]
        for name in fresh
    ]
    return f"{case.name}\n\n{table(head, rows)}", regimes


def cells(measured: Measured | None) -> list[str]:
    if measured is None:
        return ["-", "-", "-"]
    return [f"{measured.seconds * 1e3:.2f}", f"{measured.ratio:.2f}", str(measured.faults)]


def check(case: Case, candidates: dict[str, Call], inputs: list[torch.Tensor]) -> dict[str, str]:
    """The error of every candidate. Exits with status 1 if fuser's is too large."""
    wide = (tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs)
    exact = case.exact(*wide)
    computing = {name: call for name, call in candidates.items() if name != "copy"}
    errors = {name: error(first(call()), exact) for name, call in computing.items()}
    if not errors[OURS] <= case.tolerance:
        sys.exit(f"WRONG: {case.name}: error {errors[OURS]:.2e} is above {case.tolerance:.2e}")
    return {name: f"{found:.1e}" for name, found in errors.items()} | {"copy": "-"}


# -- small tensors and first calls ---------------------------------------------------------------


def measure_small(rounds: int) -> tuple[str, dict[str, Measured]]:
    """What a call costs beside its arithmetic."""
    inputs = SMALL_GELU.inputs("cpu")
    candidates = as_called(SMALL_GELU, inputs)
    errors = check(SMALL_GELU, candidates, inputs)
    measured = alternate(candidates, rounds, clock=average_of_many)
    rows = [
        [name, f"{found.seconds * 1e6:.2f}", f"{found.ratio:.2f}", errors[name]]
        for name, found in measured.items()
    ]
    head = ["", "us a call", "x fuser", "largest error"]
    return f"{SMALL_GELU.name}, executed warm\n\n{table(head, rows)}", measured


def average_of_many(call: Call) -> float:
    start = time.perf_counter()
    for _ in range(SMALL_CALLS):
        call()
    return (time.perf_counter() - start) / SMALL_CALLS


def measure_first_calls() -> tuple[str, dict[str, float]]:
    """Fresh processes with empty caches; the medians."""
    repeats = {"fuser": 7, "cubin": 7, "torch.compile": 3}
    found = {
        name: statistics.median(first_call(name) for _ in range(count))
        for name, count in repeats.items()
    }
    words = {
        "fuser": "fuser: definition to result",
        "cubin": "fuser: definition to CUDA cubin, sm_90",
        "torch.compile": "torch.compile: function to result",
    }
    rows = [[words[name], f"{taken:.3f}", str(repeats[name])] for name, taken in found.items()]
    return f"first call of a gelu, cold caches\n\n{table(['', 's', 'runs'], rows)}", found


def first_call(name: str) -> float:
    with tempfile.TemporaryDirectory() as empty:
        caches = {"XDG_CACHE_HOME": empty, "TORCHINDUCTOR_CACHE_DIR": empty}
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("first_call.py")), name],
            env={**os.environ, **caches, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        sys.exit(f"first call of {name} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


# -- the report ----------------------------------------------------------------------------------


def ratio_goals(case: Case, regimes: dict[str, dict[str, Measured]]) -> list[Goal]:
    goals: list[Goal] = []
    for (regime, peer), wanted in case.goals.items():
        measured = regimes[regime][peer].ratio
        words = f"{case.name.partition(' [')[0]}, {regime}, against {peer}"
        goals.append(Goal(words, f">= {wanted:g}x", f"{measured:.2f}x", measured >= wanted))
    return goals


def fault_goals(case: Case, regimes: dict[str, dict[str, Measured]]) -> list[Goal]:
    """Whether the regime is what its name says."""
    most = max(measured.faults for measured in regimes[REUSED].values())
    words = f"{case.name.partition(' [')[0]}: page faults a call where there should be none"
    return [Goal(words, "< 100", str(most), most < 100)]


def limit(words: str, measured: float, most: float, unit: str) -> Goal:
    return Goal(words, f"< {most:g} {unit}", f"{measured:.3g} {unit}", measured < most)


def main() -> None:
    parser = argparse.ArgumentParser(description="fuser beside its peers, on the processor")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--no-save", action="store_true", help="print only")
    given = parser.parse_args()
    facts = machine()
    parts: list[str] = []
    record: dict[str, object] = {"machine": facts}
    goals: list[Goal] = []

    def note(name: str, text: str, figures: object) -> None:
        parts.append(text)
        record[name] = figures
        print(text + "\n", flush=True)

    note("machine", description(facts), facts)
    wanted = [case for case in (*LARGE, *ROWS) if given.only in case.name]
    for case in wanted:
        text, regimes = measure(case, given.rounds)
        note(case.name, text, regimes)
        goals += [*ratio_goals(case, regimes), *fault_goals(case, regimes)]
    text, small = measure_small(given.rounds)
    note(SMALL_GELU.name, text, small)
    goals.append(limit("warm execute of 64 elements", small[OURS].seconds * 1e6, 10, "us"))
    text, firsts = measure_first_calls()
    note("first call", text, firsts)
    goals.append(limit("first call, definition to result", firsts["fuser"], 0.25, "s"))
    goals.append(limit("first call, definition to cubin", firsts["cubin"], 0.3, "s"))
    note("goals", goal_table(goals), goals)
    if not given.no_save:
        save(given.results, f"cpu-{facts['date']}", "\n\n".join(parts) + "\n", record)


if __name__ == "__main__":
    main()
