"""Which inputs of a call reach into memory of others: an update would change those as well.

What counts is the span from a tensor's first byte to its last: two columns of a matrix overlap,
though they have no byte in common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch

from fuser.ir.nodes import Inputs, Number
from fuser.runtime.calls.call import address, holds_numbers


def overlapping(inputs: Inputs, updated: Sequence[int]) -> tuple[int, ...]:
    """Which inputs, by position, reach into memory that another one spans; none if none of the
    `updated` ones does."""
    meeting = _meeting([span_of(given) for given in inputs])
    return () if meeting.isdisjoint(updated) else tuple(sorted(meeting))


def are_apart(inputs: Inputs, updated: Sequence[int]) -> Callable[[Sequence[int]], bool]:
    """Says of the addresses of tensors with the sizes, strides and dtypes of these inputs whether
    none of the `updated` ones is `overlapping`.

    Of an optimizer's tensors, only gradients are new in each step: where the updated ones are where
    they were, the others are looked up among them.
    """
    lengths = [end - start for start, end in map(span_of, inputs)]
    read = [at for at in range(len(lengths)) if at not in updated and lengths[at]]
    # Where the updated ones are; where they start and end, in the order of memory.
    held: tuple[list[int], list[int], list[int]] = ([], [], [])

    def all_apart(addresses: Sequence[int]) -> bool:
        nonlocal held
        spans = [(start, start + length) for start, length in zip(addresses, lengths, strict=True)]
        if not _meeting(spans).isdisjoint(updated):
            return False
        order = sorted(spans[at] for at in updated if lengths[at])
        updates = [addresses[at] for at in updated]
        held = updates, [start for start, _ in order], [end for _, end in order]
        return True

    def apart(addresses: Sequence[int]) -> bool:
        updates, starts, ends = held  # at once: threads share it
        if updates != [addresses[at] for at in updated]:
            return all_apart(addresses)
        before = [bisect_left(starts, addresses[at] + lengths[at]) - 1 for at in read]
        return all(n < 0 or ends[n] <= addresses[at] for n, at in zip(before, read, strict=True))

    return apart


def _meeting(spans: Sequence[tuple[int, int]]) -> set[int]:
    """Which of some spans, by position, have a byte of another one."""
    meeting, furthest, reach = set[int](), 0, 0
    for at in sorted(range(len(spans)), key=spans.__getitem__):
        start, end = spans[at]
        if start < min(end, reach):
            meeting |= {at, furthest}
        if end > reach:
            furthest, reach = at, end
    return meeting


def span_of(given: torch.Tensor | Number) -> tuple[int, int]:
    """The addresses from the first byte of a tensor to past its last one."""
    if not isinstance(given, torch.Tensor) or given.numel() == 0 or not holds_numbers(given):
        return 0, 0
    reach = sum((n - 1) * s for n, s in zip(given.shape, given.stride(), strict=True))
    start = address(given)
    return start, start + (reach + 1) * given.element_size()
