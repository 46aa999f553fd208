"""The stages in order: concretize, passes, segment, schedule, print."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import torch

from fuser import debug
from fuser.ir.binding import check_updates
from fuser.ir.concretize import concretize_for, has_any_size
from fuser.ir.nodes import Fusion, Inputs
from fuser.ir.printer import print_fusion
from fuser.ir.strided import Strided
from fuser.ir.verify import verify
from fuser.passes import PASSES
from fuser.passes.scatter_forms import choose_scatter_forms
from fuser.runtime.backend import Backend, backend_for
from fuser.runtime.calls.call import alignment, describe_input
from fuser.runtime.calls.overlaps import overlapping
from fuser.runtime.kernels.stats import count
from fuser.runtime.plans.describe import describe, print_segments
from fuser.runtime.plans.plan import Plan
from fuser.runtime.target_name import TargetName
from fuser.segmenter import SegmentedFusion, render, segment

_CUDA_TEXT = ("cuda_kernel", "cuda_full", "cuda_to_file")
_drawings = itertools.count()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A segmented fusion and the backend that makes its kernels."""

    segmented: SegmentedFusion
    backend: Backend
    plan: Plan


def compile_plan(fusion: Fusion, inputs: Inputs, target: TargetName) -> Compiled:
    """The stages in order, up to kernel text; nothing is compiled to machine code or run."""
    with _PLANNING:
        return _compile_plan(fusion, inputs, target)


_PLANNING = threading.Lock()
"""One plan at a time in a process: networkx compiles its functions when they are first called, and
two threads may not be doing so. Dumps then also stay together."""

if hasattr(os, "register_at_fork"):  # a child has no thread that would end another's plan
    os.register_at_fork(
        before=_PLANNING.acquire,
        after_in_parent=_PLANNING.release,
        after_in_child=_PLANNING.release,
    )


def _compile_plan(fusion: Fusion, inputs: Inputs, target: TargetName) -> Compiled:
    count("plans_built")
    debug.dump("fusion_args", "inputs", lambda: "\n".join(map(describe_input, inputs)))
    debug.dump("fusion_ir_original", "as defined", lambda: print_fusion(fusion))
    any_size = has_any_size(fusion)
    fusion = concretize_for(fusion, inputs)
    debug.dump("fusion_ir_concretized", "for these sizes", lambda: print_fusion(fusion))
    check_updates(fusion, inputs)
    definition, fusion = fusion, _run_passes(fusion)
    backend = _kernels_for(fusion, inputs, target, any_size=any_size)
    if target.kind == "cpu" and any(map(debug.enabled, _CUDA_TEXT)):
        cuda = TargetName("cuda")
        _kernels_for(fusion, inputs, cuda, any_size=any_size)  # prints what CUDA tensors would get
    segmented = backend.segmented
    plan = describe(definition, segmented, backend, target)
    debug.dump("segmented_fusion", "segments", lambda: print_segments(segmented))
    debug.dump("segmenter_logging", "result", lambda: str(plan))
    if debug.enabled("draw_segmented_fusion"):
        text, suffix = render(segmented)
        drawn = Path(f"segmented_fusion_{next(_drawings)}{suffix}")
        debug.write("draw_segmented_fusion", drawn, text)
    return Compiled(segmented, backend, plan)


def _kernels_for(fusion: Fusion, inputs: Inputs, target: TargetName, *, any_size: bool) -> Backend:
    """The segments of a fusion that went through the passes, and their kernels' text, which is for
    inputs of `any_size`, or for these."""
    fusion = choose_scatter_forms(
        fusion,
        in_order=target.kind == "cpu",
        repeatable=torch.are_deterministic_algorithms_enabled(),
    )
    debug.dump("fusion_ir_preseg", f"for {target}", lambda: print_fusion(fusion))
    tensors = zip(fusion.inputs, inputs, strict=True)
    given = {v: t for v, t in tensors if isinstance(t, torch.Tensor)}
    memory = {v: Strided(v, tuple(t.shape), tuple(t.stride())) for v, t in given.items()}
    segmented = segment(fusion, memory, target.machine)
    debug.dump("segmenter_logging", f"decisions for {target}", lambda: "\n".join(segmented.log))
    alignments = {value: alignment(tensor) for value, tensor in given.items()}
    sharing = [fusion.inputs[at] for at in overlapping(inputs, fusion.updated)]
    return backend_for(target, segmented, alignments, sharing, any_size=any_size)


def _run_passes(fusion: Fusion) -> Fusion:
    """What the passes make of a fusion; where it is verified, so is every change, and the end.

    What they add is numbered above all that the definition has, so that a reason that names a value
    of the definition means that one."""
    fusion = dataclasses.replace(fusion, numbered=fusion.fresh_id)
    if debug.verifying():
        verify(fusion, "before the passes")
    for rewrite in PASSES:
        before, fusion = fusion, rewrite(fusion)
        if fusion == before:
            continue
        stage = f"after {rewrite.__name__}"
        if debug.verifying():
            verify(fusion, stage)
        if debug.enabled("pre_segmenter_logging"):
            debug.dump("pre_segmenter_logging", stage, print_fusion(fusion))
    if debug.verifying():
        verify(fusion, "after the passes")
    return fusion
