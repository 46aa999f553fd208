"""Scatters in kernels: what may share one with them, and whose memory they change.

    [full] T1                    a kernel fills the memory of T4
    [mul scatter_add] T4         another adds to it; what makes the source, point by point, is fused

With lists of points, or row by row, a kernel makes every element of the result once: what makes the
base, and what is made of the result, is fused too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fuser.ir.nodes import Fusion, Reduce, Scatter, ScatterForm, Statement, Value
from fuser.ir.strided import Strided
from fuser.segmenter.graph import OperationGraph, Read
from fuser.segmenter.refusal import Refusal


def scattered_into(fusion: Fusion) -> dict[Value, Value]:
    """For each value whose memory a scatter changes: the result, which has that memory then.

    The last scatter comes first, so that what changes the result again is seen before.
    """
    return {
        statement.op.arg: statement.out
        for statement in reversed(fusion.statements)
        if isinstance(statement.op, Scatter) and statement.op.form is ScatterForm.IN_PLACE
    }


def place_scattered(into: Mapping[Value, Value], placed: dict[Value, Strided]) -> None:
    """Let what is scattered into lie where the results do."""
    for before, after in into.items():
        placed[before] = placed[after]


def scatter_refusal(
    operations: OperationGraph, members: Sequence[int], stores: Collection[Value]
) -> Refusal | None:
    """Why nodes cannot share a kernel because of the scatters among them, of which there are."""
    nodes = [operations.nodes[member] for member in members]
    scatters = [node for node in nodes if isinstance(node.op, Scatter)]
    if len(scatters) > 1:
        names = " and ".join(str(node.out) for node in scatters[:2])
        return Refusal(f"{names} are scattered over points of their own")
    return _beside(operations, nodes, scatters[0], stores)


def _beside(
    operations: OperationGraph,
    nodes: list[Statement],
    scatter: Statement,
    stores: Collection[Value],
) -> Refusal | None:
    """Why a scatter cannot share a kernel with other nodes."""
    out, op = scatter.out, scatter.op
    assert isinstance(op, Scatter)
    made = {value for node in nodes for value in node.outs}
    reduced = next((node.out for node in nodes if isinstance(node.op, Reduce)), None)
    if reduced is not None:
        return Refusal(f"{reduced} is reduced over rows, and {out} is scattered over points")
    if op.makes_all:
        return _beside_all(operations, nodes, out, stores)
    if op.arg in made:
        return Refusal(f"all of {op.arg} has to be there before {out} is scattered into it")
    reader = next((node.outs[0] for node in nodes if _reads(operations, node, {out})), None)
    if reader is not None:
        return Refusal(f"{reader} reads {out}, which is there when all points are")
    other = next((value for value in stores if value is not out), None)
    if other is not None:
        return Refusal(f"{out} is scattered point by point, and {other} is stored besides")
    return None


def _beside_all(
    operations: OperationGraph, nodes: list[Statement], out: Value, stores: Collection[Value]
) -> Refusal | None:
    """Why nodes cannot share a kernel that makes `out` element by element."""
    atoms = operations.atoms
    after = {out}
    for node in nodes:
        for read in _reads(operations, node, after):
            if not read.misplaced.isdisjoint(atoms.of(read.value)):
                return Refusal(f"{node.outs[0]} needs {read.value} of other rows than its own")
            after.update(node.outs)
    other = next((value for value in stores if atoms.of(value) != atoms.of(out)), None)
    if other is not None:
        return Refusal(f"{other} is stored over another domain than {out}, a row for each index")
    return None


def _reads(operations: OperationGraph, node: Statement, values: Collection[Value]) -> list[Read]:
    """How a node reads these values."""
    number = operations.maker[node.outs[0]]
    return [read for read in operations.reads[number] if read.value in values]
