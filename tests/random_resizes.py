"""Steps of random definitions that pad and concatenate, and those that repeat."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from fuser.frontend.handles import Handle
from tests.random_values import Known, Writer, known


def _with_dims(handle: Handle, facts: Known) -> bool:
    return handle.value.is_tensor and len(handle.value.shape) > 0


def pad(writer: Writer) -> None:
    """Widths of either sign around some of the last dimensions, and a fill that the dtype holds."""
    position = writer.operand(_with_dims)
    if position is None:
        return
    shape = writer.shape(position)
    padded = writer.draw(st.integers(1, min(len(shape), 2)))
    widths: list[int] = []
    for size in reversed(shape[-padded:]):
        before = writer.draw(st.integers(-min(size, 8), 3))
        widths += [before, writer.draw(st.integers(-min(size + min(before, 0), 8), 3))]
    if _padded(shape, widths) > writer.scale.max_elements:
        return
    fill = writer.pick((0, 1))
    facts = writer.facts[position]
    result = known(max(facts.bound, 1), facts.bits)
    writer.add(lambda fd, v: fd.ops.pad(v[position], widths, fill), result)


def _padded(shape: tuple[int, ...], widths: list[int]) -> int:
    grown = [*[0] * (2 * len(shape) - len(widths)), *reversed(widths)]
    sizes = zip(shape, grown[::2], grown[1::2], strict=True)
    return math.prod(size + after + before for size, after, before in sizes)


def cat(writer: Writer) -> None:
    """Up to three tensors that agree but for one dimension, perhaps the same one again."""
    first = writer.operand(_with_dims)
    if first is None:
        return
    dim = writer.draw(st.integers(0, len(writer.shape(first)) - 1))

    def fits(handle: Handle, facts: Known) -> bool:
        shape, wanted = handle.value.shape, writer.shape(first)
        others = [(a, b) for d, (a, b) in enumerate(zip(shape, wanted, strict=False)) if d != dim]
        same = len(shape) == len(wanted) and all(a == b for a, b in others)
        return handle.value.is_tensor and same and handle.dtype() is writer.dtype(first)

    parts = [first]
    for _ in range(writer.draw(st.integers(0, 2))):
        another = writer.operand(fits)
        parts += [] if another is None else [another]
    if sum(math.prod(writer.shape(part)) for part in parts) > writer.scale.max_elements:
        return
    facts = [writer.facts[part] for part in parts]
    bits = [each.bits for each in facts]
    result = known(
        max(each.bound for each in facts),
        None if None in bits else max(n for n in bits if n is not None),
    )
    writer.add(lambda fd, v: fd.ops.cat([v[part] for part in parts], dim), result)


RESIZES = (pad, cat)
