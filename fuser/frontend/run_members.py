"""What a definition hands on to the Fusion it fills: running it, and repeating or timing a run.

fd.execute(inputs)    is fs.execute(inputs), which a Workbench describes
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuser.frontend.workbench import Workbench
from fuser.pipeline import Plan
from fuser.runtime.placed import Run
from fuser.runtime.profile import Profile


class RunMembers:
    """The methods of a Workbench, as properties that give them."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @property
    def execute(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.execute` of the Fusion it fills; a property, so that a call costs no more."""
        return self._bench.execute

    @property
    def execute_apart(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.execute_apart` of the Fusion it fills."""
        return self._bench.execute_apart

    @property
    def settled(self) -> Callable[..., Run | None]:
        """`Fusion.settled` of the Fusion it fills."""
        return self._bench.settled

    @property
    def is_compiled(self) -> Callable[..., bool]:
        """`Fusion.is_compiled` of the Fusion it fills."""
        return self._bench.is_compiled

    @property
    def plan(self) -> Callable[..., Plan]:
        """`Fusion.plan` of the Fusion it fills."""
        return self._bench.plan

    @property
    def validate(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.validate` of the Fusion it fills."""
        return self._bench.validate

    @property
    def profile(self) -> Callable[..., Profile]:
        """`Fusion.profile` of the Fusion it fills."""
        return self._bench.profile

    @property
    def debug_output(self) -> Callable[[], str | None]:
        """`Fusion.debug_output` of the Fusion it fills."""
        return self._bench.debug_output

    @property
    def repro_script_for(self) -> Callable[..., str]:
        """`Fusion.repro_script_for` of the Fusion it fills."""
        return self._bench.repro_script_for

    @property
    def last_repro_script(self) -> Callable[[], str]:
        """`Fusion.last_repro_script` of the Fusion it fills."""
        return self._bench.last_repro_script
