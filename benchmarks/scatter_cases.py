"""The gradient of an embedding, with words of one frequency and with a hot one; scatter_add."""

from __future__ import annotations

import torch
from case import Goals, Kind, Maker, Scratch, Tensors

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle

VOCABULARY = 30522
"""Rows of the embedding, whatever the shape of the gradient."""


# -- the gradient of an embedding ------------------------------------------------------------------


def embedding_backward(words: str, *, hot: bool) -> Kind:
    """The gradient of `VOCABULARY` rows from that of every word, [words, width]."""

    def define(fd: FusionDefinition, gradient: Handle, index: Handle) -> Handle:
        _, width = fd.ops.shape(gradient)
        zeros = fd.ops.full([VOCABULARY, width], 0.0, DataType.Float)
        return fd.ops.index_put_accumulate(zeros, index, gradient)

    def inputs(make: Maker) -> Tensors:
        return [make.normal(), make.indices(make.shape[0], VOCABULARY, hot=hot)]

    return Kind(
        name=f"embedding backward, {words}",
        define=define,
        inputs=inputs,
        written=gradient_of_embedding,
        eager={"embedding_dense_backward": dense_backward, "index_add": gradient_of_embedding},
        into={"index_add": gradient_into},
        exact=gradient_of_embedding,
        goals=Goals(cpu=2.0, copied=0.5 if hot else 0.75),
        loose=64.0 if hot else 1.0,
    )


def gradient_of_embedding(gradient: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    sizes = VOCABULARY, gradient.shape[1]
    zeros = torch.zeros(sizes, dtype=gradient.dtype, device=gradient.device)
    return zeros.index_add(0, index, gradient)


def dense_backward(gradient: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(gradient, index, VOCABULARY, -1, False)


def gradient_into(
    outs: Tensors, scratch: Scratch, gradient: torch.Tensor, index: torch.Tensor
) -> None:
    outs[0].zero_().index_add_(0, index, gradient)


EMBEDDING_BACKWARD = embedding_backward("uniform", hot=False)
HOT_EMBEDDING_BACKWARD = embedding_backward("one word half of the time", hot=True)


# -- scatter_add -----------------------------------------------------------------------------------


def define_scatter_add(fd: FusionDefinition, base: Handle, index: Handle, x: Handle) -> Handle:
    return fd.ops.scatter_add(base, index, x, 1)


def scatter_add_inputs(make: Maker) -> Tensors:
    """Every row adds its elements anywhere in a row of data."""
    rows, columns = make.shape
    index = make.indices(rows * columns, columns, hot=False).view(rows, columns)
    return [make.normal(), index, make.normal()]


def scatter_add(base: torch.Tensor, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.scatter_add(base, 1, index, x)


def scatter_add_into(
    outs: Tensors, scratch: Scratch, base: torch.Tensor, index: torch.Tensor, x: torch.Tensor
) -> None:
    torch.scatter_add(base, 1, index, x, out=outs[0])


SCATTER_ADD = Kind(
    name="scatter_add",
    define=define_scatter_add,
    inputs=scatter_add_inputs,
    written=scatter_add,
    eager={"scatter_add": scatter_add},
    into={"scatter_add": scatter_add_into},
    exact=scatter_add,
    goals=Goals(cpu=1.0),
)
