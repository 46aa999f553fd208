"""The stages in order: bind, concretize, passes, segment, schedule, print, load, run."""

from __future__ import annotations

import itertools
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from fuser import debug
from fuser.errors import TargetError
from fuser.ir.binding import check_inputs, check_updates
from fuser.ir.concretize import concretize, size_inputs
from fuser.ir.nodes import Fusion, Number, Value
from fuser.ir.printer import print_fusion
from fuser.ir.strided import Strided
from fuser.ir.verify import verify
from fuser.passes import PASSES
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.runtime.backend import Backend, backend_for
from fuser.runtime.call import Device, Inputs, alignment, describe_input, device_of, key_of
from fuser.runtime.cuda_driver import on_device
from fuser.runtime.describe import describe
from fuser.runtime.executor import LoadedKernel, Runner, oracle_runner
from fuser.runtime.plan import Plan
from fuser.runtime.stats import count
from fuser.runtime.target_name import TargetName, resolve_target
from fuser.runtime.toolchain import find_compiler
from fuser.segmenter import AliasStep, Segment, SegmentedFusion, render, segment

_CUDA_TEXT = ("cuda_kernel", "cuda_full", "cuda_to_file")
_drawings = itertools.count()

Run = Callable[[Inputs], list[torch.Tensor]]

KEPT_PLANS = 4096
"""Plans one definition keeps; the oldest goes first. Their kernels stay compiled."""

