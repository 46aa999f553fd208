"""Loop nest -> kernel text."""

from fuser.codegen.cpu.points import CpuPrinter
from fuser.codegen.cpu.rows import CpuRowPrinter
from fuser.codegen.cuda.printer import CudaPrinter
from fuser.codegen.kernel_source import (
    Argument,
    IndexCheck,
    KernelSource,
    Pointer,
    Scalar,
    Size,
    Workspace,
)
from fuser.codegen.launch_bounds import by_residency

__all__ = [
    "Argument",
    "CpuPrinter",
    "CpuRowPrinter",
    "CudaPrinter",
    "IndexCheck",
    "KernelSource",
    "Pointer",
    "Scalar",
    "Size",
    "Workspace",
    "by_residency",
]
