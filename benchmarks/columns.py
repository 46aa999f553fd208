"""Reductions and scans over the first dimension by lines of memory, beside strips of columns, on a
processor.

    python benchmarks/columns.py [--rounds 25] [--no-save]

A ratio is the time by strips over the time by lines: above 1, lines are faster. `fuser` decides by
`CpuRowParameters.most_columns` and `most_scanned_columns`, which this leaves as they are and sets
to 1. All on two pinned threads with freed memory kept; medians of alternating rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pinned

if __name__ == "__main__":
    pinned.restart()

import torch
from buffers import keep_freed
from harness import OURS, Call, alternate, machine, options, report

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.backend import CpuBackend
from fuser.schedule import CpuRowParameters

SHAPES = (
    (300_000, 8),
    (100_000, 15),
    (60_000, 40),
    (4096, 100),
    (20_000, 197),
    (8192, 768),
    (8192, 1536),
    (8192, 3072),
    (4096, 4096),
    (2048, 12288),
    (1024, 16384),
)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
WAYS = {
    OURS: CpuRowParameters(),
    "strips": CpuRowParameters(most_columns=1, most_scanned_columns=1),
}
HEAD = ("over the first", "shape", "dtype", "ms", "strips / lines")

Define = Callable[[FusionDefinition, Handle], Sequence[Handle]]


def softmax(fd: FusionDefinition, x: Handle) -> list[Handle]:
    weights = fd.ops.exp(x - fd.ops.max(x, [0], keepdim=True))
    return [weights / fd.ops.sum(weights, [0], keepdim=True)]


COMPUTED: dict[str, Define] = {
    "sum": lambda fd, x: [fd.ops.sum(x, [0])],
    "variance, mean": lambda fd, x: fd.ops.var_mean(x, [0], correction=0),
    "softmax": softmax,
    "cumsum": lambda fd, x: [fd.ops.cumsum(x, 0)],
}


def call_of(define: Define, x: torch.Tensor, parameters: CpuRowParameters) -> Call:
    """A call whose rows are mapped by `parameters`, its results in the dtype of `x`."""
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        wide = fd.ops.cast(given, DataType.Float)
        for result in define(fd, wide):
            fd.add_output(fd.ops.cast(result, given.dtype()))
    before, CpuBackend.row_parameters = CpuBackend.row_parameters, parameters
    try:
        fd.execute([x])
    finally:
        CpuBackend.row_parameters = before
    return lambda: fd.execute([x])


def main() -> None:
    given = options(__doc__, rounds=25).parse_args()
    facts = machine()
    keep_freed()
    rows: list[Sequence[str]] = []
    for (name, define), shape, dtype in itertools.product(COMPUTED.items(), SHAPES, DTYPES):
        x = torch.randn(shape).to(DTYPES[dtype])
        calls = {way: call_of(define, x, parameters) for way, parameters in WAYS.items()}
        measured = alternate(calls, given.rounds)
        ratios = (f"{measured[way].ratio:.2f}" for way in WAYS if way != OURS)
        size = "x".join(map(str, shape))
        rows.append([name, size, dtype, f"{measured[OURS].seconds * 1e3:.2f}", *ratios])
    report("columns-cpu", facts, HEAD, rows, keep=not given.no_save)


if __name__ == "__main__":
    main()
