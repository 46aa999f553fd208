"""`exec(repr(fd))` builds an equal fusion, and the fusion runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations
from fuser.ir.externs import TABLE
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Extern
from fuser.ir.verify import verify
from tests.definitions import built
from tests.strategies import (
    FACTORIES,
    METADATA,
    POINTWISE,
    REDUCTIONS,
    RESIZES,
    SCANS,
    SLICES,
    Definition,
    definitions,
)

EVERY_STEP = (*POINTWISE, *METADATA, *FACTORIES, *SLICES, *RESIZES, *REDUCTIONS, *SCANS)


@given(definitions(EVERY_STEP))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_definition_round_trips(definition: Definition) -> None:
    with FusionDefinition() as fd:
        definition.build(fd)
    verify(fd.fusion, "as defined")
    assert built(repr(fd)).fusion == fd.fusion
    outputs = interpret(fd.fusion, definition.inputs)
    for value, output in zip(fd.fusion.output_values, outputs, strict=True):
        assert value.dtype.torch is output.dtype
        assert all(size in (-1, have) for size, have in zip(value.shape, output.shape, strict=True))
        assert not output.is_floating_point() or output.isfinite().all()


def _gradients(o: Operations, x: Handle, scale: float | None) -> None:
    output, logsumexp, seed, offset = o.sdpfa_fwd(x, x, x)
    o.sdpfa_bwd(output, x, x, x, output, logsumexp, 0.25, True, seed, offset, scale)
    state = o.cast(seed, DataType.UInt64), o.full([], 2**64 - 1, DataType.UInt64)
    o.sdpfa_bwd(output, x, x, x, output, logsumexp, 0.25, True, *state, scale)


def _of_blocks(o: Operations, x: Handle) -> None:
    codes, scales = o.nv_block_quantize(x, None, True)
    o.scaled_mm(codes, o.permute(codes, [1, 0]), scales, scales)


def _of_groups(o: Operations, x: Handle, at: Handle) -> None:
    codes, _ = o.nv_block_quantize(x)
    rows = o.reshape(codes, [-1, 32])
    scales = o.full([128, 4], 1.0, DataType.Float8_e4m3fn)
    of_groups = o.broadcast(scales, [True, False, False])
    others = o.permute(codes, [0, 2, 1])
    given = rows, others, scales, of_groups, o.cast(at, DataType.Float)
    sizes = o.broadcast(at, [False, True])
    o.cutlass_nvfp4_grouped_mm(*given, sizes, at, at, DataType.Float)


EXTERNS: list[Callable[[Operations, Handle, Handle], object]] = [
    lambda o, x, i: o.matmul(x, o.permute(x, [0, 1, 3, 2])),
    lambda o, x, i: o.linear(x, o.sum(x, [0, 1])),
    lambda o, x, i: o.linear(x, o.sum(x, [0, 1]), o.sum(x, [0, 1, 3])),
    lambda o, x, i: o.grouped_mm(o.sum(x, [0, 1]), o.sum(x, [0]), i),
    lambda o, x, i: o.grouped_mm(mat1=o.sum(x, [0]), mat2=o.sum(x, [0, 1]), offsets=i),
    lambda o, x, i: o.scaled_mm(*[o.sum(x, [0, 1])] * 2, o.sum(x), o.sum(x)),
    lambda o, x, i: o.scaled_mm(
        *[o.sum(x, [0, 1])] * 2, *[o.sum(x)] * 3, beta=o.sum(x), dtype=DataType.Float
    ),
    lambda o, x, i: _of_blocks(o, o.sum(x, [0, 1])),
    lambda o, x, i: _of_groups(o, o.sum(x, [0]), i),
    lambda o, x, i: o.topk(x, 3),
    lambda o, x, i: o.topk(x, 3, 1, largest=False, sorted=True),
    lambda o, x, i: o.argsort(x, -1),
    lambda o, x, i: o.argsort(x, 0, True, True),
    lambda o, x, i: o.embedding_fwd(i, o.sum(x, [0, 1])),
    lambda o, x, i: o.embedding_fwd(i, o.sum(x, [0, 1]), -1, 1.5, float("inf"), False, True),
    lambda o, x, i: o.sdpfa_fwd(x, x, x),
    lambda o, x, i: o.sdpfa_fwd(x, x, x, bias=x, mask=i > 0, dropout_p=0, scale=1e-3),
    lambda o, x, i: o.sdpfa_fwd(x, x, x, mask=i > 0, is_causal=False),
    lambda o, x, i: o.sdpfa_fwd(x, x, x, bias=o.sum(x, -1), is_causal=True),
    lambda o, x, i: _gradients(o, x, None),
    lambda o, x, i: _gradients(o, x, 0.1),
]


def _defined(define: Callable[[Operations, Handle, Handle], object]) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1] * 4, dtype=DataType.Float)
        define(fd.ops, x, fd.define_tensor(shape=[-1], dtype=DataType.Int32))
        fd.add_output(x)
    return fd


@pytest.mark.parametrize("case", range(len(EXTERNS)))
def test_operations_torch_runs_round_trip(case: int) -> None:
    fd = _defined(EXTERNS[case])
    verify(fd.fusion, "as defined")
    assert built(repr(fd)).fusion == fd.fusion


def test_every_operation_torch_runs_is_tested() -> None:
    statements = [s for define in EXTERNS for s in _defined(define).fusion.statements]
    assert {s.op.function for s in statements if isinstance(s.op, Extern)} == set(TABLE)
