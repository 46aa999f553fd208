"""C++ for strips on the CPU target: neighbouring rows in lanes, element by element."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fuser.codegen.cpu_rounds import CpuRoundPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.index import lanes_of
from fuser.schedule.loop_tree import Loop, Node

_ROWS = "rows"
"""The variable that holds how many rows a strip has."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A function of a round: of each of its elements, or of all together."""

    name: str
    of_elements: bool


class CpuStripPrinter(CpuRoundPrinter):
    """Strips, and loops over the rows of the strip at hand."""

    _lanes_used: str | None = None
    """How many lanes have a point, of a strip or of a chunk, if not all may."""

    def bound(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.STRIP:
                self.over_threads(loop)
            case Binding.STRIP_LANES:
                with self.side_by_side(loop, "simd"), self.out.block(self._each_row()):
                    self.nodes(loop.body)
            case Binding.STRIP_IN_TURN:
                with self.out.block(self._each_row()):
                    self.nodes(loop.body)
            case Binding.COLUMNS:
                with self.out.block(""):
                    self.out.line(f"{self._column_count(loop)};")
                    self._strip(loop)
            case Binding.UNROLLED:
                self._unrolled(loop)
            case _:
                super().bound(loop)

    def _column_count(self, loop: Loop) -> str:
        """How many columns there are: a number, where the kernel has room for no more."""
        if loop.step == loop.axis.extent:
            return f"constexpr int {_ROWS} = {loop.step}"
        return f"const int {_ROWS} = int({self.sizes.extent(loop.axis)})"

    def over_threads(self, loop: Loop) -> None:
        if not self._dividing:
            self._choose_strip(loop)
        super().over_threads(loop)

    def iterations(self, loop: Loop) -> None:
        if loop.binding is Binding.STRIP:
            self._strips(loop)
        else:
            super().iterations(loop)

    @property
    def rows_of_strip(self) -> bool:
        """Whether lanes are those of the rows of a strip, which may be fewer."""
        return self._lanes_used == _ROWS

    def lanes_used(self, count: int) -> str:
        return self._lanes_used or super().lanes_used(count)

    def _choose_strip(self, loop: Loop) -> None:
        """How many rows are done side by side; every thread has the same number of strips."""
        outer, strips = "1", loop
        while strips.binding is Binding.PARALLEL and isinstance(strips.body[0], Loop):
            outer, strips = f"{outer} * {self.sizes.extent(strips.axis)}", strips.body[0]
        if strips.binding is Binding.STRIP:
            threads = f"threaded ? {self.expressions.use('thread_count')}() : 1"
            call = f"{self.expressions.use('strip_rows')}({self.sizes.extent(strips.axis)}, "
            most, apart = str(strips.step), ""
            if strips.unit > 1:
                apart = f", {self.sizes.parameter('unit', strips.unit)}"
                most = self.sizes.parameter("most", strips.step // strips.unit * strips.unit)
            call += f"{most}, {outer.removeprefix('1 * ')}, {threads}{apart})"
            self.out.line(f"const int strip = {call};")

    def _strips(self, loop: Loop) -> None:
        """As many rows at a time as keep all threads busy, if none outside does."""
        index, name = self.index, self.sizes.axis(loop.axis)
        extent = self.sizes.extent(loop.axis)
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; {name} += strip)"):
            left = f"{extent} - {name}"
            self.out.line(f"const int {_ROWS} = {left} < strip ? {left} : strip;")
            self._strip(loop)

    def _strip(self, loop: Loop) -> None:
        """What is done with a strip, of which the number of rows is known."""
        self.sizes.name_axis(lanes_of(loop.axis, loop.step)[0], "lane")
        self._lanes_used = _ROWS
        self.nodes(loop.body)
        self._lanes_used = None

    def _unrolled(self, loop: Loop) -> None:
        """Some elements of every row of a strip at a time: its lanes are read and written less. Of
        what many at a time leave, some are done together still; where a round has costs of its own,
        half as many."""
        parts, start, extent = self._parts_of_round(loop)
        rounds, fewer = loop.step, 4 if all(part.of_elements for part in parts) else 2
        while rounds > 1:
            whole = f"for (; {start} + {rounds} <= {extent}; {start} += {rounds})"
            with self.out.block(whole), self.rows_side_by_side():
                self._round(parts, [f"{start} + {step}" for step in range(rounds)])
            rounds //= fewer
        with self.out.block(f"for (; {start} < {extent}; ++{start})"), self.rows_side_by_side():
            self._round(parts, [start])

    def _parts_of_round(self, loop: Loop) -> tuple[list[_Part], str, str]:
        """Functions for a round of the row at hand, a variable for where it begins, and where the
        last ends. A round does all of an element before the next, or some of each, and then more.
        """
        if not any(map(_is_of_round, loop.body)):
            body, start, extent = self.element(loop)
            return [_Part(body, of_elements=True)], start, extent
        number, self._sweeps = self._sweeps, self._sweeps + 1
        parts: list[_Part] = []
        for node in loop.body:
            part = _Part(f"part{number}_{len(parts)}", _is_of_round(node))
            element = (
                f"const {self.index} {self.sizes.axis(loop.axis)}, " if part.of_elements else ""
            )
            head = f"const auto {part.name} = [&]({element}const int lane)"
            with self.out.block(f"{head} __attribute__((always_inline))", end="};"):
                self.nodes(node.body if isinstance(node, Loop) else (node,))
            parts.append(part)
        (first, extent), start = self.range_of(loop.axis), f"start{number}"
        self.out.line(f"{self.index} {start} = {first};")
        return parts, start, extent

    def _round(self, parts: Sequence[_Part], elements: Sequence[str]) -> None:
        """What a round of `elements` does in the lane of a row."""
        for part in parts:
            for element in elements if part.of_elements else ():
                self.out.line(f"{part.name}({element}, lane);")
            if not part.of_elements:
                self.out.line(f"{part.name}(lane);")

    @contextmanager
    def rows_side_by_side(self) -> Generator[None]:
        """Print a loop, meanwhile, over the rows of a strip."""
        self.out.line("#pragma omp simd")
        with self.out.block(self._each_row()):
            yield

    def _each_row(self) -> str:
        return f"for (int lane = 0; lane < {_ROWS}; ++lane)"


def _is_of_round(node: Node) -> bool:
    return isinstance(node, Loop) and node.binding is Binding.OF_ROUND
