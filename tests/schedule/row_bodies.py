"""Row bodies of small definitions, drawn line by line.

rows 8
sweep 6: load T0; T1 = fold maximum
sweep 6: load T0, sub, exp; T4 = fold add
sweep 6: load T0, sub, exp, truediv; store T5
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.passes.lower_reductions import lower_reductions
from fuser.schedule import CudaRowParameters
from fuser.schedule.code.row_body import Code, RowBody, Sweep
from fuser.schedule.code.row_slots import conflict_free, team_partial
from fuser.schedule.indices.index import Axis
from fuser.schedule.rows.axes import arrange_rows
from fuser.schedule.rows.cuda.work import RowWork
from fuser.schedule.rows.trace import trace_rows
from fuser.schedule.tree.buffers import Buffers
from fuser.schedule.tree.expressions import Call, Convert
from fuser.schedule.tree.row_statements import Keep, Kept
from fuser.schedule.tree.statements import CheckedIndex, Let, Load
from fuser.segmenter import GPU, Segment, segment
from fuser.segmenter.machine import Machine
from tests.definitions import Define, defined
from tests.row_functions import softmax
from tests.segmented import concrete, memory_of


def segments_of(
    define: Define, *inputs: torch.Tensor | float, machine: Machine = GPU
) -> tuple[Segment, ...]:
    """The segments of a definition for inputs of these sizes and strides."""
    fusion = lower_reductions(concrete(defined(define, *inputs).fusion, inputs))
    return segment(fusion, memory_of(fusion, inputs), machine).segments


def segment_of(define: Define, *inputs: torch.Tensor | float, machine: Machine = GPU) -> Segment:
    (only,) = segments_of(define, *inputs, machine=machine)
    return only


def body_of(define: Define, *inputs: torch.Tensor | float) -> RowBody:
    """The row body of a definition that is one kernel."""
    return trace_rows(segment_of(define, *inputs))


def calls(nodes: Iterable[object]) -> list[str]:
    """The operations that lets among nodes call, in order."""
    lets = [node for node in nodes if isinstance(node, Let)]
    return [node.expression.op for node in lets if isinstance(node.expression, Call)]


def work_of(define: Define, *inputs: torch.Tensor) -> RowWork:
    """The rows of a definition that is one kernel, as a team for them is chosen."""
    segment = segment_of(define, *inputs)
    body = arrange_rows(trace_rows(segment))
    stages = [part for sweep in body.stages for part in conflict_free(sweep)]
    partials = tuple(map(team_partial, body.folds_over_rows))
    alignments = {lies.base: 64 for lies in segment.memory.values()}
    buffers = Buffers(segment.memory, alignments)
    return RowWork(segment, body, stages, partials, buffers, CudaRowParameters())


def drawn(body: RowBody) -> list[str]:
    """The stages of a row, and the epilogue."""
    lines = [f"rows {_sizes(body.rows) or 'one'}"]
    lines += [_line("sweep", sweep) for sweep in body.stages]
    return lines + [_line("at last", sweep) for sweep in body.epilogue]


def _line(kind: str, sweep: Sweep) -> str:
    where = f"{kind} {_sizes(sweep.axes)}" if sweep.axes else ("once" if kind == "sweep" else kind)
    parts = [", ".join(map(_word, sweep.code))] if sweep.code else []
    folds = [fold for fold in sweep.folds if kind == "sweep"]
    parts += [
        f"{fold.name} = fold {fold.operation}" + (f" into {fold.slots}" if fold.slots else "")
        for fold in folds
    ]
    parts += [f"store {store.tensor}" for store in sweep.stores]
    return f"{where}: {'; '.join(parts)}"


def _word(node: Code) -> str:
    match node:
        case Load():
            return f"load {node.tensor}"
        case CheckedIndex():
            return f"check {node.operation} < {node.size}"
        case Keep():
            return f"keep {node.name}"
        case Kept():
            return f"kept {node.name}"
        case Let():
            return _made(node)


def _made(let: Let) -> str:
    if isinstance(let.expression, Call):
        return let.expression.op
    return "cast" if isinstance(let.expression, Convert) else type(let.expression).__name__.lower()


def _sizes(axes: Iterable[Axis]) -> str:
    return " x ".join(str(axis.extent) for axis in axes)


# -- definitions ---------------------------------------------------------------------------------


def loss(fd: FusionDefinition, x: Handle, target: Handle) -> list[Handle]:
    """Cross entropy: the mean, and each row's."""
    shifted = x - fd.ops.max(x, [1], keepdim=True)
    logs = shifted - fd.ops.log(fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True))
    at = fd.ops.broadcast(target, [False, True])
    losses = fd.ops.neg(fd.ops.squeeze(fd.ops.gather(logs, at, 1), [1]))
    return [fd.ops.mean(losses), losses]


def column_sums(fd: FusionDefinition, x: Handle) -> Handle:
    """A fold over rows that have folds too."""
    return fd.ops.sum(softmax(fd, x), [0])


def sums(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.cumsum(x, 1)
