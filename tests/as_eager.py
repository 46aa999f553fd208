"""What of a fusion's results a comparison of numbers does not see: signs of zeros, how they lie in
memory, and which of them lie in the inputs' memory, or in each other's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from fuser.ir.four_bits import one_by_one
from fuser.ir.nodes import (
    Expand,
    Extern,
    Fusion,
    Number,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Statement,
    Value,
    operands,
)
from fuser.ir.strided import ranks
from fuser.ir.types import dense_strides
from tests.random_values import overlaps_itself
from tests.smaller import Inputs

_EITHER_ZERO = {
    *("maximum", "minimum", "clamp", "relu", "threshold"),
    *("max", "min", "cummax", "cummin"),
}
"""Operations that may give either of two zeros: torch's own vectors and single elements differ."""


@dataclass(frozen=True)
class Made:
    """What a fusion was given, and what it made of that."""

    inputs: Inputs
    results: Sequence[torch.Tensor]

    @property
    def held(self) -> list[torch.Tensor]:
        """The inputs that are tensors."""
        return [given for given in self.inputs if isinstance(given, torch.Tensor)]


def copied(inputs: Inputs) -> Inputs:
    """Inputs that lie as these do in other memory, of which they share what these share."""
    return _in_memory(inputs, lambda memory, _: memory.clone())


def in_reverse(inputs: Inputs) -> Inputs:
    """Inputs that lie as these do in other memory, which holds the numbers in reverse."""

    def turned(memory: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        held = torch.empty(0, dtype=torch.uint8).set_(memory)
        return held[: len(held) // size * size].view(-1, size).flip(0).untyped_storage()

    return _in_memory(inputs, turned)


def _in_memory(
    inputs: Inputs, made: Callable[[torch.UntypedStorage, int], torch.UntypedStorage]
) -> Inputs:
    """Inputs in memory that is made of theirs, and of the bytes of their numbers."""
    memory: dict[int, torch.UntypedStorage] = {}

    def moved(given: torch.Tensor | Number) -> torch.Tensor | Number:
        if not isinstance(given, torch.Tensor):
            return given
        held = given.untyped_storage()
        if held.data_ptr() not in memory:
            memory[held.data_ptr()] = made(held, given.element_size())
        empty = torch.empty(0, dtype=given.dtype)
        there = memory[held.data_ptr()] if held.nbytes() else held
        return empty.set_(there, given.storage_offset(), given.shape, given.stride())

    return [moved(given) for given in inputs]


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether tensors of one type and of the same sizes are equal, NaN too."""
    pair = (left, right)
    if left.dtype is torch.float4_e2m1fn_x2:  # which torch copies none of
        pair = (left.view(torch.uint8), right.view(torch.uint8))
    dense = (x.flatten().clone(memory_format=torch.contiguous_format) for x in pair)
    return torch.equal(*(x.view(torch.uint8) for x in dense))


# -- zeros ---------------------------------------------------------------------------------------


def check_zeros(
    fusion: Fusion, results: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]
) -> None:
    """Raises AssertionError where a zero has another sign than the oracle's."""
    unknown = either_zero(fusion)
    for value, got, want in zip(fusion.output_values, results, wanted, strict=True):
        if value in unknown or not value.dtype.is_floating:
            continue
        pair = one_by_one(got).double(), one_by_one(want).double()
        wrong = (pair[0] == 0) & (pair[1] == 0) & (pair[0].signbit() != pair[1].signbit())
        assert not wrong.any(), f"{value}: {int(wrong.sum())} zero(s) of the other sign"


def either_zero(fusion: Fusion) -> set[Value]:
    """The values whose zeros may have either sign."""
    return _following(fusion, _gives_either, set())


def _gives_either(statement: Statement) -> bool:
    op = statement.op
    if any(out.dtype.is_complex for out in statement.outs):  # times 1, of which a part is 0
        return True
    if isinstance(op, Scatter) and op.joins:  # to zeros: passes make pads and choices of these
        return True
    if isinstance(op, Extern):  # torch's products depend on how operands lie in memory
        return True
    return isinstance(op, Pointwise | Reduce | Scan) and op.op in _EITHER_ZERO


def _following(
    fusion: Fusion, begins: Callable[[Statement], bool], known: set[Value]
) -> set[Value]:
    """The values of statements that begin something, or read what follows from it."""
    found = set(known)
    for statement in fusion.statements:
        if begins(statement) or not found.isdisjoint(operands(statement.op)):
            found.update(statement.outs)
    return found


# -- memory --------------------------------------------------------------------------------------


def check_memory(fusion: Fusion, made: Made, wanted: Made) -> None:
    """Raises AssertionError where results lie, or share memory, otherwise than the oracle's."""
    pairs = zip(fusion.inputs, wanted.inputs, strict=True)
    mixed = {v for v, x in pairs if isinstance(x, torch.Tensor) and overlaps_itself(x)}
    unordered = _following(fusion, _leaves_open, mixed)
    for number, value in enumerate(fusion.output_values):
        got, want = made.results[number], wanted.results[number]
        if not want.numel():
            continue
        shares, should = _shared(made, number), _shared(wanted, number)
        assert shares == should, f"{value} lies in memory of {shares}, not of {should}"
        if value in unordered and not any(name.startswith("input") for name in should):
            continue
        long = [dim for dim, size in enumerate(got.shape) if size > 1]
        sizes = [got.shape[dim] for dim in long]
        lies, as_eager = ([x.stride(dim) for dim in long] for x in (got, want))
        # Of a slice of what is computed, a kernel computes the slice only: without gaps, that is.
        dense = list(dense_strides(tuple(sizes), ranks(sizes, as_eager)))
        right = lies == as_eager or (lies == dense and not should)
        assert right, f"{value} of {sizes} has strides {lies}, not {as_eager}"


def check_apart(made: Made) -> None:
    """Raises AssertionError where a result is in memory of an input, or of a result before it."""
    for number, result in enumerate(made.results):
        shares = _shared(made, number) if result.numel() else []
        assert not shares, f"result {number} lies in memory of {shares}"


def _leaves_open(statement: Statement) -> bool:
    """Whether torch and fuser each have an order of their own: torch finds one between dimensions
    that are expanded, and its `index_put` keeps the data's, as its other scatters do not."""
    op = statement.op
    return isinstance(op, Expand) or (isinstance(op, Scatter) and op.mode == "index_put_accumulate")


def _shared(made: Made, number: int) -> list[str]:
    """The inputs, and the results before one, in whose memory it lies."""
    named = [(f"input {n}", held) for n, held in enumerate(made.held)]
    named += [(f"result {n}", earlier) for n, earlier in enumerate(made.results[:number])]
    place = made.results[number].untyped_storage().data_ptr()
    return [name for name, held in named if held.untyped_storage().data_ptr() == place]
