"""CUDA text -> a function that runs it on the CPU, thread by thread."""

from __future__ import annotations

from fuser.codegen import KernelSource
from fuser.runtime.emulator import ThreadOrder, build
from fuser.runtime.kernel import Launcher, as_c, c_types


def emulated_launcher(source: KernelSource, order: ThreadOrder) -> Launcher:
    """A function that runs every thread block of the kernel in the emulator.

    Raises what the emulator raises: a deadlock names the line in `source.code`.
    """
    kernel = build(source.code, source.name)
    types = c_types(source)

    def launch(*numbers: object) -> None:
        kernel.launch(source.launch.grid, source.launch.block, as_c(types, numbers), order=order)

    return launch
