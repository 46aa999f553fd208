"""The table: a row a case, the same for both devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from case import Case
from harness import Goal, Measured, table

EAGER, COMPILED, LIGER = "eager", "torch.compile", "Liger"
CALLED = ", as called"
COPY = "copy"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a case. Ratios are a peer's time over fuser's.

    `of_copy` is the time of moving the same bytes by a copy, or of reading them where little is
    written, over fuser's time. `failure` says why there are no figures.
    """

    case: str
    dtype: str
    moved: int
    seconds: float = 0.0
    of_copy: float = 0.0
    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    host_seconds: float = 0.0
    error: float = 0.0
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()
    failure: str = ""

    @property
    def verdict(self) -> str:
        if self.failure:
            return "FAILED"
        if not self.goals:
            return "-"
        return "met" if all(goal.met for goal in self.goals) else "not met"


def failed(case: Case, failure: str) -> Row:
    return Row(case.name, case.dtype_name, sum(case.least_bytes()), failure=failure)


def mostly_reads(case: Case) -> bool:
    """Whether a read is the measure, not a copy."""
    read, written = case.least_bytes()
    return written * 10 < read


def better(measured: Mapping[str, Measured], kind: str) -> float | None:
    """The ratio of the fastest way of a kind: of `eager: F.gelu` and `eager: in place`, say."""
    found = [
        m.ratio for name, m in measured.items() if name == kind or name.startswith(f"{kind}: ")
    ]
    return min(found, default=None)


def ratios(
    measured: Mapping[str, Measured], kinds: Sequence[str], suffix: str = ""
) -> dict[str, float]:
    """The ratio of each kind of peer that was measured."""
    found = {kind + suffix: better(measured, kind) for kind in kinds}
    return {kind: ratio for kind, ratio in found.items() if ratio is not None}


# -- goals ---------------------------------------------------------------------------------------


def at_least(
    words: str, wanted: float, measured: float | None, of_copy: float | None = None
) -> list[Goal]:
    """A goal for a ratio, which `of_copy` times as fast as a copy gave, if that is known; none for
    one that was not measured."""
    if measured is None:
        return []
    goal = Goal(words, f">= {wanted:g}x", f"{measured:.2f}x", measured >= wanted)
    if of_copy:
        copied = measured / of_copy
        goal = replace(goal, copied=f"{copied:.2f}x", copy_meets=copied >= wanted)
    return [goal]


def least(found: Mapping[str, float], *names: str) -> float | None:
    return min((found[name] for name in names if name in found), default=None)


def cpu_goals(case: Case, found: Mapping[str, float], of_copy: float) -> list[Goal]:
    """Against the better peer where nobody page-faults, and against each as called."""
    asked = case.kind.goals
    words = f"{case}, no page faults, against the better of eager and torch.compile"
    goals = at_least(words, asked.cpu, least(found, EAGER, COMPILED), of_copy)
    for (dtype, peer), wanted in asked.called.items():
        if dtype is case.dtype:
            goals += at_least(
                f"{case}, as called, against {peer}", wanted, found.get(peer + CALLED)
            )
    return goals


NEAR = 0.1


def wanted_of_peers(case: Case) -> float:
    """The least ratio of the better of eager and torch.compile, on the GPU."""
    return 1.3 if case.has_long_rows else 0.97


def best_peer(found: Mapping[str, float]) -> float | None:
    """The ratio of the better of eager and torch.compile; None while the latter is not measured."""
    return least(found, EAGER, COMPILED) if COMPILED in found else None


def is_near_goal(case: Case, found: Mapping[str, float]) -> bool:
    """Whether a better way of torch.compile might decide if the goal beside peers is met."""
    measured = best_peer(found)
    return measured is not None and abs(measured / wanted_of_peers(case) - 1) <= NEAR


def gpu_goals(case: Case, found: Mapping[str, float], of_copy: float) -> list[Goal]:
    """Against a copy (or a read), and against the better of eager and torch.compile."""
    asked = case.kind.goals
    words = f"{case}, against the better of eager and torch.compile"
    goals = at_least(words, wanted_of_peers(case), best_peer(found))
    if asked.copied is not None:
        other = "a read's" if mostly_reads(case) else "a copy's"
        goals += at_least(f"{case}, part of {other} speed", asked.copied, of_copy)
    return goals


