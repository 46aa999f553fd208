"""C++ for batches of short rows on the CPU target: each stage for all of them before the next."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.codegen.cpu_strips import CpuStripPrinter
from fuser.schedule.bindings import Binding
from fuser.schedule.index import Axis
from fuser.schedule.loop_tree import Loop
from fuser.schedule.row_statements import KeepLanes


class CpuBatchPrinter(CpuStripPrinter):
    """Batches, and loops over the rows of the batch at hand."""

    _batch: Loop | None = None
    """The loop over batches of rows of which one is at hand."""
    _row_at_hand = False
    """Whether one row of the batch is, or each of them side by side."""

    def bound(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.BATCHES:
                self.over_threads(loop)
            case Binding.BATCH_LANES:
                with self.side_by_side(loop, "simd"):
                    self._rows_of_batch(loop)
            case Binding.BATCH_IN_TURN:
                self._rows_of_batch(loop)
            case _:
                super().bound(loop)

    def iterations(self, loop: Loop) -> None:
        if loop.binding is Binding.BATCHES:
            self._batches(loop)
        else:
            super().iterations(loop)

    def _batches(self, loop: Loop) -> None:
        """Batches of rows, the last of which is moved back to end in range."""
        index, extent = self.index, self.sizes.extent(loop.axis)
        with self.out.block(f"for ({index} batch = 0; batch < {extent}; batch += {loop.step})"):
            last = f"{extent} - {loop.step}"
            self.out.line(f"const {index} first_row = batch < {last} ? batch : {last};")
            self._batch = loop
            self.nodes(loop.body)
            self._batch = None

    def _rows_of_batch(self, loop: Loop) -> None:
        """What is done with each row of a batch."""
        for node in loop.body:
            if isinstance(node, KeepLanes):
                type_, count = self.expressions.type(node.join.kept), node.join.count
                room = f"{node.join.name}_batch[{loop.step}][{count}]"
                self.out.line(f"alignas(64) {type_} {room};")
        with self.out.block(f"for (int row = 0; row < {loop.step}; ++row)"):
            self.out.line(f"const {self.index} {self.sizes.axis(loop.axis)} = first_row + row;")
            self._row_at_hand = True
            self.nodes(loop.body)
            self._row_at_hand = False

    @property
    def in_batch(self) -> bool:
        """Whether what is printed is done for all rows of a batch at once."""
        return self._batch is not None and not self._row_at_hand

    def kept_count(self, axis: Axis, outer: Sequence[Axis] = ()) -> str:
        """Of how many elements there is room for what is kept along `outer` axes and `axis`."""
        elements = " * ".join(self.sizes.extent(each) for each in (*outer, axis))
        if self._batch is None:
            return elements
        rows = str(self._batch.step)
        return rows if axis == self._batch.axis else f"{rows} * {elements}"

    def kept_at(self, axis: Axis, outer: Sequence[Axis] = ()) -> str:
        """Where the element at hand is kept."""
        if self._batch is not None and axis == self._batch.axis:
            return "row"
        at = "" if self._batch is None else "row"
        for each in (*outer, axis):
            before = f"({at})" if "+" in at else at
            name = self.sizes.axis(each)
            at = f"{before} * {self.sizes.extent(each)} + {name}" if at else name
        return at