__all__ = ["Executor", "Plan", "compile_plan"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A segmented fusion and the backend that makes its kernels."""

    segmented: SegmentedFusion
    backend: Backend
    plan: Plan


class Executor:
    """Runs one definition. Plans are made once per sizes, strides, dtypes and alignments."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._sized_by = [fusion.inputs.index(value) for value in size_inputs(fusion)]
        self._runs: dict[object, Run] = {}
        self._compiled: dict[object, Compiled] = {}
        self._lock = threading.RLock()

    def execute(
        self, inputs: Inputs, *, target: str | None = None, device: Device = None
    ) -> list[torch.Tensor]:
        """The outputs for these inputs; nothing is launched if an input is refused."""
        key = (target, device, *self._key(inputs))
        run = self._runs.get(key)
        if run is None:
            with self._lock:
                run = self._runs.get(key)
                if run is None:
                    run = self._prepare(inputs, target, device)
                    _keep(self._runs, key, run)
        return run(inputs)

    def plan(self, inputs: Inputs, *, target: str | None = None) -> Plan:
        """What `execute` would run. With a named architecture, inputs may be on any device."""
        check_inputs(self._fusion, inputs)
        return self._compile(inputs, resolve_target(target, device_of(inputs, None))).plan

    def _key(self, inputs: Inputs) -> tuple[object, ...]:
        """Everything a plan depends on but its target."""
        try:
            ordered = torch.are_deterministic_algorithms_enabled()
            return (*map(key_of, inputs), *[inputs[at] for at in self._sized_by], ordered)
        except (RuntimeError, IndexError):  # no strides, or too few inputs: say which input it is
            check_inputs(self._fusion, inputs)
            raise

    def _compile(self, inputs: Inputs, target: TargetName) -> Compiled:
        key = (target, *self._key(inputs))
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = compile_plan(self._fusion, inputs, target)
                _keep(self._compiled, key, compiled)
        return compiled

    def _prepare(self, inputs: Inputs, target: str | None, device: Device) -> Run:
        check_inputs(self._fusion, inputs)
        place = device_of(inputs, device)
        named = resolve_target(target, place)
        _check_runs_on(named, place)
        if named.kind == "cpu" and find_compiler() is None:
            _warn_without_compiler()
            return oracle_runner(self._fusion, place)
        compiled = self._compile(inputs, named)
        debug.dump("fusion_args", "inputs", lambda: "\n".join(map(describe_input, inputs)))

        def load(name: str) -> LoadedKernel:
            return compiled.backend.load(name, place)

        segments = compiled.segmented.segments
        generated = compiled.backend.sources
        names = [s.name for s in segments if s.name in generated and not s.is_empty]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            kernels = dict(zip(names, pool.map(load, names), strict=True))
        run = Runner(compiled.segmented, kernels, place).run
        elsewhere = any(isinstance(t, torch.Tensor) and t.device != place for t in inputs)
        run = _after_moving(run, place) if elsewhere else run
        return run if place.type == "cpu" else _with_current(place.index or 0, run)


Kept = TypeVar("Kept")


def _keep(cache: dict[object, Kept], key: object, made: Kept) -> None:
    """Add to a cache; the oldest entry goes where it is full."""
    if len(cache) >= KEPT_PLANS:
        del cache[next(iter(cache))]
    cache[key] = made


def compile_plan(fusion: Fusion, inputs: Inputs, target: TargetName) -> Compiled:
    """The stages in order, up to kernel text; nothing is compiled to machine code or run."""
    count("plans_built")
    debug.dump("fusion_ir_original", "as defined", lambda: print_fusion(fusion))
    fusion = concretize(fusion, _shapes(fusion, inputs), _scalars(fusion, inputs))
    debug.dump("fusion_ir_concretized", "for these sizes", lambda: print_fusion(fusion))
    check_updates(fusion, inputs)
    fusion = _run_passes(fusion)
    fusion = choose_scatter_forms(
        fusion,
        lists=target.kind == "cpu",
        ordered=target.kind != "cpu" and torch.are_deterministic_algorithms_enabled(),
    )
    debug.dump("fusion_ir_preseg", "before segmentation", lambda: print_fusion(fusion))
    tensors = zip(fusion.inputs, inputs, strict=True)
    given = {v: t for v, t in tensors if isinstance(t, torch.Tensor)}
    memory = {v: Strided(v, tuple(t.shape), tuple(t.stride())) for v, t in given.items()}
    segmented = segment(fusion, memory)
    debug.dump("segmenter_logging", "decisions", lambda: "\n".join(segmented.log))
    alignments = {value: alignment(tensor) for value, tensor in given.items()}
    backend = backend_for(target, segmented, alignments)
    if target.kind == "cpu" and any(map(debug.enabled, _CUDA_TEXT)):
        backend_for(TargetName("cuda"), segmented, alignments)  # prints what CUDA tensors would get
    plan = describe(segmented, backend, target)
    debug.dump("segmented_fusion", "segments", lambda: _print_segments(segmented))
    debug.dump("segmenter_logging", "result", lambda: str(plan))
    if debug.enabled("draw_segmented_fusion"):
        text, suffix = render(segmented)
        Path(f"segmented_fusion_{next(_drawings)}{suffix}").write_text(text)
    return Compiled(segmented, backend, plan)


def _print_segments(segmented: SegmentedFusion) -> str:
    """Each step: segments and what torch runs as definitions, aliases in a line."""
    parts: list[str] = []
    for step in segmented.steps:
        if isinstance(step, AliasStep):
            made = " -> ".join(step.operations)
            parts.append(f"# {step.output} is {made} of {step.memory.base}, on the host\n")
        else:
            by = "" if isinstance(step, Segment) else ", run by torch"
            parts.append(f"# {step.name}{by}\n{print_fusion(step.fusion)}")
    return "\n".join(parts)


def _run_passes(fusion: Fusion) -> Fusion:
    if debug.verifying():
        verify(fusion, "before the passes")
    for rewrite in PASSES:
        before, fusion = fusion, rewrite(fusion)
        name = rewrite.__name__
        if debug.verifying():
            verify(fusion, f"after {name}")
        if fusion != before:
            text = print_fusion(fusion)
            debug.dump("pre_segmenter_logging", f"after {name}", text)
    return fusion


def _shapes(fusion: Fusion, inputs: Inputs) -> dict[Value, tuple[int, ...]]:
    pairs = zip(fusion.inputs, inputs, strict=True)
    return {value: tuple(given.shape) for value, given in pairs if isinstance(given, torch.Tensor)}


def _scalars(fusion: Fusion, inputs: Inputs) -> dict[Value, Number]:
    """The scalar inputs whose number decides a size."""
    sized = size_inputs(fusion)
    pairs = zip(fusion.inputs, inputs, strict=True)
    return {v: given for v, given in pairs if v in sized and not isinstance(given, torch.Tensor)}


def _check_runs_on(target: TargetName, device: torch.device) -> None:
    wanted = "cuda" if target.kind == "cuda" else "cpu"
    if device.type != wanted:
        reason = f"it runs on {wanted} tensors, and these are on {device}"
        if device.type == "meta":
            reason = "meta tensors hold no data; they can be planned, not executed"
        raise TargetError(target=str(target), reason=reason)


def _after_moving(run: Run, device: torch.device) -> Run:
    """`run` on inputs of which 0-dim CPU tensors are first copied to where the others are."""

    def moved(given: torch.Tensor | Number) -> torch.Tensor | Number:
        return given.to(device) if isinstance(given, torch.Tensor) else given

    return lambda inputs: run([moved(given) for given in inputs])


def _with_current(index: int, run: Run) -> Run:
    """`run` while CUDA device `index` is the current one."""

    def inside(inputs: Inputs) -> list[torch.Tensor]:
        with on_device(index):
            return run(inputs)

    return inside


_warned = threading.Event()


def _warn_without_compiler() -> None:
    if not _warned.is_set():
        _warned.set()
        named = os.environ.get("CXX")
        why = f"CXX names {named}, which is not there" if named else "no C++ compiler was found"
        warnings.warn(
            f"{why}, so fusions run unfused in torch; install g++ or clang++ "
            "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name one in CXX",
            RuntimeWarning,
            stacklevel=4,
        )
