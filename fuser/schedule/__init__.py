"""Segment -> loop tree: axes, then a mapping to threads and lanes."""

from fuser.schedule.heuristics import CpuParameters, CpuRowParameters, CudaParameters
from fuser.schedule.loop_tree import LoopNest
from fuser.schedule.mapping import Alignments, schedule_cpu, schedule_cuda
from fuser.schedule.row_cpu import schedule_rows_cpu
from fuser.schedule.schedulers import Scheduler, scheduler_of

__all__ = [
    "Alignments",
    "CpuParameters",
    "CpuRowParameters",
    "CudaParameters",
    "LoopNest",
    "Scheduler",
    "schedule_cpu",
    "schedule_cuda",
    "schedule_rows_cpu",
    "scheduler_of",
]
