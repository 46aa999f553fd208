"""The factors that two shapes of one tensor have in common."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Factors:
    """[8, 6] and [2, 4, 6] have the factors 2, 4, 6: dimension 0 of the left is numbers (0, 1)."""

    sizes: tuple[int, ...]
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]


def common_factors(left: Shape, right: Shape) -> Factors | None:
    """The fewest factors of which the dimensions of both shapes are products, slowest first.

    None where they do not nest, as those of [6, 4] and [8, 3], or where there are no elements.
    """
    if 0 in left:
        return None
    sizes: list[int] = []
    groups: tuple[list[list[int]], list[list[int]]] = ([], [])
    rest_left = rest_right = 1
    while True:
        rest_left = _next(left, groups[0], rest_left)
        rest_right = _next(right, groups[1], rest_right)
        if rest_left == 1 or rest_right == 1:
            return Factors(tuple(sizes), _tuples(groups[0]), _tuples(groups[1]))
        if rest_left % rest_right and rest_right % rest_left:
            return None
        factor = min(rest_left, rest_right)
        groups[0][-1].append(len(sizes))
        groups[1][-1].append(len(sizes))
        sizes.append(factor)
        rest_left, rest_right = rest_left // factor, rest_right // factor


def _next(shape: Shape, groups: list[list[int]], rest: int) -> int:
    """What is left to divide up of the current dimension, or else of the next that is not 1."""
    while rest == 1 and len(groups) < len(shape):
        rest = shape[len(groups)]
        groups.append([])
    return rest


def _tuples(groups: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, groups))
