"""CUDA text -> a kernel: NVRTC to a cubin anywhere, loaded and launched where there is a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from fuser.codegen import KernelSource, by_residency
from fuser.runtime.cuda import driver
from fuser.runtime.cuda.cubin import Cubin, pack_cubin, unpack_cubin
from fuser.runtime.cuda.driver import CudaFunction
from fuser.runtime.cuda.nvrtc import compile_cubin, nvrtc_version, options
from fuser.runtime.cuda.occupancy import filling_grid
from fuser.runtime.cuda.parameters import Parameters
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.disk_cache import kept_kernel
from fuser.runtime.kernels.kernel import Launcher, c_types
from fuser.schedule.cuda_parameters import threads_at_once


def compile_cuda(source: KernelSource, arch: str) -> Cubin:
    """The cubin of a kernel for `arch` ("sm_90"), compiled once; needs no GPU.

    As many blocks run at once as have registers for what it needs. Raises CompilationError, or
    TargetError where NVRTC is not installed.
    """

    def make_or_load() -> Cubin:
        texts = list(by_residency(source, threads_at_once(arch)))

        def make() -> bytes:
            compiled = (compile_cubin(text, source.name, arch, options(source)) for text in texts)
            return pack_cubin(_first_without_spills(compiled))

        made_by = ("cubin", nvrtc_version(), arch, *options(source), source.name)
        key = "\n".join((*made_by, *texts))
        return kept_kernel(key, make, lambda packed: unpack_cubin(packed, source.name))

    return _CUBINS.get(f"{arch}\n{source.key}", make_or_load)


def cuda_launcher(source: KernelSource, arch: str, device: int) -> Launcher:
    """A function that queues the kernel on torch's current stream of `device`."""
    cubin = compile_cuda(source, arch)
    kernel = _KERNELS.get(f"{arch}\n{source.key}", lambda: driver.load_kernel(cubin))
    parameters = Parameters(c_types(source))
    given, grid = source.launch, source.launch.grid
    if given.elastic is not None:
        grid = filling_grid(given, cubin.resources, driver.capacity(device))
    block, shared = given.block, given.shared_bytes

    def launch(*numbers: object) -> None:
        stream = driver.current_stream(device)
        kernel.launch(grid, block, parameters.write(numbers), stream, shared)

    return launch


def _first_without_spills(cubins: Iterable[Cubin]) -> Cubin:
    """The first of some that spills no registers; the last, if all do."""
    cubin: Cubin | None = None
    for cubin in cubins:
        if not cubin.resources.spill_bytes:
            break
    assert cubin is not None
    return cubin


_CUBINS: CompileCache[Cubin] = CompileCache()
_KERNELS: CompileCache[CudaFunction] = CompileCache()
