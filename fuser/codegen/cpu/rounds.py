"""C++ for rounds of lanes on the CPU target, and for what is left of a row after them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from fuser.codegen.cpu.checks import in_own_lanes
from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.cpu.surroundings import Chunk, Stored
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import REPEATED
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.statements import Lanes, Load, Prefetch


def over_rounds(kernel: CpuKernel, loop: Loop) -> None:
    """Sweeps along a row, some lanes at a time: one body for them and for what is left of it."""
    kernel.sizes.in_lanes(loop.axis)
    if any(isinstance(node, Loop) for node in loop.body):
        _phased_rounds(kernel, loop)
        return
    has_room = any(isinstance(node, Load) for node in _of_round(loop))
    room = kernel.out.block("") if has_room else nullcontext()  # other sweeps have such names
    with in_own_lanes(kernel, loop), room:
        kernel.nodes(_held(loop))
        _rounds(kernel, loop)


def _rounds(kernel: CpuKernel, loop: Loop) -> None:
    body, start, extent = element(kernel, loop)
    may_repeat, step = loop.binding is Binding.ROUNDS, loop.step
    lanes = f"for (int lane = 0; lane < {step}; ++lane)"
    with kernel.out.block(f"for (; {start} + {step} <= {extent}; {start} += {step})"):
        _begin_round(kernel, loop, start, _of_round(loop))
        kernel.out.line("#pragma omp simd")
        kernel.out.line(f"{lanes} {body}({start} + lane, lane{', false' if may_repeat else ''});")
    if may_repeat:
        with kernel.out.block(f"if ({start} < {extent})"):
            kernel.out.line(f"const int done = int({start} + {step} - {extent});")
            flags = [node for node in _of_round(loop) if isinstance(node, Load)]
            _begin_round(kernel, loop, f"{extent} - {step}", flags)
            kernel.out.line("#pragma omp simd")
            kernel.out.line(f"{lanes} {body}({extent} - {step} + lane, lane, lane < done);")
        return
    each = f"for (int lane = 0; lane < {extent} - {start}; ++lane)"
    call = f"{each} {body}({start} + lane, lane);"
    if drawn := [node for node in _of_round(loop) if isinstance(node, Load)]:
        with kernel.out.block(f"if ({start} < {extent})"):
            _begin_round(kernel, loop, start, drawn)
            kernel.out.line(call)
    else:
        kernel.out.line(call)


def _phased_rounds(kernel: CpuKernel, loop: Loop) -> None:
    """Rounds of lanes, each in phases with calls of all lanes between them. The last round is
    moved back to end in range."""
    number = next(kernel.numbers)
    index, name, step = kernel.index, kernel.sizes.axis(loop.axis), loop.step
    (begin, end), start, body = kernel.range_of(loop.axis), f"start{number}", f"round{number}"
    with kernel.function(body, f"const {index} {name}, const int done"):
        kernel.out.line(f"const {index} first = {name};")
        with kernel.within(chunk=Chunk(loop.axis, Stored.AGAIN)):
            kernel.nodes(loop.body)
    kernel.out.line(f"{index} {start} = {begin};")
    whole = f"for (; {start} + {step} <= {end}; {start} += {step})"
    kernel.out.line(f"{whole} {body}({start}, 0);")
    rest = f"{body}({end} - {step}, int({start} + {step} - {end}))"
    kernel.out.line(f"if ({start} < {end}) {rest};")


def element(kernel: CpuKernel, loop: Loop) -> tuple[str, str, str]:
    """A function that does one element in a lane, a variable for where it is done next, and
    where the sweep ends."""
    number = next(kernel.numbers)
    index, name = kernel.index, kernel.sizes.axis(loop.axis)
    first, extent = kernel.range_of(loop.axis)
    body, start = f"sweep{number}", f"start{number}"
    of_round = _of_round(loop)
    for node in of_round:
        if not isinstance(node, Load):
            continue
        kernel.expressions.known.loaded(node.name, node.dtype)
        kernel.expressions.lane_arrays.add(node.name)
        if node.drawn:
            type_ = kernel.expressions.type(node.dtype)
            kernel.out.line(f"{kernel.draw_room(node, node.drawn)};")
            kernel.out.line(f"const {type_}* {node.name};")
        else:
            kernel.out.line(f"{kernel.wide_room(node)};")
    repeats = f", const bool {REPEATED.name}" if loop.binding is Binding.ROUNDS else ""
    with kernel.function(body, f"const {index} {name}, const int lane{repeats}"):
        before = (*of_round, *_held(loop))
        kernel.nodes(tuple(node for node in loop.body if node not in before))
    kernel.out.line(f"{index} {start} = {first};")
    return body, start, extent


def _begin_round(
    kernel: CpuKernel, loop: Loop, start: str, nodes: Sequence[Load | Prefetch]
) -> None:
    """What a round of lanes draws, and what it asks for besides."""
    if nodes:
        index = kernel.index
        kernel.out.line(f"const {index} {kernel.sizes.axis(loop.axis)} = {start};")
    for node in nodes:
        if isinstance(node, Load):
            lanes = kernel.drawn_lanes(node, node.drawn) if node.drawn else kernel.wide_lanes(node)
            kernel.out.line(f"{lanes};")
        else:
            kernel.node(node)


def _held(loop: Loop) -> tuple[Lanes, ...]:
    """What all rounds of a sweep have in their lanes."""
    return tuple(node for node in loop.body if isinstance(node, Lanes))


def _of_round(loop: Loop) -> list[Load | Prefetch]:
    """What is done once for all lanes of a sweep."""
    several = (node for node in loop.body if isinstance(node, Load | Prefetch) and node.lanes > 1)
    return list(several)
