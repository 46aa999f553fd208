"""Lightning Thunder's executor: `thunder.jit(function, executors=[fuser_ex])`, or `["fuser"]`.

    from fuser.integrations.thunder import fuser_ex
    import thunder

Importing this registers it. Raises ImportError where Thunder is not installed.
"""

from __future__ import annotations

from fuser.integrations.partitions.coverage import Coverage
from fuser.integrations.thunder.executor import REPORTS, FuserExecutor
from fuser.integrations.thunder.library import extend

fuser_ex = FuserExecutor()
extend.register_executor(fuser_ex)


def reports() -> tuple[Coverage, ...]:
    """The coverage of the traces fused last, oldest first."""
    return REPORTS.all()


def clear_reports() -> None:
    """Forget the reports so far."""
    REPORTS.clear()


__all__ = ["FuserExecutor", "clear_reports", "fuser_ex", "reports"]
