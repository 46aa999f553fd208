"""Backends: segments -> kernel texts -> loaded kernels, one per target."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from fuser import debug
from fuser.codegen import CpuPrinter, CpuRowPrinter, CudaPrinter, KernelSource
from fuser.ir.nodes import Value
from fuser.ir.printer import operation_names, print_fusion
from fuser.passes.compared_values import has_compared_values
from fuser.runtime.calls.executor import LoadedKernel
from fuser.runtime.cpu.kernel import compile_cpu, flags
from fuser.runtime.cpu.processor import is_intel
from fuser.runtime.cuda.kernel import compile_cuda, cuda_launcher
from fuser.runtime.cuda.nvrtc import options
from fuser.runtime.cuda.sass import disassemble
from fuser.runtime.emulator import ThreadOrder
from fuser.runtime.emulator.launcher import emulated_launcher
from fuser.runtime.kernels.kernel import sizes_of
from fuser.runtime.kernels.resources import Resources
from fuser.runtime.target_name import TargetName
from fuser.schedule import (
    ACCESS_BYTES,
    Alignments,
    CpuParameters,
    CpuRowParameters,
    CudaParameters,
    CudaRowParameters,
    LoopNest,
    Scheduler,
    print_nest,
    schedule_cpu,
    schedule_cuda,
    schedule_rows_cpu,
    schedule_rows_cuda,
    schedule_scatter_cpu,
    schedule_scatter_cuda,
    schedule_short_rows_cuda,
    scheduler_of,
)
from fuser.segmenter import AliasStep, ExternStep, Segment, SegmentedFusion, place_updates

_files = itertools.count()
"""Of `cuda_to_file`, which are numbered: different kernels may have one name."""


class Backend(ABC):
    """The kernels of one segmented fusion, for one target.

    `sources` lacks the segments for which no loops can be made yet; torch runs those.
    """

    text_dumps: tuple[str, ...] = ("cpu_kernel",)
    """The dumps that print a kernel's text."""

    def __init__(
        self, segmented: SegmentedFusion, alignments: Alignments, sharing: Collection[Value]
    ) -> None:
        # Allocators align to more than a thread moves at once, and `laid_out` copies what torch
        # hands out of the middle of an allocation.
        made = {value: ACCESS_BYTES for s in segmented.segments for value in s.stores}
        results = {lies.base: ACCESS_BYTES for lies in segmented.memory.values()}
        self._alignments: Mapping[Value, int] = {**results, **made, **alignments}
        self._last_scheduled: dict[str, tuple[Segment, LoopNest]] = {}
        self.segmented = segmented = place_updates(segmented, sharing, self._overwrite_refusal)
        """The steps, with updates of inputs placed as the kernels allow."""
        self.segments = {segment.name: segment for segment in segmented.segments}
        self.nests: dict[str, LoopNest] = {}
        self.sources: dict[str, KernelSource] = {}
        for step in segmented.steps:
            if isinstance(step, Segment) and scheduler_of(step) is not None:
                self._lower(step)
            elif not isinstance(step, AliasStep):
                self._say_without_kernel(step)
        if debug.enabled("scheduler_params"):
            for constants in dict.fromkeys(nest.constants for nest in self.nests.values()):
                debug.dump("scheduler_params", "the constants these were chosen by", constants)

    def _lower(self, segment: Segment) -> None:
        nest = self._scheduled(segment)
        contracts = not has_compared_values(segment.fusion)
        source = replace(self.print(segment, nest), contracts=contracts)
        self.nests[segment.name], self.sources[segment.name] = nest, source
        debug.dump("fusion_ir", segment.name, lambda: print_fusion(segment.fusion))
        debug.dump("scheduler_params", nest.name, lambda: nest.chosen)
        debug.dump("kernel_ir", nest.name, lambda: print_nest(nest))
        debug.dump("index_type", nest.name, nest.index_dtype.name)
        debug.dump("launch_param", nest.name, lambda: str(nest.launch))
        debug.dump("kernel_args", nest.name, lambda: "\n".join(map(str, source.arguments)))
        self.dump_source(source)

    def _overwrite_refusal(self, segment: Segment) -> str | None:
        """Why a segment's kernel may not store where its memory says."""
        if segment.is_empty or scheduler_of(segment) is None:
            return "no kernel computes it"
        return self._scheduled(segment).overwrite_refusal

    def _scheduled(self, segment: Segment) -> LoopNest:
        """The loop nest of a segment; the one by which an update was judged, if there is one."""
        judged, nest = self._last_scheduled.get(segment.name, (None, None))
        if nest is None or judged != segment:
            nest = self.schedule(segment)
            self._last_scheduled[segment.name] = segment, nest
        return nest

    def _say_without_kernel(self, step: Segment | ExternStep) -> None:
        """Why the dumps of kernels have none for a step."""
        names = ", ".join(operation_names(step.fusion))
        why = f"torch runs {names}, one operation after the other"
        if isinstance(step, Segment) and step.is_empty:
            why = "there are no elements to compute"
        for dump in ("kernel_ir", *self.text_dumps):
            debug.dump(dump, step.name, f"no kernel: {why}")

    @abstractmethod
    def schedule(self, segment: Segment) -> LoopNest:
        """The loop nest of a segment."""

    @abstractmethod
    def print(self, segment: Segment, nest: LoopNest) -> KernelSource:
        """The text of a segment's kernel."""

    @abstractmethod
    def dump_source(self, source: KernelSource) -> None:
        """Print or write the text where a dump asks for it."""

    @abstractmethod
    def resources(self, source: KernelSource) -> Resources:
        """Compile, and say what the kernel takes."""

    @abstractmethod
    def load(self, segment_name: str, device: torch.device) -> LoadedKernel:
        """Compile and load a segment's kernel for running on `device`."""


