"""CUDA text -> a function that runs it on the CPU, thread by thread."""

from __future__ import annotations

import math

from fuser.codegen import KernelSource
from fuser.runtime.emulator import ThreadOrder, build
from fuser.runtime.kernels.kernel import Launcher, as_c, c_types


def emulated_launcher(source: KernelSource, order: ThreadOrder) -> Launcher:
    """A function that runs every thread block of the kernel in the emulator.

    Raises what the emulator raises: a deadlock names the line in `source.code`.
    """
    kernel = build(source.code, source.name)
    given, types = source.launch, c_types(source)
    assert math.prod(given.block) <= given.max_threads, "more threads than the text has bounds for"

    def launch(*numbers: object) -> None:
        kernel.launch(
            given.grid,
            given.block,
            as_c(types, numbers),
            shared_bytes=given.shared_bytes,
            cluster=given.cluster,
            order=order,
        )

    return launch
