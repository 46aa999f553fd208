"""What a process that measures on the GPU finds, written down for the next one."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

from gpu_steps import Found, Step
from host_time import Execute, measure_execute
from restarts import BROKEN, Progress, is_broken


@dataclass(frozen=True, slots=True)
class Log:
    """What this process and those before it have found, and where it is written down."""

    progress: Progress
    path: Path | None = None

    @staticmethod
    def of(path: Path | None) -> Log:
        return Log(Progress() if path is None else Progress.read(path), path)

    def begin(self, step: str, name: str) -> None:
        self.progress.at = step, name
        if self.path is not None:
            self.progress.write(self.path)

    def begun(self, step: Step) -> Step:
        """A step that says of which case it is before it begins."""

        def measure(each: Found) -> Found:
            self.begin(step.name, str(each.case))
            return step.measure(each)

        return dataclasses.replace(step, measure=measure)

    def known(self, each: Found) -> Found:
        """What earlier processes found of a case."""
        name = str(each.case)
        each = dataclasses.replace(each, **self.progress.known.get(name, {}))
        for (step, case), why in self.progress.ended.items():
            each = each.after_end_in(step, why) if case == name else each
        return each

    def done(self, each: Found) -> None:
        """Write down what was found."""
        self.progress.known[str(each.case)] = each.facts
        self._end()

    def execute(self, rounds: int) -> Execute | None:
        """What a call costs the host; None if that cannot be measured."""
        step, name = "execute", "of few elements"
        if (step, name) in self.progress.ended:
            return None
        kept = self.progress.known.setdefault(step, {})
        if name not in kept:
            self.begin(step, name)
            try:
                kept[name] = measure_execute("cuda", rounds)
            except Exception as reason:  # whatever it is, the cases are measured
                print(f"{step} {name}: {type(reason).__name__}: {reason}", flush=True)
                kept[name] = None
            self._end()
        return kept[name]

    def _end(self) -> None:
        """Nothing is at hand. Ends the process if its device does nothing more."""
        self.begin("", "")
        if self.path is not None and is_broken():
            sys.exit(BROKEN)
