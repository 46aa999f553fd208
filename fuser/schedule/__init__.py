"""Segment -> loop tree: axes, then a mapping to threads and lanes."""

from fuser.schedule.body import can_schedule
from fuser.schedule.heuristics import CpuParameters, CudaParameters
from fuser.schedule.loop_tree import LoopNest
from fuser.schedule.mapping import Alignments, schedule_cpu, schedule_cuda

__all__ = [
    "Alignments",
    "CpuParameters",
    "CudaParameters",
    "LoopNest",
    "can_schedule",
    "schedule_cpu",
    "schedule_cuda",
]
