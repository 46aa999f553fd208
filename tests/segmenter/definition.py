"""Definitions written line by line, and what the segmenter makes of them."""

from __future__ import annotations

import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.printer import operation_name
from fuser.segmenter import SegmentedFusion
from tests.segmented import memory_of, run_segmented, segment_for
from tests.segmenter.brute_force import BruteForce

MOST_NODES = 11
"""Larger graphs have too many divisions to try."""


class Definition:
    """A definition over tensors of given sizes; `kernels` are the operations of each segment."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.inputs: list[torch.Tensor] = [torch.randn(shape) for shape in shapes]
        self.fd = FusionDefinition()
        self.fd.__enter__()
        self.ops = self.fd.ops
        self.handles = [self.fd.from_pytorch(given, static_sizes=True) for given in self.inputs]

    def index(self, below: int, *shape: int) -> Handle:
        """One more input: indices below a bound."""
        self.inputs.append(torch.randint(0, below, shape))
        return self.fd.from_pytorch(self.inputs[-1], static_sizes=True)

    def segment(self, *outputs: Handle) -> SegmentedFusion:
        """Segmented, and checked to give the oracle's numbers.

        A small one is also checked to be as good as the best of all divisions.
        """
        for output in outputs:
            self.fd.add_output(output)
        self.fd.__exit__(None, None, None)
        segmented = segment_for(self.fd.fusion, self.inputs)
        want = interpret(self.fd.fusion, self.inputs)
        for got, expected in zip(run_segmented(segmented, self.inputs), want, strict=True):
            torch.testing.assert_close(got, expected)
        divisions = BruteForce(
            segmented.fusion, memory_of(segmented.fusion, self.inputs), segmented.machine
        )
        if divisions.count <= MOST_NODES:
            divisions.check(segmented)
        return segmented


def kernels(segmented: SegmentedFusion) -> list[str]:
    """The operations of each kernel, as words."""
    return [
        " ".join(operation_name(s.op) for s in segment.fusion.statements if s.outs[0].is_tensor)
        for segment in segmented.segments
    ]


def refusals(segmented: SegmentedFusion) -> str:
    return "\n".join(line for line in segmented.log if line.startswith("merge refused"))
