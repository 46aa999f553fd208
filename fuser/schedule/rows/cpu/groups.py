"""Rows that alternate in memory, a short piece of each after the other: on a processor, columns.

    group norm, channels last: a row is 4 neighbouring channels of an image, at all of its pixels
      for each pixel: for each channel: fold T0 into a lane         32 rows of 4 are 128 lanes
      for each row: join its 4 lanes, and give each of them the result

Whatever is known of a row is known, and computed, in each of its lanes. Where each channel is a row
of its own, but some know something together, lanes are those of all channels too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fuser.schedule.code.axes import replace_axes
from fuser.schedule.code.row_body import RowBody, Sweep
from fuser.schedule.cpu_row_parameters import CpuRowParameters
from fuser.schedule.indices.index import Axis, divide, of_axis
from fuser.schedule.rows.cpu.across import unit_of
from fuser.schedule.tree.vectors import step_along
from fuser.segmenter.refusal import Refusal


def as_alternating(body: RowBody, parameters: CpuRowParameters) -> RowBody | Refusal:
    """`body` by columns, of which some neighbours were a row, if its rows alternate in memory."""
    swept = body.swept
    if not body.rows or not swept:
        return Refusal("there is one row only" if swept else "nothing is swept")
    pieces = {sweep.axes[-1] for sweep in swept}
    if len(pieces) == 1 and not any(sweep.folds for sweep in body.stages if not sweep.axes):
        # A fold of what rows know would be one of what columns know.
        (piece,) = pieces
        fits = unit_of(piece.extent, parameters) <= parameters.strip
        if fits and _alternate(swept, body.rows[-1], piece, parameters):
            by_column = _by_column(body, body.rows[-1], piece)
            return dataclasses.replace(by_column, group=piece.extent)
    if len(body.rows) > 1:
        row, piece = body.rows[-2:]
        if _alternate(swept, row, piece, parameters):
            return _by_column(body, row, piece)
    return Refusal("rows do not lie beside each other in short pieces")


def _alternate(
    swept: Sequence[Sweep], row: Axis, piece: Axis, parameters: CpuRowParameters
) -> bool:
    """Whether short pieces lie one after the other along `row`, and sweeps come by all of them."""
    if not piece.extent < parameters.shortest_piece <= row.extent * piece.extent:
        return False
    return all(_comes_by(sweep, row, piece) for sweep in swept)


def _comes_by(sweep: Sweep, row: Axis, piece: Axis) -> bool:
    over = [axis for axis in sweep.axes if axis != piece]
    if sweep.scans or not over:
        return False
    found = [
        step_along(access.at, piece) == 1 and step_along(access.at, row) == piece.extent
        for access in sweep.accesses
        if any(map(access.at.coefficient, over))
    ]
    return 2 * sum(found) > len(found)


def _by_column(body: RowBody, row: Axis, piece: Axis) -> RowBody:
    column = Axis((*row.path, *piece.path), row.extent * piece.extent)
    of_row, of_piece = divide(of_axis(column), piece.extent)
    places = {row: of_row, piece: of_piece}
    stages = (
        dataclasses.replace(
            replace_axes(sweep, places), axes=tuple(a for a in sweep.axes if a != piece)
        )
        for sweep in body.stages
    )
    outer = (axis for axis in body.rows if axis not in (row, piece))
    return dataclasses.replace(body, rows=(*outer, column), stages=tuple(stages))
