"""The team of threads for a row: how many there are, and what they keep of it."""

from __future__ import annotations

from dataclasses import dataclass

from fuser.schedule.code.row_body import Sweep
from fuser.schedule.cuda_parameters import WARP
from fuser.schedule.rows.cuda.room import Room
from fuser.schedule.rows.cuda.work import ToKeep
from fuser.schedule.tree.bindings import Team
from fuser.schedule.tree.loop_nest import Launch


@dataclass(frozen=True, slots=True)
class RowTeam:
    """What does a row, and what it keeps of it where there is `room`; if it `has_slots`, threads
    have those of folds over the rows in registers."""

    team: Team
    launch: Launch
    to_keep: ToKeep
    room: Room | None = None
    has_slots: bool = False

    @property
    def threads(self) -> int:
        """Of a row, in one block."""
        x, y, _ = self.launch.block
        return y if self.team is Team.COLUMN else x

    def keeps(self, sweep: Sweep) -> bool:
        """Whether something is kept of what a sweep goes over."""
        return self.room is not None and sweep.axes == self.to_keep.axes

    @property
    def is_short(self) -> bool:
        """Whether less than a warp does a row, so that few rounds do all of its points."""
        return self.team is Team.WARP and self.threads < WARP
