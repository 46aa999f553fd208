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
from contextlib import contextmanager, nullcontext

from fuser.codegen.cpu.kernel import CpuKernel
from fuser.codegen.indices import (
    given_index,
    index_in_range,
    new_check,
    range_of_index,
    reported_index,
)
from fuser.schedule.tree.loop_tree import Loop
from fuser.schedule.tree.statements import CheckedIndex


def checked_index(kernel: CpuKernel, node: CheckedIndex) -> None:
    """An index that is another number, and reported, where it is out of range."""
    name = f"{node.name}[lane]" if node.in_lanes else f"const long long {node.name}"
    if not node.in_lanes:  # it may have been in those of another part of the row
        kernel.expressions.lane_arrays.discard(node.name)
    if node.skips:
        _checked_or_skipped(kernel, node)
    elif not node.reports:
        kernel.out.line(f"{name} = {index_in_range(kernel, node)};")
    elif node.name in kernel.around.largest:
        at, held = _from_start(kernel, node), kernel.around.largest[node.name]
        kernel.out.line(f"{held} = {at} > {held} ? {at} : {held};")
        size = kernel.sizes.parameter(f"{node.name}_size", node.size)
        index = f"{kernel.expressions.use('index_or')}({node.outside}, {at}, {size})"
        kernel.out.line(f"{name} = {index};")
    else:
        kernel.out.line(f"{name} = {reported_index(kernel, node)};")


def _checked_or_skipped(kernel: CpuKernel, node: CheckedIndex) -> None:
    """An index that ends its iteration, reported, where it is out of range: none is chosen
    between then, and what adds to the place that it names need not wait for the choice."""
    size = kernel.sizes.parameter(f"{node.name}_size", node.size)
    at = _from_start(kernel, node)
    with kernel.out.block(
        f"if (__builtin_expect({at} >= static_cast<unsigned long long>({size}), 0))"
    ):
        _report(kernel, "report_index", node, at)
        kernel.out.line("continue;")
    kernel.out.line(f"const long long {node.name} = {at};")


def _from_start(kernel: CpuKernel, node: CheckedIndex) -> str:
    """Print an index, counted from the start; its name."""
    at, call = f"{node.name}_at", kernel.expressions.use("index_from_start")
    kernel.out.line(f"const unsigned long long {at} = {call}({given_index(kernel, node)});")
    return at


@contextmanager
def side_by_side(
    kernel: CpuKernel, loop: Loop, pragma: str, unless_empty: str = ""
) -> Generator[None]:
    """Print a loop, meanwhile, whose iterations are done side by side. One that is empty has
    checked nothing: that matters where the dimension is."""
    with _reported_after(kernel, loop, "report_index", unless_empty) as held:
        for name in held:
            kernel.out.line(f"unsigned long long {name} = 0;")
        reduction = f" reduction(max : {', '.join(held)})" if held else ""
        kernel.out.line(f"#pragma omp {pragma}{reduction}")
        yield


@contextmanager
def in_own_lanes(kernel: CpuKernel, loop: Loop) -> Generator[None]:
    """Print a sweep, meanwhile, that does each element in one of its lanes."""
    checked = _reported_after(kernel, loop, "report_largest", kernel.has_points(loop), "[lane]")
    with checked as held:
        for name in held:
            kernel.out.line(f"unsigned long long {name}[{loop.step}];")
            kernel.out.line(f"for (int lane = 0; lane < {loop.step}; ++lane) {name}[lane] = 0;")
        yield


@contextmanager
def _reported_after(
    kernel: CpuKernel, loop: Loop, report: str, unless_empty: str, place: str = ""
) -> Generator[list[str]]:
    """Print a loop, meanwhile, that finds the largest of each index which it checks, and then the
    reports. Gives the variables of these, a number each or, at `place`, one of several."""
    nodes = [node for node in loop.body if isinstance(node, CheckedIndex) and node.reports]
    held = {node.name: f"{node.name}_largest" for node in nodes}
    largest = {name: f"{variable}{place}" for name, variable in held.items()}
    # A block if anything is held: of a row in parts, each checks the same index.
    with kernel.out.block("") if held else nullcontext():
        with kernel.within(largest={**kernel.around.largest, **largest}):
            yield list(held.values())
        for node in nodes:
            _report(kernel, report, node, held[node.name], unless_empty)


def _report(
    kernel: CpuKernel, function: str, node: CheckedIndex, held: str, unless_empty: str = ""
) -> None:
    given = f"{held}, {range_of_index(kernel, node)}, {new_check(kernel, node)}"
    condition = f"if ({unless_empty}) " if unless_empty else ""
    kernel.out.line(f"{condition}{kernel.expressions.use(function)}({given});")
