"""Names of nvFuser's that have no meaning here, and what to do instead."""

from __future__ import annotations

_SCHEDULES = "schedules are fuser's own; fd.plan(inputs) shows what is run"
_CACHE = "fuser.LruFusionCache makes equal definitions one, and kernels are kept on disk anyway"
_DEVICES = "a fusion runs on one device"

MEMBERS = {
    "extents": "fd.inputs() are handles, and their size(dim) is a scalar to compute with",
    "ke": _SCHEDULES,
    "manual_execute": _SCHEDULES,
    "manual_validate": _SCHEDULES,
    "sched": _SCHEDULES,
    "segment": "fd.plan(inputs) has the kernels, and why there is more than one",
}
"""Of a definition."""

NAMES = {
    "FusionCache": _CACHE,
    "MemoryType": _SCHEDULES,
    "ParallelType": _SCHEDULES,
    "SchedulerType": _SCHEDULES,
    "disable_automatic_serialization": _CACHE,
    "enable_automatic_serialization": _CACHE,
    "execute_with_dtensors": _DEVICES,
    "multidevice": _DEVICES,
    "serialize": _CACHE,
}
"""Of the module."""
