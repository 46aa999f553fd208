"""Definitions written as classes, the older form of nvFuser's.

class Scaled(FusionDefinition):
    def definition(self) -> None:
        self.add_output(self.define_tensor(shape=[-1]) * 2.0)

(y,) = Scaled().execute([x])
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from fuser.errors import UnsupportedHookError
from fuser.warned import warn_user


def define_later(definition: AbstractContextManager[object]) -> Callable[[], None] | None:
    """What defines it by its own `definition` method; None if its class has none."""
    hook: object = getattr(type(definition), "definition", None)
    if hook is None:
        return None

    def define() -> None:
        with definition:
            _check_schedules(type(definition))
            definition.definition()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    return define


def _check_schedules(kind: type) -> None:
    """Results do not depend on a schedule, but they do on how tensors are spread over devices."""
    if hasattr(kind, "multidevice_schedule"):
        raise UnsupportedHookError(
            kind=kind.__name__, hook="multidevice_schedule", reason="fusions run on one device"
        )
    if hasattr(kind, "schedule"):
        warn_user(
            f"{kind.__name__}.schedule is not called: schedules are fuser's own. Results are "
            "the same; fd.plan(inputs) shows what is run",
            UserWarning,
        )
