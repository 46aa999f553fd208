"""The types of attention's results and gradients, and what its operands must be.

query [*batch, heads, queries, head size], key and value [*batch, heads, keys, head size], of one or
more dimensions of batch. The log of the sum of exponentials and the state of the random numbers are
kept for the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.errors import ArgumentError
from fuser.ir import shapes
from fuser.ir.dtype_rules import check_dtype, check_same_dtype, refused
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.result_shapes import same_size, same_sizes
from fuser.ir.types import DYNAMIC, TensorType

Types = tuple[TensorType, ...]


def forward_types(
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    mask: Value | None,
    *,
    dropout_p: float | Value | None,
    is_causal: bool | Value | None,
    scale: float | Value | None,
) -> Types:
    """Output, logsumexp (Float, or Double), and Int tensors of sizes [2] and []."""
    scores, width = _score_sizes("sdpfa_fwd", query, key, value)
    for name, added in {"bias": bias, "mask": mask}.items():
        if added is not None:
            _check_broadcasts(name, added, scores)
    if bias is not None and not bias.dtype.is_floating:
        raise refused("sdpfa_fwd", "the bias is added, so it must be floating", [bias])
    if mask is not None and mask.dtype is not DataType.Bool:
        raise refused("sdpfa_fwd", "the mask says what to keep, so it must be Bool", [mask])
    check_dropout("sdpfa_fwd", dropout_p)
    return (
        TensorType(query.dtype, (*scores[:-1], width)),
        TensorType(query.dtype.compute, scores[:-1]),
        TensorType(DataType.Int, (2,)),
        TensorType(DataType.Int, ()),
    )


def backward_types(
    grad_output: Value,
    query: Value,
    key: Value,
    value: Value,
    output: Value,
    logsumexp: Value,
    philox_seed: Value,
    philox_offset: Value,
    *,
    dropout_p: float | Value | None,
    is_causal: bool | Value | None,
    scale: float | Value | None,
) -> Types:
    """The gradients of query, key and value. torch has the state of the random numbers, which
    `forward_types` makes Int, in UInt64 too."""
    scores, width = _score_sizes("sdpfa_bwd", query, key, value)
    check_same_dtype("sdpfa_bwd", (query, grad_output, output))
    kept = query.dtype.compute
    state = {philox_seed.dtype, philox_offset.dtype}
    if logsumexp.dtype is not kept or not state <= {DataType.Int, DataType.UInt64}:
        reason = f"logsumexp must be {kept.name}, and philox_seed and philox_offset Int or UInt64"
        raise refused("sdpfa_bwd", reason, [logsumexp, philox_seed, philox_offset])
    _check_sizes("grad_output", grad_output, (*scores[:-1], width))
    _check_sizes("output", output, (*scores[:-1], width))
    _check_sizes("logsumexp", logsumexp, scores[:-1])
    _check_sizes("philox_seed", philox_seed, (2,))
    _check_sizes("philox_offset", philox_offset, ())
    check_dropout("sdpfa_bwd", dropout_p)
    return tuple(TensorType(arg.dtype, arg.shape) for arg in (query, key, value))


def check_dropout(operation: str, dropout_p: float | Value | None) -> None:
    """Raises ArgumentError unless a probability that is known is below 1."""
    if not isinstance(dropout_p, Value | None) and not 0 <= dropout_p < 1:
        expected = "expected a probability: 0 or more, and less than 1"
        raise ArgumentError(operation, "dropout_p", dropout_p, expected)


def _score_sizes(
    operation: str, query: Value, key: Value, value: Value
) -> tuple[tuple[int, ...], int]:
    """The sizes of query @ key, [*batch, heads, queries, keys], and the size of a head."""
    heads = (query, key, value)
    check_same_dtype(operation, heads)
    check_dtype(operation, query.dtype, heads)
    sizes = [arg.shape for arg in heads]
    rank = len(query.shape)
    expected = "expected [batch, heads, sequence, head size], equal but for query's sequence"
    if rank < 4 or any(len(shape) != rank for shape in sizes):
        raise _argument(operation, "query, key, value", sizes, expected)
    first, second, third = sizes
    beside = (*range(rank - 2), rank - 1)
    shared = [beside, tuple(range(rank)), beside]
    pairs = [(first, second), (second, third), (first, third)]
    for dims, (left, right) in zip(shared, pairs, strict=True):
        if not all(same_size(left[dim], right[dim]) for dim in dims):
            raise _argument(operation, "query, key, value", sizes, expected)
    *groups, width = (_known(*(shape[dim] for shape in sizes)) for dim in beside)
    return (*groups, first[-2], _known(second[-2], third[-2])), width


def _known(*sizes: int) -> int:
    return next((size for size in sizes if size != DYNAMIC), DYNAMIC)


def _check_broadcasts(name: str, added: Value, scores: tuple[int, ...]) -> None:
    """Raises BroadcastError or ArgumentError unless `added` broadcasts to the sizes of `scores`."""
    joined = shapes.broadcast("sdpfa_fwd", [scores, added.shape])
    if not same_sizes(joined, scores):
        expected = f"expected sizes that broadcast to {list(scores)}"
        raise _argument("sdpfa_fwd", name, [added.shape], expected)


def _check_sizes(name: str, given: Value, sizes: tuple[int, ...]) -> None:
    if not same_sizes(given.shape, sizes):
        expected = f"expected sizes {list(sizes)}, as sdpfa_fwd gives them"
        raise _argument("sdpfa_bwd", name, [given.shape], expected)


def _argument(
    operation: str, argument: str, sizes: Sequence[tuple[int, ...]], expected: str
) -> ArgumentError:
    got = ", ".join(str(list(shape)) for shape in sizes)
    return ArgumentError(operation, argument, got, expected)