# -- text ----------------------------------------------------------------------------------------

Column = tuple[str, Callable[[Row], str]]


def ratio_column(head: str, peer: str) -> Column:
    return head, lambda row: f"{row.ratios[peer]:.2f}" if peer in row.ratios else "-"


def _first(milliseconds: bool) -> list[Column]:
    head, factor = ("ms", 1e3) if milliseconds else ("us", 1e6)
    digits = 2 if milliseconds else 1
    return [
        ("case", lambda row: row.case),
        ("dtype", lambda row: row.dtype),
        ("MB", lambda row: f"{row.moved / 1e6:.0f}"),
        (head, lambda row: f"{row.seconds * factor:.{digits}f}"),
        ("of copy", lambda row: f"{row.of_copy:.2f}"),
    ]


_LAST: list[Column] = [
    ("host us", lambda row: f"{row.host_seconds * 1e6:.1f}"),
    ("error", lambda row: f"{row.error:.0e}"),
    ("goals", lambda row: row.verdict),
]
CPU_COLUMNS: list[Column] = [
    *_first(milliseconds=True),
    ratio_column("x eager", EAGER),
    ratio_column("x compile", COMPILED),
    ratio_column("called: x eager", EAGER + CALLED),
    ratio_column("x compile", COMPILED + CALLED),
    *_LAST,
]
GPU_COLUMNS: list[Column] = [
    *_first(milliseconds=False),
    ratio_column("x eager", EAGER),
    ratio_column("x compile", COMPILED),
    ratio_column("x Liger", LIGER),
    *_LAST,
]


def row_table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """The table; a row without figures has what is known of it, and its failure in the end."""
    heads = [head for head, _ in columns]
    known = {"case", "dtype", "MB", "goals"}
    cells = [
        [cell(row) if not row.failure or head in known else "-" for head, cell in columns]
        for row in rows
    ]
    return "\n".join([table(heads, cells), *failure_lines(rows)])


def failure_lines(rows: Sequence[Row]) -> list[str]:
    return [f"{row.case} {row.dtype}: {row.failure}" for row in rows if row.failure]


_NOT_SHORT = {"case", "dtype", "MB", "host us", "error", "x Liger"}


def short_table(rows: Sequence[Row]) -> str:
    """GPU rows with few columns, a line for all dtypes of a case: for a screen, or a log's end."""
    columns = [column for column in GPU_COLUMNS if column[0] not in _NOT_SHORT]
    by_case: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_case.setdefault(row.case, {})[row.dtype] = row
    dtypes = list(dict.fromkeys(row.dtype for row in rows))

    def cell(row: Row | None, head: str, of: Callable[[Row], str]) -> str:
        return of(row) if row is not None and (head == "goals" or not row.failure) else "-"

    heads = [
        f"{dtype} {head}" if not at else head
        for dtype in dtypes
        for at, (head, _) in enumerate(columns)
    ]
    lines = [
        [case, *(cell(found.get(dtype), *column) for dtype in dtypes for column in columns)]
        for case, found in by_case.items()
    ]
    return "\n".join([table(["case", *heads], lines), *failure_lines(rows)])


def note_lines(rows: Sequence[Row]) -> str:
    """What was left out, each with the cases it was left out of."""
    by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            by_note.setdefault(note, []).append(f"{row.case} {row.dtype}")
    return "\n".join(f"{note} ({', '.join(names)})" for note, names in by_note.items())


def goal_lines(goals: Sequence[Goal]) -> str:
    """How many goals are met, and those that are not: with what would have been measured of a copy
    of the same bytes in fuser's place, or of a read, where the goal is a ratio to peers."""
    missed = [goal for goal in goals if not goal.met]
    count = f"goals met: {len(goals) - len(missed)} of {len(goals)}"
    if not missed:
        return count
    head = ["goal not met", "wanted", "measured"]
    rows = [[goal.words, goal.wanted, goal.measured] for goal in missed]
    if any(goal.copied for goal in missed):
        head.append("a copy")
        for row, goal in zip(rows, missed, strict=True):
            row.append(goal.copied or "-")
        beyond = sum(not goal.copy_meets for goal in missed)
        count += f"; {beyond} of those missed, a copy of the same bytes would miss as well"
    return f"{count}\n\n{table(head, rows)}"
