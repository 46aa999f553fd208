"""This tree beside an earlier commit of it, kernel by kernel, on the processor.

    python benchmarks/before_after.py COMMIT [--only TEXT] [--rounds 21] [--no-save]

Both are loaded into one process and take turns with the same inputs, on two pinned threads. The
cases are those of `cases.py`, rows of lengths that models have, most of them no multiple of a
vector, rows of results that stay in the cache, and sums of short lines. A ratio is the median, over
the rounds, of the earlier commit's time over this tree's. Each has results in memory of its own,
which alone makes differences of up to a tenth where memory is what takes the time: what counts are
ratios that repeat.
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pinned

if __name__ == "__main__":
    pinned.restart()

from harness import OURS, ROOT, Call, alternate, machine, options, report

if TYPE_CHECKING:
    from case import Case

    from fuser import FusionDefinition

LENGTHS = (49, 63, 100, 128, 197, 256, 384, 512, 1000)
"""Windows and patches of images, and positions of short texts."""

ELEMENTS = 4_000_000
LINES = ((4096, 100), (4096, 197), (8192, 768), (65_536, 256))
"""Shorter lines than those of `cases.py`, which are summed as gradients of biases are."""

IN_CACHE = ((64, 768), (512, 768), (2048, 768), (300, 1000), (128, 4096))

HEAD = ("case", "dtype", "before, ms", "now, ms", "before / now")
CALLS = 3
"""Calls a round: short ones are measured together."""


def main() -> None:
    parser = options(__doc__, rounds=21)
    parser.add_argument("commit", help="what this tree is compared with")
    parser.add_argument("--only", default="", help="cases whose name contains this; not saved")
    given = parser.parse_args()
    facts = machine() | {"before": _commit(given.commit)}
    with tempfile.TemporaryDirectory() as directory:
        earlier = Path(directory) / "earlier"
        _git("worktree", "add", "--detach", str(earlier), given.commit)
        try:
            rows = compare(earlier, given.only, given.rounds)
        finally:
            _git("worktree", "remove", "--force", str(earlier))
    report("before-after-cpu", facts, HEAD, rows, keep=not (given.no_save or given.only))


def compare(earlier: Path, only: str, rounds: int) -> list[Sequence[str]]:
    """A row for each case; `earlier` is the root of the other tree."""
    before = [case for case in _cases(earlier) if only in str(case)]
    definitions = [_definition(case) for case in before]
    now = [case for case in _cases(ROOT) if only in str(case)]
    found: list[Sequence[str]] = []
    for number, (case, old) in enumerate(zip(now, definitions, strict=True)):
        print(f"{number + 1} of {len(now)}: {case}", file=sys.stderr)
        if old is None:
            continue
        inputs, new = case.inputs(), case.definition()
        calls: dict[str, Call] = {
            OURS: lambda new=new, inputs=inputs: [new.execute(inputs) for _ in range(CALLS)],
            "before": lambda old=old, inputs=inputs: [old.execute(inputs) for _ in range(CALLS)],
        }
        measured = alternate(calls, rounds)
        seconds = (measured[name].seconds / CALLS * 1e3 for name in ("before", OURS))
        ratio = f"{measured['before'].ratio:.2f}"
        found.append([case.name, case.dtype_name, *(f"{ms:.2f}" for ms in seconds), ratio])
    return found


def _definition(case: Case) -> FusionDefinition | None:
    """None where the earlier tree does not have what the case is made of."""
    try:
        return case.definition()
    except (AttributeError, TypeError, RuntimeError) as reason:
        print(f"left out: {case}: {reason}", file=sys.stderr)
        return None


def _cases(tree: Path) -> list[Case]:
    """The cases, as this tree has them, for the `fuser` of a tree. Names of modules are given back,
    so that the next tree's are loaded."""
    with_cases = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"harness", "pinned"}
    sys.path.insert(0, str(tree))
    importlib.invalidate_caches()
    fuser, cases, row, norm, case = map(
        _load, ("fuser", "cases", "row_cases", "norm_cases", "case")
    )
    sys.path.remove(str(tree))
    assert Path(fuser.__file__).is_relative_to(tree), "another fuser is loaded first"
    for name in list(sys.modules):
        if name.partition(".")[0] == "fuser" or name in with_cases:
            del sys.modules[name]
    shapes = [*((math.ceil(ELEMENTS / length), length) for length in LENGTHS), *IN_CACHE]
    others = ((row.SOFTMAX, shapes), (norm.LAYERNORM, shapes), (row.SUM_OUTER, LINES))
    return [
        *cases.cases("cpu"),
        *(
            case.Case(kind, shape, dtype, "cpu")
            for kind, own in others
            for shape in own
            for dtype in case.DTYPES
        ),
    ]


def _load(name: str) -> Any:
    return importlib.import_module(name)


def _commit(name: str) -> str:
    return _git("rev-parse", "--short", name).strip()


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout


if __name__ == "__main__":
    main()
