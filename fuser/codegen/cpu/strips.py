"""C++ for strips on the CPU target: neighbouring rows in lanes, element by element."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.rounds import element
from fuser.schedule.indices.index import lanes_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.loop_tree import Loop, Node

ROWS = "rows"
"""The variable that holds how many rows a strip has."""

_EACH_ROW = f"for (int lane = 0; lane < {ROWS}; ++lane)"


@dataclass(frozen=True, slots=True)
class _Part:
    """A function of a round: of each of its elements, or of all together."""

    name: str
    of_elements: bool


def over_columns(kernel: CpuKernel, loop: Loop) -> None:
    """All rows, as one strip."""
    with kernel.out.block(""):
        kernel.out.line(f"{_column_count(kernel, loop)};")
        _strip(kernel, loop)


def over_rows_of_strip(kernel: CpuKernel, loop: Loop) -> None:
    """What is done with each row of the strip at hand."""
    with kernel.out.block(_EACH_ROW):
        kernel.nodes(loop.body)


def _column_count(kernel: CpuKernel, loop: Loop) -> str:
    """How many columns there are: a number, where the kernel has room for no more."""
    if loop.step == loop.axis.extent:
        return f"constexpr int {ROWS} = {loop.step}"
    return f"const int {ROWS} = int({kernel.sizes.extent(loop.axis)})"


def choose_strip(kernel: CpuKernel, loop: Loop) -> None:
    """How many rows are done side by side; every thread has the same number of strips."""
    outer, strips = "1", loop
    while strips.binding is Binding.PARALLEL and isinstance(strips.body[0], Loop):
        outer, strips = f"{outer} * {kernel.sizes.extent(strips.axis)}", strips.body[0]
    if strips.binding is Binding.STRIP:
        threads = f"threaded ? {kernel.expressions.use('thread_count')}() : 1"
        call = f"{kernel.expressions.use('strip_rows')}({kernel.sizes.extent(strips.axis)}, "
        most, apart = str(strips.step), ""
        if strips.unit > 1:
            apart = f", {kernel.sizes.parameter('unit', strips.unit)}"
            most = kernel.sizes.parameter("most", strips.step // strips.unit * strips.unit)
        call += f"{most}, {outer.removeprefix('1 * ')}, {threads}{apart})"
        kernel.out.line(f"const int strip = {call};")


def over_strips(kernel: CpuKernel, loop: Loop) -> None:
    """As many rows at a time as keep all threads busy, if none outside does."""
    index, name = kernel.index, kernel.sizes.axis(loop.axis)
    extent = kernel.sizes.extent(loop.axis)
    with kernel.out.block(f"for ({index} {name} = 0; {name} < {extent}; {name} += strip)"):
        left = f"{extent} - {name}"
        kernel.out.line(f"const int {ROWS} = {left} < strip ? {left} : strip;")
        _strip(kernel, loop)


def _strip(kernel: CpuKernel, loop: Loop) -> None:
    """What is done with a strip, of which the number of rows is known."""
    kernel.sizes.name_axis(lanes_of(loop.axis, loop.step)[0], "lane")
    with kernel.within(lanes_used=ROWS):
        kernel.nodes(loop.body)


def over_unrolled(kernel: CpuKernel, loop: Loop) -> None:
    """Some elements of every row of a strip at a time: its lanes are read and written less. Of
    what many at a time leave, some are done together still; where a round has costs of its own,
    half as many."""
    parts, start, extent = _parts_of_round(kernel, loop)
    rounds, fewer = loop.step, 4 if all(part.of_elements for part in parts) else 2
    while rounds > 1:
        whole = f"for (; {start} + {rounds} <= {extent}; {start} += {rounds})"
        with kernel.out.block(whole), rows_side_by_side(kernel):
            _round(kernel, parts, [f"{start} + {step}" for step in range(rounds)])
        rounds //= fewer
    with kernel.out.block(f"for (; {start} < {extent}; ++{start})"), rows_side_by_side(kernel):
        _round(kernel, parts, [start])


def _parts_of_round(kernel: CpuKernel, loop: Loop) -> tuple[list[_Part], str, str]:
    """Functions for a round of the row at hand, a variable for where it begins, and where the
    last ends. A round does all of an element before the next, or some of each, and then more.
    """
    if not any(map(_is_of_round, loop.body)):
        body, start, extent = element(kernel, loop)
        return [_Part(body, of_elements=True)], start, extent
    number = next(kernel.numbers)
    parts: list[_Part] = []
    for node in loop.body:
        part = _Part(f"part{number}_{len(parts)}", _is_of_round(node))
        which = f"const {kernel.index} {kernel.sizes.axis(loop.axis)}, " if part.of_elements else ""
        with kernel.function(part.name, f"{which}const int lane"):
            kernel.nodes(node.body if isinstance(node, Loop) else (node,))
        parts.append(part)
    (first, extent), start = kernel.range_of(loop.axis), f"start{number}"
    kernel.out.line(f"{kernel.index} {start} = {first};")
    return parts, start, extent


def _round(kernel: CpuKernel, parts: Sequence[_Part], elements: Sequence[str]) -> None:
    """What a round of `elements` does in the lane of a row."""
    for part in parts:
        for place in elements if part.of_elements else ():
            kernel.out.line(f"{part.name}({place}, lane);")
        if not part.of_elements:
            kernel.out.line(f"{part.name}(lane);")


@contextmanager
def rows_side_by_side(kernel: CpuKernel) -> Generator[None]:
    """Print a loop, meanwhile, over the rows of a strip."""
    kernel.out.line("#pragma omp simd")
    with kernel.out.block(_EACH_ROW):
        yield


def _is_of_round(node: Node) -> bool:
    return isinstance(node, Loop) and node.binding is Binding.OF_ROUND
