"""Indices that are checked, on any target: whether they name a place, and what is reported."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fuser.codegen.kernel_source import IndexCheck
from fuser.codegen.printer import KernelPrinter
from fuser.ir.dtypes import DataType
from fuser.schedule.indices.index import Index
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.expressions import convert
from fuser.schedule.tree.loop_tree import every_node
from fuser.schedule.tree.statements import CheckedIndex

Kernel = KernelPrinter[Any]


def place_exists(kernel: Kernel, at: Index) -> str:
    """That no index by which a scatter finds a place is -1, out of range; empty if none can be."""
    found = [variable.name for variable in variables_of(at)]
    nodes = every_node(kernel.nest.body) if found else ()
    checks = (node for node in nodes if isinstance(node, CheckedIndex))
    may_miss = {node.name for node in checks if node.outside < 0}
    lane = dict.fromkeys(kernel.sizes.lane_arrays, "[lane]")
    return " && ".join(f"{n}{lane.get(n, '')} >= 0" for n in found if n in may_miss)


def if_place_exists(kernel: Kernel, at: Index) -> AbstractContextManager[None]:
    """Print, meanwhile, what is done only where there is such a place."""
    exists = place_exists(kernel, at)
    return kernel.out.block(f"if ({exists})") if exists else nullcontext()


def reported_index(kernel: Kernel, node: CheckedIndex) -> str:
    """An index that is reported where it is out of range."""
    given = f"{given_index(kernel, node)}, {node.outside}, {new_check(kernel, node)}"
    return f"{kernel.expressions.use('checked_index')}({given})"


def index_in_range(kernel: Kernel, node: CheckedIndex) -> str:
    """An index that is not reported where it is out of range."""
    use = kernel.expressions.use("index_in_range")
    return f"{use}({given_index(kernel, node)}, {node.outside})"


def given_index(kernel: Kernel, node: CheckedIndex) -> str:
    """What a check is told of an index: its value, the size, and whether it wraps."""
    value = kernel.expressions.let(node.name, convert(node.value, DataType.Int))
    return f"{value}, {range_of_index(kernel, node)}"


def range_of_index(kernel: Kernel, node: CheckedIndex) -> str:
    """The size of the dimension that an index counts, and whether it wraps."""
    size = kernel.sizes.parameter(f"{node.name}_size", node.size)
    return f"{size}, {'true' if node.wraps else 'false'}"


def new_check(kernel: Kernel, node: CheckedIndex) -> str:
    """What a report is told: the number of the check, and where to write."""
    kernel.checks.append(IndexCheck(node.operation, node.size, node.wraps))
    return f"{len(kernel.checks)}, errors"
