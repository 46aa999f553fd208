"""C++ for rounds of lanes on the CPU target, and for what is left of a row after them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from fuser.codegen.cpu_chunks import CpuChunkPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.expressions import REPEATED
from fuser.schedule.loop_tree import Loop
from fuser.schedule.statements import Load, Prefetch


class CpuRoundPrinter(CpuChunkPrinter):
    """Sweeps along a row, some lanes at a time."""

    def bound(self, loop: Loop) -> None:
        if loop.binding in (Binding.SWEEP, Binding.ROUNDS):
            self.sizes.in_lanes(loop.axis)
            self._sweep(loop)
        else:
            super().bound(loop)

    def _sweep(self, loop: Loop) -> None:
        """One body for the rounds of lanes and for what is left of the row."""
        if any(isinstance(node, Loop) for node in loop.body):
            self._phased_rounds(loop)
            return
        has_flags = any(isinstance(node, Load) and not node.drawn for node in _of_round(loop))
        room = self.out.block("") if has_flags else nullcontext()  # other sweeps have such names
        with self.in_own_lanes(loop, self.has_points(loop)), room:
            self._rounds(loop)

    def _rounds(self, loop: Loop) -> None:
        body, start, extent = self.element(loop)
        may_repeat, step = loop.binding is Binding.ROUNDS, loop.step
        lanes = f"for (int lane = 0; lane < {step}; ++lane)"
        with self.out.block(f"for (; {start} + {step} <= {extent}; {start} += {step})"):
            self._begin_round(loop, start, _of_round(loop))
            self.out.line("#pragma omp simd")
            self.out.line(f"{lanes} {body}({start} + lane, lane{', false' if may_repeat else ''});")
        if may_repeat:
            with self.out.block(f"if ({start} < {extent})"):
                self.out.line(f"const int done = int({start} + {step} - {extent});")
                flags = [node for node in _of_round(loop) if isinstance(node, Load)]
                self._begin_round(loop, f"{extent} - {step}", flags)
                self.out.line("#pragma omp simd")
                self.out.line(f"{lanes} {body}({extent} - {step} + lane, lane, lane < done);")
            return
        each = f"for (int lane = 0; lane < {extent} - {start}; ++lane)"
        call = f"{each} {body}({start} + lane, lane);"
        if drawn := [node for node in _of_round(loop) if isinstance(node, Load)]:
            with self.out.block(f"if ({start} < {extent})"):
                self._begin_round(loop, start, drawn)
                self.out.line(call)
        else:
            self.out.line(call)

    def _phased_rounds(self, loop: Loop) -> None:
        """Rounds of lanes, each in phases with calls of all lanes between them. The last round is
        moved back to end in range."""
        number, self._sweeps = self._sweeps, self._sweeps + 1
        index, name, step = self.index, self.sizes.axis(loop.axis), loop.step
        (begin, end), start, body = self.range_of(loop.axis), f"start{number}", f"round{number}"
        head = f"const auto {body} = [&](const {index} {name}, const int done)"
        with self.out.block(f"{head} __attribute__((always_inline))", end="};"):
            self.out.line(f"const {index} first = {name};")
            self._chunk_axis, self._repeating = loop.axis, True
            self.nodes(loop.body)
            self._chunk_axis, self._repeating = None, False
        self.out.line(f"{index} {start} = {begin};")
        whole = f"for (; {start} + {step} <= {end}; {start} += {step})"
        self.out.line(f"{whole} {body}({start}, 0);")
        rest = f"{body}({end} - {step}, int({start} + {step} - {end}))"
        self.out.line(f"if ({start} < {end}) {rest};")

    def element(self, loop: Loop) -> tuple[str, str, str]:
        """A function that does one element in a lane, a variable for where it is done next, and
        where the sweep ends."""
        number, self._sweeps = self._sweeps, self._sweeps + 1
        index, name = self.index, self.sizes.axis(loop.axis)
        first, extent = self.range_of(loop.axis)
        body, start = f"sweep{number}", f"start{number}"
        of_round = _of_round(loop)
        for node in of_round:
            if not isinstance(node, Load):
                continue
            self.expressions.loaded(node.name, node.tensor.dtype)
            self.expressions.lane_arrays.add(node.name)
            if node.drawn:
                type_ = self.expressions.type(node.tensor.dtype)
                self.out.line(f"{self.draw_room(node, node.drawn)};")
                self.out.line(f"const {type_}* {node.name};")
            else:
                self.out.line(f"{self.wide_room(node)};")
        repeats = f", const bool {REPEATED.name}" if loop.binding is Binding.ROUNDS else ""
        head = f"const auto {body} = [&](const {index} {name}, const int lane{repeats})"
        with self.out.block(f"{head} __attribute__((always_inline))", end="};"):
            self.nodes(tuple(node for node in loop.body if node not in of_round))
        self.out.line(f"{index} {start} = {first};")
        return body, start, extent

    def _begin_round(self, loop: Loop, start: str, nodes: Sequence[Load | Prefetch]) -> None:
        """What a round of lanes draws, and what it asks for besides."""
        if nodes:
            index = self.index
            self.out.line(f"const {index} {self.sizes.axis(loop.axis)} = {start};")
        for node in nodes:
            if isinstance(node, Load):
                lanes = self.drawn_lanes(node, node.drawn) if node.drawn else self.wide_lanes(node)
                self.out.line(f"{lanes};")
            else:
                self.node(node)


def _of_round(loop: Loop) -> list[Load | Prefetch]:
    """What is done once for all lanes of a sweep."""
    several = (node for node in loop.body if isinstance(node, Load | Prefetch) and node.lanes > 1)
    return list(several)
