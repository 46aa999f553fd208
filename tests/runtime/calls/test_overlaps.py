"""Which inputs reach into memory of others, seen as sets of addresses."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from fuser.runtime.calls.overlaps import are_apart, overlapping


@pytest.mark.parametrize("seed", range(40))
def test_inputs_overlap_where_two_of_them_reach_into_the_same_bytes(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    buffers = [torch.zeros(84), torch.zeros(84)]
    drawn = iter(torch.randint(0, 1000, (100,), generator=generator).tolist())
    inputs: list[torch.Tensor | float] = [3.0, torch.zeros(0)]
    for _ in range(7):
        size, stride, offset = next(drawn) % 4, next(drawn) % 3 + 1, next(drawn) % 70
        inputs.append(buffers[next(drawn) % 2].as_strided((size, 2), (2 * stride, 1), offset))
    spans = [bytes_of(given) for given in inputs]
    meeting = tuple(
        at
        for at, span in enumerate(spans)
        if any(span & other for number, other in enumerate(spans) if number != at)
    )
    assert overlapping(inputs, range(len(inputs))) == meeting
    assert overlapping(inputs, [2]) == (meeting if 2 in meeting else ())
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    assert are_apart(tensors, [1])(addresses_of(tensors)) == (2 not in meeting)


def bytes_of(given: torch.Tensor | float) -> set[int]:
    """The addresses that a tensor spans."""
    if not isinstance(given, torch.Tensor) or given.numel() == 0:
        return set()
    last = sum((n - 1) * s for n, s in zip(given.shape, given.stride(), strict=True))
    return set(range(given.data_ptr(), given.data_ptr() + (last + 1) * given.element_size()))


def test_parts_of_one_buffer_are_apart() -> None:
    first, second, *others = torch.zeros(4, 32).unbind()
    apart = are_apart([first, second, *others], [0, 1])
    assert apart(addresses_of([first, second, *others]))
    assert apart(addresses_of([first, second, others[0], others[0]]))
    assert not apart(addresses_of([first, second, others[0], second]))


@pytest.mark.parametrize("seed", range(20))
def test_tensors_that_are_elsewhere_in_the_next_call_are_looked_at_again(seed: int) -> None:
    draw = random.Random(seed)
    memory = torch.zeros(400, dtype=torch.uint8)
    sizes = [draw.choice([0, 1, 4, 16]) for _ in range(8)]
    updated = sorted(draw.sample(range(8), draw.randint(1, 4)))

    def placed(begins: Sequence[int]) -> list[torch.Tensor]:
        return [memory[b : b + size] for b, size in zip(begins, sizes, strict=True)]

    begins = [40 * n for n in range(8)]
    apart, found = are_apart(placed(begins), updated), set[bool]()
    for _ in range(60):
        mostly = [n for n in range(8) if n not in updated] if draw.random() < 0.8 else range(8)
        for at in mostly:
            begins[at] = draw.randint(0, 380)
        tensors = placed(begins)
        expected = overlapping(tensors, updated) == ()
        found.add(expected)
        assert apart(addresses_of(tensors)) == expected
        if not expected:
            begins = [40 * n for n in range(8)]
    assert True in found


def addresses_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]