class CpuBackend(Backend):
    """C++ through the system compiler."""

    point_parameters = CpuParameters()
    """What points are mapped by."""
    row_parameters = CpuRowParameters(later_from_bytes=0 if is_intel() else 15 << 20)
    """What rows and scatters are mapped by. On a Zen 5, rows that lie in the 32 MiB of its shared
    cache are read sooner if none is asked for: layer norms of [2048, 768] float32 and [4000, 1000]
    bfloat16 take 0.8 of the time. The gradient of rows of 4096 in memory takes 0.64 if they are."""

    def __init__(
        self,
        segmented: SegmentedFusion,
        alignments: Alignments,
        sharing: Collection[Value],
        *,
        any_size: bool,
    ) -> None:
        self._any_size = any_size
        super().__init__(segmented, alignments, sharing)

    def schedule(self, segment: Segment) -> LoopNest:
        match scheduler_of(segment):
            case Scheduler.ROWS:
                return schedule_rows_cpu(segment, self.row_parameters, any_size=self._any_size)
            case Scheduler.SCATTER:
                return schedule_scatter_cpu(segment, self.row_parameters)
            case _:
                return schedule_cpu(segment, self.point_parameters)

    def print(self, segment: Segment, nest: LoopNest) -> KernelSource:
        match scheduler_of(segment):
            case Scheduler.ROWS | Scheduler.SCATTER:
                return CpuRowPrinter(segment, nest).run()
            case _:
                return CpuPrinter(segment, nest).run()

    def dump_source(self, source: KernelSource) -> None:
        debug.dump("cpu_kernel", source.name, source.text)
        debug.dump("compile_params", source.name, " ".join(flags(source)))

    def resources(self, source: KernelSource) -> Resources:
        return compile_cpu(source).resources

    def load(self, segment_name: str, device: torch.device) -> LoadedKernel:
        segment, source = self.segments[segment_name], self.sources[segment_name]
        sizes, tail = sizes_of(source), (source.launch.threaded,)
        return LoadedKernel(segment, source, compile_cpu(source).launch, sizes, tail)


class CudaBackend(Backend):
    """CUDA C++ through NVRTC."""

    text_dumps = ("cuda_kernel", "cuda_full")
    point_parameters = CudaParameters()
    """What points are mapped by."""

    def __init__(
        self,
        segmented: SegmentedFusion,
        alignments: Alignments,
        sharing: Collection[Value],
        target: TargetName,
    ) -> None:
        self._target = target
        super().__init__(segmented, alignments, sharing)

    def schedule(self, segment: Segment) -> LoopNest:
        match scheduler_of(segment):
            case Scheduler.ROWS:
                given = segment, self._alignments
                short = schedule_short_rows_cuda(*given, self.point_parameters)
                return short or schedule_rows_cuda(*given, self.row_parameters)
            case Scheduler.SCATTER:
                return schedule_scatter_cuda(segment, self._alignments, self.row_parameters)
            case _:
                parameters = self.point_parameters, self.row_parameters
                return schedule_cuda(segment, self._alignments, *parameters)

    @property
    def row_parameters(self) -> CudaRowParameters:
        """What rows and scatters are mapped by, on the target's architecture."""
        return CudaRowParameters.of(self._target.arch, self._target.multiprocessors)

    def print(self, segment: Segment, nest: LoopNest) -> KernelSource:
        return CudaPrinter(segment, nest, reports_indices=debug.checking("index")).run()

    def dump_source(self, source: KernelSource) -> None:
        debug.dump("cuda_kernel", source.name, source.kernel)
        debug.dump("cuda_full", source.name, source.text)
        debug.dump("compile_params", source.name, " ".join(options(source)))
        if debug.enabled("cuda_to_file"):
            path = Path(f"__tmp_kernel{next(_files)}_{source.name}.cu")
            debug.write("cuda_to_file", path, source.text)

    def resources(self, source: KernelSource) -> Resources:
        cubin = compile_cuda(source, self._target.arch)
        debug.dump("ptxas_verbose", source.name, cubin.log)
        debug.dump("sass", source.name, lambda: disassemble(cubin))
        return cubin.resources

    def load(self, segment_name: str, device: torch.device) -> LoadedKernel:
        source = self.sources[segment_name]
        self.resources(source)
        launch = cuda_launcher(source, self._target.arch, device.index or 0)
        return LoadedKernel(self.segments[segment_name], source, launch, sizes_of(source))


class EmulatorBackend(CudaBackend):
    """The same CUDA text, run on the CPU thread by thread."""

    order = ThreadOrder.RUN_AHEAD

    def load(self, segment_name: str, device: torch.device) -> LoadedKernel:
        source = self.sources[segment_name]
        launch = emulated_launcher(source, self.order)
        return LoadedKernel(self.segments[segment_name], source, launch, sizes_of(source))


def backend_for(
    target: TargetName,
    segmented: SegmentedFusion,
    alignments: Alignments,
    sharing: Collection[Value],
    *,
    any_size: bool,
) -> Backend:
    """The backend of a target. `sharing` are the inputs that overlap another one in memory. Where
    inputs may have `any_size`, a processor's kernels fit others too if they can; a GPU's do anyway.
    """
    if target.kind == "cpu":
        return CpuBackend(segmented, alignments, sharing, any_size=any_size)
    kind = EmulatorBackend if target.kind == "emulator" else CudaBackend
    return kind(segmented, alignments, sharing, target)
