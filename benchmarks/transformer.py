"""A definition of any length: transformer blocks, written operation by operation.

Pre-norm, 12 heads, all that a front end would hand over in one piece: layernorms, projections,
masked attention with its softmax written out, gelu written out, residuals. Matrix products are
torch's, so a long definition has kernels and torch calls in the pattern of a real model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.nodes import Fusion, Statement


@dataclass(frozen=True, slots=True)
class Sizes:
    """GPT-2's, at 4 sequences of 1024 tokens."""

    batch: int = 4
    tokens: int = 1024
    width: int = 768
    heads: int = 12
    inner: int = 3072


def transformer(operations: int, sizes: Sizes | None = None) -> Fusion:
    """As many blocks as reach that number of tensor operations, as a fusion of static shape."""
    with FusionDefinition() as fd:
        writer = _Writer(fd, sizes or Sizes())
        x, mask = writer.inputs()
        made, a_block = 0, 0
        while made < operations:
            x = writer.block(x, mask)
            # Every block has as many as the first, and counting them all again takes long.
            a_block = a_block or count_operations(fd.fusion)
            made += a_block
        fd.add_output(x)
    return fd.fusion


def count_operations(fusion: Fusion) -> int:
    """The operations that make tensors; constants are none."""
    return sum(map(_makes_tensor, fusion.statements))


def _makes_tensor(statement: Statement) -> bool:
    return statement.outs[0].is_tensor


class _Writer:
    """Writes blocks into a definition; every block has weights of its own."""

    def __init__(self, fd: FusionDefinition, sizes: Sizes) -> None:
        self._fd = fd
        self._ops = fd.ops
        self._sizes = sizes

    def inputs(self) -> tuple[Handle, Handle]:
        """What goes into the first block, and the causal mask of all blocks."""
        s = self._sizes
        mask = self._fd.define_tensor(shape=[s.tokens, s.tokens], dtype=DataType.Bool)
        return self._tensor(s.batch, s.tokens, s.width), mask

    def block(self, x: Handle, mask: Handle) -> Handle:
        width, inner = self._sizes.width, self._sizes.inner
        ops = self._ops
        attended = self._attention(self._layernorm(x), mask)
        x = ops.add(x, self._linear(attended, width, width))
        hidden = self._gelu(self._linear(self._layernorm(x), width, inner))
        return ops.add(x, self._linear(hidden, inner, width))

    def _layernorm(self, x: Handle) -> Handle:
        s, ops = self._sizes, self._ops
        shape = [s.batch, s.tokens, s.width]
        variance, mean = ops.var_mean(x, [2], correction=0, keepdim=True)
        centred = ops.sub(x, ops.expand(mean, shape))
        scale = ops.expand(ops.rsqrt(ops.add(variance, 1e-5)), shape)
        weight = ops.broadcast_in_dim(self._tensor(s.width), shape, [2])
        bias = ops.broadcast_in_dim(self._tensor(s.width), shape, [2])
        return ops.add(ops.mul(ops.mul(centred, scale), weight), bias)

    def _attention(self, x: Handle, mask: Handle) -> Handle:
        s, ops = self._sizes, self._ops
        shape = [s.batch, s.heads, s.tokens, s.tokens]
        query, key, value = (self._heads(self._linear(x, s.width, s.width)) for _ in range(3))
        scores = ops.matmul(query, ops.permute(key, [0, 1, 3, 2]))
        scaled = ops.mul(scores, 1 / math.sqrt(s.width // s.heads))
        masked = ops.where(ops.broadcast_in_dim(mask, shape, [2, 3]), scaled, -math.inf)
        largest = ops.expand(ops.max(masked, [3], keepdim=True), shape)
        raised = ops.exp(ops.sub(masked, largest))
        total = ops.expand(ops.sum(raised, [3], keepdim=True), shape)
        mixed = ops.matmul(ops.truediv(raised, total), value)
        return ops.reshape(ops.permute(mixed, [0, 2, 1, 3]), [s.batch, s.tokens, s.width])

    def _heads(self, x: Handle) -> Handle:
        s = self._sizes
        split = self._ops.reshape(x, [s.batch, s.tokens, s.heads, s.width // s.heads])
        return self._ops.permute(split, [0, 2, 1, 3])

    def _gelu(self, x: Handle) -> Handle:
        ops = self._ops
        raised = ops.add(ops.erf(ops.mul(x, math.sqrt(0.5))), 1.0)
        return ops.mul(ops.mul(x, 0.5), raised)

    def _linear(self, x: Handle, inputs: int, outputs: int) -> Handle:
        return self._ops.linear(x, self._tensor(outputs, inputs), self._tensor(outputs))

    def _tensor(self, *shape: int) -> Handle:
        return self._fd.define_tensor(shape=list(shape), contiguity=True)
