"""The atoms themselves: numbers that are split into factors, and made one with each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class AtomTable:
    """Atoms with sizes. One that was split or made one with another is known by its leaves."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._parts: list[tuple[int, ...]] = []
        self._weights: list[int] = []
        self._mates: list[set[int]] = []
        """Atoms that index a tensor together with this one, which it must stay apart from."""

    def new(self, size: int) -> int:
        """An atom that nothing is known of."""
        self.sizes.append(size)
        self._parts.append(())
        self._weights.append(1)
        self._mates.append(set())
        return len(self.sizes) - 1

    def leaves(self, atoms: Sequence[int]) -> tuple[int, ...]:
        """What atoms are now: their factors, outermost first."""
        if not any(self._parts[atom] for atom in atoms):
            return tuple(atoms)
        return tuple(leaf for atom in atoms for leaf in self._leaves(atom))

    def live_together(self, atoms: Iterable[int]) -> None:
        """Note that these atoms index one tensor, so that no two of them become one."""
        together = set(self.leaves(tuple(atoms)))
        for atom in together:
            if not together <= self._mates[atom]:
                self._mates[atom] |= together

    def align(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Make two lists of atoms one, factor by factor from the innermost.

        False where they do not nest, or where two atoms of one tensor would become one.
        """
        lefts, rights = list(self.leaves(left)), list(self.leaves(right))
        while lefts and rights:
            a, b = self._innermost(lefts), self._innermost(rights)
            size = min(self.sizes[a], self.sizes[b])
            for atom, rest in ((a, lefts), (b, rights)):
                if self.sizes[atom] > size:
                    outer = self._split_off(atom, size)
                    if outer is None:
                        return False
                    rest.append(outer)
            if not self._unite(self._last(a), self._last(b)):
                return False
        return not lefts and not rights

    def divide(self, atoms: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]] | None:
        """Atoms dealt out to dimensions of these sizes; None where their factors do not nest."""
        left = list(self.leaves(atoms))
        result: list[tuple[int, ...]] = []
        for size in reversed(sizes):
            dealt = self._take(left, size)
            if dealt is None:
                return None
            result.insert(0, dealt)
        return result

    def _take(self, atoms: list[int], size: int) -> tuple[int, ...] | None:
        """Take atoms that span `size` off the inner end of a list, splitting the last one."""
        taken: list[int] = []
        while size > 1:
            atom = self._innermost(atoms)
            extent = self.sizes[atom]
            if size % extent:
                outer = self._split_off(atom, size)
                if outer is None:
                    return None
                atoms.append(outer)
                atom, extent = self._last(atom), size
            taken.insert(0, atom)
            size //= extent
        return tuple(taken)

    def _leaves(self, atom: int) -> tuple[int, ...]:
        parts = self._parts[atom]
        if not parts:
            return (atom,)
        found = tuple(leaf for part in parts for leaf in self._leaves(part))
        self._parts[atom] = found
        return found

    def _last(self, atom: int) -> int:
        return self._leaves(atom)[-1]

    def _innermost(self, atoms: list[int]) -> int:
        """Take the last leaf off a list whose atoms may have been split since."""
        atoms.extend(self._leaves(atoms.pop()))
        return atoms.pop()

    def _split_off(self, atom: int, inner: int) -> int | None:
        """Split an inner factor off an atom, and return the outer; None if it does not divide."""
        size = self.sizes[atom]
        if size % inner:
            return None
        parts = (self.new(size // inner), self.new(inner))
        for part in parts:
            self._mates[part] = self._mates[atom] | set(parts)
            self._weights[part] = self._weights[atom]
        self._parts[atom] = parts
        return parts[0]

    def _unite(self, a: int, b: int) -> bool:
        if a == b:
            return True
        if self._apart(a, b):
            return False
        kept, gone = (a, b) if self._weights[a] >= self._weights[b] else (b, a)
        self._parts[gone] = (kept,)
        self._weights[kept] += self._weights[gone]
        self._mates[kept] |= self._mates[gone]
        return True

    def _apart(self, a: int, b: int) -> bool:
        """Whether the two index one tensor."""
        for one, other in ((a, b), (b, a)):
            mates = {leaf for mate in self._mates[one] for leaf in self._leaves(mate)}
            self._mates[one] = mates
            if other in mates:
                return True
        return False
