"""Segment -> loop tree: axes, then a mapping to threads and lanes."""

from typing import NoReturn

from fuser.errors import UnknownNameError
from fuser.schedule.cpu_parameters import CpuParameters, ProcessorParameters
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.cuda_parameters import CudaParameters, CudaRowParameters, arch_number
from fuser.schedule.points.cpu import schedule_cpu
from fuser.schedule.points.cuda import schedule_cuda, schedule_short_rows_cuda
from fuser.schedule.rows.cpu.mapping import schedule_rows_cpu
from fuser.schedule.rows.cuda.mapping import schedule_rows_cuda
from fuser.schedule.scatters.cpu import schedule_scatter_cpu
from fuser.schedule.scatters.cuda import schedule_scatter_cuda
from fuser.schedule.schedulers import Scheduler, scheduler_of
from fuser.schedule.tree.buffers import ACCESS_BYTES, Alignments
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_printer import print_nest


def __getattr__(name: str) -> NoReturn:
    """Raises UnknownNameError, which is an AttributeError."""
    hint = "; schedules are fuser's own; fd.plan(inputs) shows what is run"
    raise UnknownNameError(name=f"schedule.{name}", hint=hint)


__all__ = [
    "ACCESS_BYTES",
    "Alignments",
    "CpuParameters",
    "CpuRowParameters",
    "CudaParameters",
    "CudaRowParameters",
    "LoopNest",
    "ProcessorParameters",
    "Scheduler",
    "arch_number",
    "print_nest",
    "schedule_cpu",
    "schedule_cuda",
    "schedule_rows_cpu",
    "schedule_rows_cuda",
    "schedule_scatter_cpu",
    "schedule_scatter_cuda",
    "schedule_short_rows_cuda",
    "scheduler_of",
]
