"""C++ for indices that are checked, on the CPU target.

    for (lane ...) {                                    T3_index_largest = 0;
      T3_index = T2, or 0 and a report            ->    for (lane ...) {
      T1 = T1_in[T3_index];                               T3_index_largest = max of it and T2;
    }                                                     T3_index = T2, or 0;
                                                          T1 = T1_in[T3_index];
                                                        }
                                                        report T3_index_largest

A report is a branch, which keeps a loop from being vectors. So where indices are checked side by
side, the largest of them is found, and that one is reported after the loop. Counted from the start
without a sign, an index that is out of range is larger than all that are in range.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from fuser.codegen.cpu import CpuPrinter
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop
from fuser.schedule.statements import CheckedIndex
from fuser.segmenter import Segment


class CpuCheckPrinter(CpuPrinter):
    """Loops that check indices."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._largest: dict[str, str] = {}
        """Of indices that are checked side by side: where the largest of each is held."""

    def checked_index(self, node: CheckedIndex) -> None:
        """An index that is another number, and reported, where it is out of range."""
        name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
        if node.skips:
            self._checked_or_skipped(node)
        elif not node.reports:
            self.out.line(f"{name} = {self.index_in_range(node)};")
        elif node.name in self._largest:
            at, held = f"{node.name}_at", self._largest[node.name]
            call = f"{self.expressions.use('index_from_start')}({self.given_index(node)})"
            self.out.line(f"const unsigned long long {at} = {call};")
            self.out.line(f"{held} = {at} > {held} ? {at} : {held};")
            size = self.sizes.parameter(f"{node.name}_size", node.size)
            index = f"{self.expressions.use('index_or')}({node.outside}, {at}, {size})"
            self.out.line(f"{name} = {index};")
        else:
            self.out.line(f"{name} = {self.reported_index(node)};")

    def _checked_or_skipped(self, node: CheckedIndex) -> None:
        """An index that ends its iteration, reported, where it is out of range: none is chosen
        between then, and what adds to the place that it names need not wait for the choice."""
        at, size = f"{node.name}_at", self.sizes.parameter(f"{node.name}_size", node.size)
        call = f"{self.expressions.use('index_from_start')}({self.given_index(node)})"
        self.out.line(f"const unsigned long long {at} = {call};")
        with self.out.block(
            f"if (__builtin_expect({at} >= static_cast<unsigned long long>({size}), 0))"
        ):
            self._report("report_index", node, at, "")
            self.out.line("continue;")
        self.out.line(f"const long long {node.name} = {at};")

    @contextmanager
    def side_by_side(self, loop: Loop, pragma: str, unless_empty: str = "") -> Generator[None]:
        """Print a loop, meanwhile, whose iterations are done side by side. One that is empty has
        checked nothing: that matters where the dimension is."""
        nodes = _reporting(loop)
        held = [f"{node.name}_largest" for node in nodes]
        with self._room_for(held):
            for name in held:
                self.out.line(f"unsigned long long {name} = 0;")
            reduction = f" reduction(max : {', '.join(held)})" if held else ""
            self.out.line(f"#pragma omp {pragma}{reduction}")
            with self._held(nodes, held):
                yield
            for node, name in zip(nodes, held, strict=True):
                self._report("report_index", node, name, unless_empty)

    @contextmanager
    def in_own_lanes(self, loop: Loop, unless_empty: str) -> Generator[None]:
        """Print a sweep, meanwhile, that does each element in one of its lanes."""
        nodes = _reporting(loop)
        held = [f"{node.name}_largest" for node in nodes]
        with self._room_for(held):
            for name in held:
                self.out.line(f"unsigned long long {name}[{loop.step}];")
                self.out.line(f"for (int lane = 0; lane < {loop.step}; ++lane) {name}[lane] = 0;")
            with self._held(nodes, [f"{name}[lane]" for name in held]):
                yield
            for node, name in zip(nodes, held, strict=True):
                self._report("report_largest", node, name, unless_empty)

    def _room_for(self, held: list[str]) -> AbstractContextManager[None]:
        """A block if anything is held: of a row in parts, each checks the same index."""
        return self.out.block("") if held else nullcontext()

    @contextmanager
    def _held(self, nodes: list[CheckedIndex], held: list[str]) -> Generator[None]:
        self._largest.update((node.name, name) for node, name in zip(nodes, held, strict=True))
        yield
        for node in nodes:
            del self._largest[node.name]

    def _report(self, function: str, node: CheckedIndex, held: str, unless_empty: str) -> None:
        given = f"{held}, {self.range_of_index(node)}, {self.check(node)}"
        condition = f"if ({unless_empty}) " if unless_empty else ""
        self.out.line(f"{condition}{self.expressions.use(function)}({given});")


def _reporting(loop: Loop) -> list[CheckedIndex]:
    return [node for node in loop.body if isinstance(node, CheckedIndex) and node.reports]
