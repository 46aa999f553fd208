"""A picture of a table: how many times fuser's time each peer takes, a bar each.

    python benchmarks/picture.py benchmarks/results/cpu-2026-11-24.json ...

Writes <name>.png beside each record. Needs matplotlib; says so where it is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EAGER, COMPILED, LIGER = "eager", "torch.compile", "Liger"
COLORS = {EAGER: "#d98c3f", COMPILED: "#4878a8", LIGER: "#7aa457"}
WORSE = "#c0392b"
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10)
LEAST, MOST = 0.5, 10
"""Where bars are cut off; the figure beside them is not."""

Record = Mapping[str, Any]


def draw(path: Path) -> None:
    """Draw the record at `path`."""
    if importlib.util.find_spec("matplotlib") is None:
        print(f"no picture: matplotlib is not installed; later: benchmarks/picture.py {path}")
        return
    record = json.loads(path.read_text())
    rows = [row for row in record["rows"] if not row["failure"]]
    if not any(row["ratios"] for row in rows):
        print(f"no picture: {path} has nothing beside fuser")
        return
    made = path.with_suffix(".png")
    _figure(record["machine"], rows, made)
    print(f"written: {made}")


def _figure(machine: Record, rows: Sequence[Record], path: Path) -> None:
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    names = list(dict.fromkeys(row["case"] for row in rows))
    peers = [peer for peer in COLORS if any(peer in row["ratios"] for row in rows)]
    height = 1.8 + 0.13 * len(names) * (len(peers) + 1)
    figure: Any = importlib.import_module("matplotlib.figure").Figure(
        figsize=(6 + 5 * len(dtypes), height), layout="constrained"
    )
    axes = figure.subplots(1, len(dtypes), sharex=True, sharey=True, squeeze=False)[0]
    for axis, dtype in zip(axes, dtypes, strict=True):
        by_case = {row["case"]: row for row in rows if row["dtype"] == dtype}
        _bars(axis, [by_case.get(name) for name in names], peers)
        axis.set_yticks(range(len(names)), names, fontsize=9)
        axis.set_title(dtype, fontsize=11)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    processor = machine["processor"].partition(",")[0].removeprefix("Model name: ")
    where = machine.get("gpu", processor)
    regime = ", cold cache" if "gpu" in machine else ", two threads, nobody page-faults"
    figure.suptitle(
        f"time over fuser's: longer is better for fuser\n{where}{regime}; torch "
        f"{machine['torch']}, {machine['date']}, commit {machine['commit']}",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)


def _bars(axis: Any, rows: Sequence[Record | None], peers: Sequence[str]) -> None:
    """The bars of one dtype, from 1 to the right where fuser is faster."""
    thickness = 0.8 / len(peers)
    _goal_marks(axis, rows)
    for number, peer in enumerate(peers):
        offset = (number - (len(peers) - 1) / 2) * thickness
        places = [at + offset for at, row in enumerate(rows) if row and peer in row["ratios"]]
        found = [row["ratios"][peer] for row in rows if row and peer in row["ratios"]]
        ends = [min(max(ratio, LEAST), MOST) for ratio in found]
        lengths = [end - 1 for end in ends]
        label = f"{peer} over fuser"
        axis.barh(places, lengths, thickness * 0.92, left=1, color=COLORS[peer], label=label)
        for place, end, ratio in zip(places, ends, found, strict=True):
            _number(axis, place, end, ratio)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xscale("log")
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.set_xlim(LEAST / 1.25, MOST * 1.25)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _number(axis: Any, place: float, end: float, ratio: float) -> None:
    """The ratio in figures at the end of its bar, which is cut off where it would be too long."""
    side, shift = ("left", 1.03) if ratio >= 1 else ("right", 1 / 1.03)
    color = WORSE if ratio < 1 else "#333333"
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
    shown = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"
    axis.text(end * shift, place, shown, ha=side, va="center", fontsize=7, color=color, bbox=behind)


def _goal_marks(axis: Any, rows: Sequence[Record | None]) -> None:
    """A mark where the better of eager and torch.compile should be at least."""
    wanted = [(at, _goal(row)) for at, row in enumerate(rows) if row]
    marks = [(at, goal) for at, goal in wanted if goal is not None]
    axis.vlines(
        [goal for _, goal in marks],
        [at - 0.42 for at, _ in marks],
        [at + 0.42 for at, _ in marks],
        color="black",
        zorder=3,
        linewidth=1.4,
        linestyle=(0, (1.5, 1)),
        label="goal, for the better of eager and torch.compile",
    )


def _goal(row: Record) -> float | None:
    for goal in row["goals"]:
        if "against the better of" in goal["words"]:
            return float(goal["wanted"].removeprefix(">= ").removesuffix("x"))
    return None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(Path(name))
