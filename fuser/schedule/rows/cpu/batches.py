"""Short rows on a processor, some neighbours at a time.

    T1 = largest of each row of T0 [262144, 32]; T2 = log(T1); T3 = T0 / T2
      for each 16 rows
        one after the other: fold T0 into the row's lanes          the lanes of all rows are joined
        side by side: T2 = log(T1)
        one after the other: store T0 / T2

A row of a few vectors is done sooner than its lanes are joined and what follows from them is known.
So each stage is done for all rows of a batch before the next begins: lanes of several rows are
joined in vectors, and what is done once a row is done for as many rows as a vector has lanes. What
rows know is kept in arrays, an element a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.code.row_body import RowBody, Sweep, contents, names_in
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, Index
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.counts import point_count
from fuser.schedule.tree.expressions import Convert
from fuser.schedule.tree.loop_tree import Loop, Node, nested
from fuser.schedule.tree.row_statements import Combine, Keep, KeepLanes, Kept, RowArray
from fuser.schedule.tree.statements import Let, Load, Store
from fuser.segmenter.refusal import Refusal

Stage = tuple[Sweep, Sequence[Node]]
"""A stage and the nodes that do it for one row."""

Known = dict[str, DataType]
"""Names that stages hand on to later ones, an element of each for every row."""


def as_batches(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """`body` in batches, if rows are so short that some neighbours are done together, of so many
    that few are repeated when the last batch is moved back to end in range. Sums alone are as soon
    joined one by one, and rows that wait for memory wait less if each is read while one before is
    stored."""
    swept = body.swept
    count, batch = body.rows[-1].extent if body.rows else 1, parameters.batch
    if not body.rows or count < batch:
        return Refusal(f"{count} rows are no batch of {batch}")
    if -count % batch * parameters.least_batches > count:
        return Refusal(f"too many of {count} rows would be done twice in batches of {batch}")
    if body.folds_over_rows:
        return Refusal("something is folded over the rows")
    if not any(sweep.folds_of_row for sweep in swept):
        return Refusal("nothing is folded along a row")
    if len(swept) == 1 and _work_once(body) < parameters.batched_work:
        return Refusal("a row is swept once, and little is computed once a row")
    if any(sweep.scans for sweep in body.stages):
        return Refusal("a row is scanned")
    if not all(_is_short(sweep, parameters) for sweep in swept):
        return Refusal(f"a row does not have {batch} to {parameters.batched_row} elements")
    if _work(body, parameters) * point_count(body.rows) < parameters.work_of_byte * _bytes(body):
        return Refusal("the memory of rows takes longer than their arithmetic")
    return body


def _is_short(sweep: Sweep, parameters: CpuRowParameters) -> bool:
    elements = point_count(sweep.axes)
    return sweep.axes[-1].extent >= parameters.batch and elements <= parameters.batched_row


def _work_once(body: RowBody) -> int:
    """Instructions that are done once a row, roughly."""
    return sum(sweep.cost for sweep in body.stages if not sweep.axes)


def _work(body: RowBody, parameters: CpuRowParameters) -> float:
    """Instructions for a row, done one at a time, roughly."""
    work = ((sweep, sweep.cost + _conversions(sweep, parameters)) for sweep in body.swept)
    swept = sum(cost * point_count(sweep.axes) for sweep, cost in work)
    joins = sum(len(sweep.folds_of_row) for sweep in body.stages)
    return swept / parameters.batch + parameters.work_of_join * joins + _work_once(body)


def _conversions(sweep: Sweep, parameters: CpuRowParameters) -> int:
    """Instructions for conversions to and from floats of 8 bits, for which there are none."""
    converted = (let.expression for let in sweep.lets if isinstance(let.expression, Convert))
    floats = [at for at in converted if at.dtype.is_byte_float or at.of.dtype.is_byte_float]
    return parameters.work_of_byte_float * len(floats)


def _bytes(body: RowBody) -> int:
    """What all rows read and write: of what several of them read, once."""
    moved: dict[tuple[Value, Index], int] = {}
    for sweep in body.stages:
        for access in sweep.accesses:
            walked = [axis for axis in (*body.rows, *sweep.axes) if access.at.coefficient(axis)]
            size = access.dtype.itemsize
            moved[access.tensor, access.at] = size * point_count(walked)
    return sum(moved.values())


def batches(
    body: RowBody,
    arrays: Iterable[RowArray],
    stages: Sequence[Stage],
    parameters: CpuRowParameters,
) -> tuple[Node, ...]:
    """The loops over rows, given what is done with each, and room for what sweeps keep of one."""
    rows, batch = body.rows[-1], parameters.batch
    known: Known = {}
    nodes: list[Node] = [*arrays]
    for number, stage in enumerate(stages):
        later = set(names_in(contents(sweep for sweep, _ in stages[number + 1 :])))
        made = {name: dtype for name, dtype in _made(stage[0]) if name in later}
        nodes += (RowArray(name, dtype, (rows,)) for name, dtype in made.items())
        nodes += _over_batch(stage, rows, batch, known, made)
        known |= made
    loop = Loop(rows, Binding.BATCHES, tuple(nodes), batch)
    return nested(body.rows[:-1], Binding.PARALLEL, (loop,))


def _over_batch(stage: Stage, rows: Axis, batch: int, known: Known, made: Known) -> Iterator[Node]:
    """A stage of all rows of a batch: each reads what is `known` of it, and keeps what it `made`.
    Lanes that are joined in vectors are, when all rows are done."""
    sweep, done = stage
    read = set(names_in(contents([sweep])))
    before = (Kept(name, dtype, (rows,)) for name, dtype in known.items() if name in read)
    joined = {n.name: n for n in done if isinstance(n, Combine) and _joins_vectors(n, batch)}
    joined = {name: node for name, node in joined.items() if name in made}
    each = (KeepLanes(n) if isinstance(n, Combine) and n.name in joined else n for n in done)
    after = (Keep(name, dtype, (rows,)) for name, dtype in made.items() if name not in joined)
    at_once = not sweep.axes and all(map(_side_by_side, done))
    binding = Binding.BATCH_LANES if at_once else Binding.BATCH_IN_TURN
    yield Loop(rows, binding, (*before, *each, *after), batch)
    yield from joined.values()


def _made(sweep: Sweep) -> Iterator[tuple[str, DataType]]:
    """What a row knows after a stage."""
    if not sweep.axes:
        yield from ((node.name, node.dtype) for node in sweep.code)
    yield from ((fold.name, fold.dtype) for fold in sweep.folds)


def _joins_vectors(node: Combine, batch: int) -> bool:
    """Whether lanes of a batch are as many as its rows, and of 32 bits, so that they are turned in
    registers while they are joined."""
    own_type = node.kept is node.dtype
    return own_type and node.kept.itemsize == 4 and node.count == batch


def _side_by_side(node: Node) -> bool:
    """Whether rows may do it in vector lanes."""
    return isinstance(node, Let | Store) or (isinstance(node, Load) and node.drawn is None)
