"""C++ for strips on the CPU target: neighbouring rows in lanes, element by element."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fuser.codegen.cpu_rounds import CpuRoundPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.index import lanes_of
from fuser.schedule.loop_tree import Loop

_ROWS = "rows"
"""The variable that holds how many rows a strip has."""


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
        what many at a time leave, some are done together still."""
        body, start, extent = self.element(loop)
        rounds = loop.step
        while rounds > 1:
            whole = f"for (; {start} + {rounds} <= {extent}; {start} += {rounds})"
            with self.out.block(whole), self.rows_side_by_side():
                for step in range(rounds):
                    self.out.line(f"{body}({start} + {step}, lane);")
            rounds //= 4
        with self.out.block(f"for (; {start} < {extent}; ++{start})"), self.rows_side_by_side():
            self.out.line(f"{body}({start}, lane);")

    @contextmanager
    def rows_side_by_side(self) -> Generator[None]:
        """Print a loop, meanwhile, over the rows of a strip."""
        self.out.line("#pragma omp simd")
        with self.out.block(self._each_row()):
            yield

    def _each_row(self) -> str:
        return f"for (int lane = 0; lane < {_ROWS}; ++lane)"
