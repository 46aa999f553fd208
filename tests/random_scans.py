"""Steps of random definitions that go through a dimension in order, and triangles."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.random_row_steps import MOST_FACTORS
from tests.random_values import MAX_INEXACT, Writer, known


def scan(writer: Writer) -> None:
    """A running sum, maximum or minimum along some dimension."""
    name = writer.pick(("cumsum", "cumsum", "cummax", "cummin"))
    position = _dimensioned(writer)
    if position is None:
        return
    facts = writer.facts[position]
    dim, count = _dim(writer, position)
    grown = facts.bound * count if name == "cumsum" else facts.bound
    if name == "cumsum" and not facts.exact and grown > MAX_INEXACT:
        return
    reverse = writer.draw(st.booleans())
    writer.add(
        lambda fd, v: getattr(fd.ops, name)(v[position], dim, reverse=reverse),
        known(grown, facts.bits),
    )


def running_product(writer: Writer) -> None:
    """A running product, of so few or so small numbers that it stays small."""
    position = _dimensioned(writer)
    if position is None:
        return
    facts = writer.facts[position]
    dim, count = _dim(writer, position)
    if count > MOST_FACTORS:
        return
    bits = None if facts.bits is None else facts.bits * count
    grown = max(facts.bound, facts.bound**count)
    writer.add(lambda fd, v: fd.ops.cumprod(v[position], dim), known(grown, bits))


def triangle(writer: Writer) -> None:
    """What is above or below some diagonal."""
    name = writer.pick(("triu", "tril"))
    position = writer.operand(lambda h, k: len(h.value.shape) >= 2)
    if position is None:
        return
    diagonal = writer.draw(st.integers(-3, 3))
    facts = writer.facts[position]
    writer.add(lambda fd, v: getattr(fd.ops, name)(v[position], diagonal), facts)


def _dimensioned(writer: Writer) -> int | None:
    return writer.operand(lambda h, k: len(h.value.shape) > 0)


def _dim(writer: Writer, position: int) -> tuple[int, int]:
    """A dimension, and its size."""
    shape = writer.shape(position)
    dim = writer.draw(st.integers(0, len(shape) - 1))
    return dim, shape[dim]


SCANS = (scan, scan, running_product, triangle)
