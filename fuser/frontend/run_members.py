"""What a definition hands on to the Fusion it fills: running it, and repeating or timing a run.

fd.execute(inputs)    is fs.execute(inputs)
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuser.frontend.fusion import Fusion
from fuser.pipeline import Plan
from fuser.runtime.calls.placed import Run
from fuser.runtime.plans.profile import Profile


class RunMembers:
    """The methods of a Fusion, as properties that give them."""

    _slot: Fusion

    @property
    def execute(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.execute` of the Fusion it fills; a property, so that a call costs no more."""
        return self._slot.execute

    @property
    def execute_apart(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.execute_apart` of the Fusion it fills."""
        return self._slot.execute_apart

    @property
    def settled(self) -> Callable[..., Run | None]:
        """`Fusion.settled` of the Fusion it fills."""
        return self._slot.settled

    @property
    def is_compiled(self) -> Callable[..., bool]:
        """`Fusion.is_compiled` of the Fusion it fills."""
        return self._slot.is_compiled

    @property
    def plan(self) -> Callable[..., Plan]:
        """`Fusion.plan` of the Fusion it fills."""
        return self._slot.plan

    @property
    def validate(self) -> Callable[..., list[torch.Tensor]]:
        """`Fusion.validate` of the Fusion it fills."""
        return self._slot.validate

    @property
    def profile(self) -> Callable[..., Profile]:
        """`Fusion.profile` of the Fusion it fills."""
        return self._slot.profile

    @property
    def debug_output(self) -> Callable[[], str | None]:
        """`Fusion.debug_output` of the Fusion it fills."""
        return self._slot.debug_output

    @property
    def repro_script_for(self) -> Callable[..., str]:
        """`Fusion.repro_script_for` of the Fusion it fills."""
        return self._slot.repro_script_for

    @property
    def last_repro_script(self) -> Callable[[], str]:
        """`Fusion.last_repro_script` of the Fusion it fills."""
        return self._slot.last_repro_script
