"""Segmented fusions to draw, and what must be read in each picture."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.ir.printer import operation_name
from fuser.segmenter import AliasStep, SegmentedFusion
from tests.seeds import gelu, transpose
from tests.segmented import segment_for

Rectangle = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def apart(a: Rectangle, b: Rectangle) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def gelu_case() -> SegmentedFusion:
    return segmented(gelu, [meta(8192, 3072)])


def transpose_case() -> SegmentedFusion:
    return segmented(transpose, [meta(768, 128, 64)])


def matmul_case() -> SegmentedFusion:
    def build(fd: FusionDefinition) -> None:
        x, weight, bias = map(fd.from_pytorch, inputs)
        made = fd.ops.matmul(fd.ops.add(x, bias), fd.ops.permute(weight, [1, 0]))
        fd.add_output(fd.ops.reshape(fd.ops.mul(made, fd.ops.sigmoid(made)), [8 * 128 * 3072]))
        fd.add_output(fd.ops.permute(made, [0, 2, 1]))

    inputs = [meta(8, 128, 768), meta(3072, 768), meta(768)]
    return segmented(build, inputs)


def cross_entropy_case() -> SegmentedFusion:
    def build(fd: FusionDefinition) -> None:
        logits, target = map(fd.from_pytorch, inputs)
        shifted = fd.ops.sub(logits, fd.ops.max(logits, [1], keepdim=True))
        total = fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True)
        logarithms = fd.ops.sub(shifted, fd.ops.log(total))
        kept = fd.ops.ne(target, -100)
        index = fd.ops.broadcast(fd.ops.where(kept, target, 0), [False, True])
        losses = fd.ops.neg(fd.ops.squeeze(fd.ops.gather(logarithms, index, 1), [1]))
        count = fd.ops.cast(fd.ops.sum(kept), DataType.Float)
        loss = fd.ops.sum(fd.ops.where(kept, losses, 0.0))
        for output in (fd.ops.truediv(loss, count), logarithms, target):
            fd.add_output(output)

    inputs = [meta(512, 32768), meta(512, dtype=torch.int64)]
    return segmented(build, inputs)


def segmented(
    build: Callable[[FusionDefinition], None], inputs: list[torch.Tensor]
) -> SegmentedFusion:
    with FusionDefinition() as fd:
        build(fd)
    return segment_for(fd.fusion, inputs)


CASES = {
    "gelu": gelu_case,
    "transpose": transpose_case,
    "matmul": matmul_case,
    "cross entropy": cross_entropy_case,
}
all_cases = pytest.mark.parametrize("made", CASES.values(), ids=CASES.keys())


def labels(found: SegmentedFusion) -> set[str]:
    """What every operation and kernel is called in a picture."""
    found_names: set[str] = set()
    for step in found.steps:
        if isinstance(step, AliasStep):
            found_names.update(f"{step.output} = {name}" for name in step.operations[-1:])
            continue
        for statement in step.fusion.statements:
            if statement.outs[0].is_tensor:
                outs = ", ".join(map(str, statement.outs))
                found_names.add(f"{outs} = {operation_name(statement.op)}")
    return found_names
