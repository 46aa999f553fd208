"""How torch lays out the results of operations it runs, asked of torch itself, without data."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fuser.ir import externs
from fuser.ir.nodes import Extern, Statement, Value
from fuser.ir.strided import Strided, dense, order_of, row_major

_ALIKE = {"sdpfa_fwd": 1}
"""How many of the results lie alike on all devices, where it is not all of them."""


def extern_memory(statement: Statement, held: Mapping[Value, Strided]) -> dict[Value, Strided]:
    """Where each result lies if the operands are held so: dense, in torch's order of dimensions.

    Row-major where torch cannot tell without data.
    """
    op = statement.op
    assert isinstance(op, Extern)
    memory = {out: row_major(out) for out in statement.outs}
    given = [None if arg is None else _without_data(held[arg]) for arg in externs.arguments(op)]
    try:
        with torch.no_grad():
            results = externs.run(op, tuple(given), number=_unknown)
    except (RuntimeError, NotImplementedError):
        return memory
    told = zip(statement.outs, results[: _ALIKE.get(op.function)], strict=False)
    for out, result in told:
        order = order_of(Strided(out, out.shape, result.stride()))
        if tuple(result.shape) == out.shape and order is not None:
            memory[out] = dense(out, order)
    return memory


def _unknown(option: Value) -> None:
    """An option that is known at execution only is left out: none decides where results lie."""


def _without_data(memory: Strided) -> torch.Tensor:
    dtype = memory.base.dtype.torch
    return torch.empty_strided(memory.shape, memory.strides, dtype=dtype, device="meta")
