"""C++ for loops over ranges of an axis on the CPU target: shared out over threads, or in blocks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fuser.codegen.cpu_checks import CpuCheckPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.index import Axis
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop
from fuser.segmenter import Segment

_OVER_THREADS = (Binding.PARALLEL, Binding.STRIP, Binding.BLOCKS, Binding.BATCHES)


class CpuRangePrinter(CpuCheckPrinter):
    """Loops over all of an axis or a range of it, each element by itself."""

    _threads_started = False
    """Whether a parallel region is open, so that loops only share out their iterations."""
    _dividing = False
    """Whether loops are one thread's: an outer one is shared out, or there is one thread only."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._ranges: dict[Axis, tuple[str, str]] = {}
        """Where loops over an axis start and end, where that is not at its ends."""

    def loop(self, loop: Loop) -> None:
        if loop.span is None:
            self.bound(loop)
            return
        name = f"{self.sizes.extent(loop.axis)}_part"
        first, end = (self.sizes.parameter(name, place) if place else "0" for place in loop.span)
        with self.in_range(loop.axis, first, end):
            self.bound(loop)

    def bound(self, loop: Loop) -> None:
        """A loop over the range at hand, by its binding."""
        match loop.binding:
            case Binding.PARALLEL | Binding.BLOCKS:
                self.over_threads(loop)
            case Binding.SIMD:
                self.sizes.in_lanes(loop.axis)
                alone = not self._dividing and not self._threads_started
                threads = "parallel for simd if (parallel : threaded)" if alone else "simd"
                with self.side_by_side(loop, threads, self.has_points(loop)):
                    self.iterations(loop)
            case _:
                self.iterations(loop)

    def over_threads(self, loop: Loop) -> None:
        """The outermost loop over threads shares out its iterations, with those of the next."""
        if not self._dividing:
            depth = self._nested_over_threads(loop)
            collapse = f" collapse({depth})" if depth > 1 else ""
            start = "for" if self._threads_started else "parallel for"
            condition = "" if self._threads_started else " if (threaded)"
            self.out.line(f"#pragma omp {start}{collapse}{self.shares(loop)}{condition}")
        outer, self._dividing = self._dividing, True
        self.iterations(loop)
        self._dividing = outer

    def shares(self, loop: Loop) -> str:
        """How threads share out the iterations of a loop, if not evenly."""
        return ""

    @staticmethod
    def _nested_over_threads(loop: Loop) -> int:
        inside = loop.body[0]
        nested = isinstance(inside, Loop) and inside.binding in _OVER_THREADS
        return 2 if nested and len(loop.body) == 1 else 1

    def iterations(self, loop: Loop) -> None:
        """The loop itself, without what shares it out."""
        if loop.binding is Binding.BLOCKS:
            self._blocks(loop)
            return
        name, index = self.sizes.axis(loop.axis), self.index
        first, end = self.range_of(loop.axis)
        with self.out.block(f"for ({index} {name} = {first}; {name} < {end}; ++{name})"):
            self.nodes(loop.body)

    def _blocks(self, loop: Loop) -> None:
        """Blocks of an axis, or of a block of it."""
        index, (first, end) = self.index, self.range_of(loop.axis)
        name = "block" if first == "0" else "inner_block"
        size = self.block_size(loop)
        head = f"for ({index} {name} = {first}; {name} < {end}; {name} += {size})"
        with self.out.block(head):
            left = f"{end} - {name}"
            last = f"{name} + ({left} < {size} ? {left} : {size})"
            self.out.line(f"const {index} {name}_end = {last};")
            with self.in_range(loop.axis, name, f"{name}_end"):
                self.nodes(loop.body)

    def block_size(self, loop: Loop) -> str:
        """How many elements a block of a loop has, the last but for what is left."""
        return str(loop.step)

    def range_of(self, axis: Axis) -> tuple[str, str]:
        """Where a sweep over an axis starts and ends."""
        return self._ranges.get(axis) or ("0", self.sizes.extent(axis))

    @contextmanager
    def in_range(self, axis: Axis, first: str, end: str) -> Generator[None]:
        """Sweeps over an axis do a part of it."""
        outer = self._ranges
        self._ranges = outer | {axis: (first, end)}
        yield
        self._ranges = outer

    def has_points(self, loop: Loop) -> str:
        """A condition that holds if a loop does anything."""
        first, end = self.range_of(loop.axis)
        return f"{first} < {end}"
