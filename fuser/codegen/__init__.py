"""Loop nest -> kernel text."""

from fuser.codegen.cpu import CpuPrinter
from fuser.codegen.cuda import CudaPrinter
from fuser.codegen.kernel_source import Argument, KernelSource, Pointer, Scalar, Size

__all__ = ["Argument", "CpuPrinter", "CudaPrinter", "KernelSource", "Pointer", "Scalar", "Size"]
