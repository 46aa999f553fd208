"""The list of what is measured: kinds, their shapes, both dtypes.

A shape is the GPU's; where the processor has fewer rows, so that a tensor is at most 100 MB or so,
they stand beside it. The transposition alone is as large on both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import batch_norm_cases as batch
import float8_cases as float8
import loss_cases as loss
import movement_cases as movement
import norm_cases as norm
import pair_cases as pair
import pointwise_cases as pointwise
import random_cases as random
import row_cases as row
import scan_cases as scan
import scatter_cases as scatter
import shift_cases as shift
import torch
import turned_cases as turned
from case import DTYPES, Case, Kind, Shape


@dataclass(frozen=True, slots=True)
class Sized:
    """A shape, and how many rows of it the processor gets."""

    shape: Shape
    cpu_rows: int | None = None

    def on(self, device: str) -> Shape:
        if device == "cpu" and self.cpu_rows is not None:
            return (self.cpu_rows, *self.shape[1:])
        return self.shape


NARROW, WIDE = Sized((8192, 768)), Sized((8192, 4096), cpu_rows=4096)
VOCABULARIES = (
    Sized((512, 32768)),
    Sized((8192, 30522), cpu_rows=512),
    Sized((4096, 128256), cpu_rows=128),
)
MATRIX = (Sized((8192, 3072)),)
SCORES = (Sized((4, 16, 512, 1024), cpu_rows=2),)
HEADS = (Sized((4, 32, 2048, 128), cpu_rows=2),)
WORDS = Sized((32768, 768))
CHANNELS = Sized((64, 64, 12544), cpu_rows=16)

KINDS: tuple[tuple[Kind, tuple[Sized, ...]], ...] = (
    (pointwise.GELU, MATRIX),
    (pointwise.BIASED_GELU, MATRIX),
    (pointwise.PERMUTE, (Sized((768, 128, 64)),)),
    (movement.TRANSPOSE, (Sized((8192, 8192)),)),
    (movement.SYMMETRIC, (Sized((4096, 4096)),)),
    (shift.SHIFT, SCORES),
    (shift.SHIFT_BACKWARD, SCORES),
    (shift.ROTARY, HEADS),
    (shift.ROTARY_BACKWARD, HEADS),
    (pair.ROTARY, HEADS),
    (pair.POOL, (Sized((32, 64, 128, 128), cpu_rows=16),)),
    (turned.DROPPED_WEIGHTS, (Sized((16, 12, 256, 256), cpu_rows=8),)),
    (turned.SHARED_HEADS, (Sized((8, 8, 4, 128, 1024), cpu_rows=2),)),
    (turned.CHANNELS_NORM, (Sized((64, 96, 3136), cpu_rows=16),)),
    (turned.CHANNELS_NORM_BACKWARD, (Sized((64, 96, 3136), cpu_rows=16),)),
    (row.SOFTMAX, (NARROW, Sized((4096, 32768), 512), Sized((2048, 131072), 128))),
    (row.LOG_SOFTMAX, (NARROW,)),
    (norm.LAYERNORM, (NARROW, WIDE)),
    (norm.ADDED_LAYERNORM, (Sized((16384, 4096), 4096),)),
    (random.DROPPED_LAYERNORM, (Sized((16384, 4096), 4096),)),
    (random.DROPPED_BACKWARD, (Sized((16384, 4096), 4096),)),
    (norm.LAYERNORM_BACKWARD, (NARROW, WIDE)),
    (norm.RMSNORM, (NARROW, WIDE)),
    (norm.RMSNORM_BACKWARD, (NARROW, WIDE)),
    (batch.NORM, (CHANNELS,)),
    (batch.CHANNELS_LAST, (Sized((200704, 256), cpu_rows=50176),)),
    (batch.BACKWARD, (CHANNELS,)),
    (batch.GROUPS_LAST, (Sized((32, 320, 64, 64), cpu_rows=8),)),
    (float8.NORM, (WIDE,)),
    (float8.BLOCKS, (WIDE,)),
    (float8.NVFP4, (WIDE,)),
    (float8.WIDENED, (WIDE,)),
    (loss.FORWARD, VOCABULARIES),
    (loss.BACKWARD, VOCABULARIES),
    (loss.BOTH, VOCABULARIES),
    (loss.PIXELS, (Sized((16, 21, 512, 512), cpu_rows=4),)),
    (row.SUM_INNER, MATRIX),
    (row.SUM_OUTER, MATRIX),
    (row.SUM_ALL, MATRIX),
    (row.SUMS, (*MATRIX, Sized((2048, 8192)))),
    (scan.ALONG_ROWS, MATRIX),
    (scan.ALONG_COLUMNS, MATRIX),
    (scan.BACKWARD, MATRIX),
    (scatter.EMBEDDING_BACKWARD, (WORDS,)),
    (scatter.HOT_EMBEDDING_BACKWARD, (WORDS,)),
    (scatter.SCATTER_ADD, (NARROW,)),
)

SMALL_GELU = Case(pointwise.PLAIN_GELU, (64,), torch.float32, "cpu")
SMALL: dict[str, Shape] = {
    pointwise.PERMUTE.name: (24, 8, 4),
    loss.PIXELS.name: (2, 5, 4, 6),
    float8.BLOCKS.name: (8, 96),
    float8.NVFP4.name: (8, 96),
    **batch.SMALL,
    **shift.SMALL,
    **pair.SMALL,
    **turned.SMALL,
}
SMALL_SHAPE = (8, 48)


def cases(device: str) -> list[Case]:
    """Every case, in the order of the table."""
    return [
        Case(kind, sized.on(device), dtype, device)
        for kind, sizes in KINDS
        for sized, dtype in itertools.product(sizes, DTYPES)
    ]


def by_importance(found: Iterable[Case]) -> list[Case]:
    """Long rows, which have a goal of their own, then what has one beside a copy, then the rest."""

    def place(case: Case) -> int:
        if case.has_long_rows:
            return 0
        return 1 if case.kind.goals.copied is not None else 2

    return sorted(found, key=place)


def small(case: Case, device: str) -> Case:
    """The same at a size whose arithmetic takes no time."""
    return Case(case.kind, SMALL.get(case.kind.name, SMALL_SHAPE), case.dtype, device)
