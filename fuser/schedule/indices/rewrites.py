"""Indices made of others: terms replaced, everywhere they are, and simplified again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fuser.schedule.indices.index import (
    Axis,
    Clamped,
    Index,
    Quotient,
    Remainder,
    Term,
    Variable,
    clamp,
    divide,
    index_of,
    total,
)


def substitute(index: Index, replacements: Mapping[Axis, Index]) -> Index:
    """`index` with axes replaced."""
    return substitution(replacements)(index)


def substitution(replacements: Mapping[Axis, Index]) -> Callable[[Index], Index]:
    """Replaces axes in every index it is given, of which many are the same, or have terms in
    common."""
    known: dict[Term, Index] = {}
    found: dict[Index, Index] = {}

    def change(term: Term) -> Index | None:
        return replacements.get(term) if isinstance(term, Axis) else None

    def replaced(index: Index) -> Index:
        if index not in found:
            found[index] = rewrite(index, change, known)
        return found[index]

    return replaced


def rewrite(
    index: Index, change: Callable[[Term], Index | None], known: dict[Term, Index] | None = None
) -> Index:
    """`index` with what `change` makes of a term in its place, also inside of others; None keeps
    it. `known` is what has come of terms before."""
    known = {} if known is None else known
    parts: list[tuple[Index, int]] = [(Index(index.constant), 1)]
    for term, coefficient in index.terms:
        if term not in known:
            changed = change(term)
            known[term] = _rewritten_inside(term, change, known) if changed is None else changed
        parts.append((known[term], coefficient))
    return total(parts)


def _rewritten_inside(
    term: Term, change: Callable[[Term], Index | None], known: dict[Term, Index]
) -> Index:
    match term:
        case Axis() | Variable():
            return index_of(term)
        case Clamped():
            return clamp(rewrite(term.of, change, known), term.extent)
        case Quotient() | Remainder():
            quotient, remainder = divide(rewrite(term.of, change, known), term.divisor)
            return quotient if isinstance(term, Quotient) else remainder


def affine_parts(index: Index) -> Iterator[Index]:
    """`index` and every index inside its terms."""
    yield index
    for term, _ in index.terms:
        if not isinstance(term, Axis | Variable):
            yield from affine_parts(term.of)


def terms_in(index: Index) -> Iterator[Term]:
    """The terms of `index`, and of every index inside them, as often as they are there."""
    return (term for part in affine_parts(index) for term, _ in part.terms)


def variables_of(index: Index) -> list[Variable]:
    """The variables, axes not among them, that `index` is made of."""
    return [term for term in terms_in(index) if isinstance(term, Variable)]
