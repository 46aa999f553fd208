"""Names of kernels."""

from __future__ import annotations

from fuser.ir.printer import operation_name
from fuser.segmenter import Segment


def kernel_name(scheduler: str, segment: Segment) -> str:
    """`pointwise_mul_erf_add`: the scheduler, then what is computed, without repeats."""
    statements = (s for s in segment.fusion.statements if s.outs[0].is_tensor)
    names = dict.fromkeys(operation_name(statement.op) for statement in statements)
    return "_".join([scheduler, *list(names)[:5]])
