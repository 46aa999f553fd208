"""C++ for the loops of rows on the CPU target: threads over rows, lanes along them or across."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext

from fuser.codegen.cpu_checks import CpuCheckPrinter
from fuser.schedule.expressions import REPEATED
from fuser.schedule.index import ZERO, Axis, lanes_of, substitute
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import (
    Accumulate,
    Binding,
    KeepLanes,
    Let,
    Load,
    Loop,
    Prefetch,
    Store,
)
from fuser.schedule.row_body import names_in
from fuser.segmenter import Segment

_ROWS = "rows"
"""The variable that holds how many rows a strip has."""

_OVER_THREADS = (Binding.PARALLEL, Binding.STRIP, Binding.BLOCKS, Binding.BATCHES)


class CpuSweepPrinter(CpuCheckPrinter):
    """Loops over rows, and over the elements of rows."""

    _threads_started = False
    """Whether a parallel region is open, so that loops only share out their iterations."""
    _dividing = False
    """Whether loops are one thread's: an outer one is shared out, or there is one thread only."""
    _sweeps = 0
    _batch: Loop | None = None
    """The loop over batches of rows of which one is at hand."""
    _row_at_hand = False
    """Whether one row of the batch is, or each of them side by side."""
    _chunk_axis: Axis | None = None
    """The axis along which a chunk is at hand."""
    _repeating = False
    """Whether the first lanes of that chunk may have been done before."""
    _turned = False
    """Whether the lanes of the chunk at hand are from its last point to its first."""
    _lanes_used: str | None = None
    """How many lanes have a point, of a strip or of a chunk, if not all may."""

    def __init__(self, segment: Segment, nest: LoopNest) -> None:
        super().__init__(segment, nest)
        self._ranges: dict[Axis, tuple[str, str]] = {}
        """Where sweeps over an axis start and end, where that is not at its ends."""

    def loop(self, loop: Loop) -> None:
        if loop.span is None:
            self._loop(loop)
            return
        name = f"{self.sizes.extent(loop.axis)}_part"
        first, end = (self.sizes.parameter(name, place) if place else "0" for place in loop.span)
        with self.in_range(loop.axis, first, end):
            self._loop(loop)

    def _loop(self, loop: Loop) -> None:
        if loop.binding in (Binding.SIMD, Binding.SWEEP, Binding.ROUNDS):
            self.sizes.in_lanes(loop.axis)
        match loop.binding:
            case Binding.PARALLEL | Binding.STRIP | Binding.BLOCKS | Binding.BATCHES:
                self._over_threads(loop)
            case Binding.BATCH_LANES:
                with self.side_by_side(loop, "simd"):
                    self._rows_of_batch(loop)
            case Binding.BATCH_IN_TURN:
                self._rows_of_batch(loop)
            case Binding.SWEEP | Binding.ROUNDS:
                self._sweep(loop)
            case Binding.STRIP_LANES:
                with self.side_by_side(loop, "simd"), self.out.block(self._each_row()):
                    self.nodes(loop.body)
            case Binding.STRIP_IN_TURN:
                with self.out.block(self._each_row()):
                    self.nodes(loop.body)
            case Binding.COLUMNS:
                with self.out.block(""):
                    self.out.line(f"const int {_ROWS} = int({self.sizes.extent(loop.axis)});")
                    self._strip(loop)
            case Binding.UNROLLED:
                self._unrolled(loop)
            case Binding.CHUNKS:
                self._chunks(loop)
            case Binding.SIMD if loop.axis == self._chunk_axis:
                self._lanes_of_chunk(loop)
            case Binding.SIMD:
                alone = not self._dividing and not self._threads_started
                threads = "parallel for simd if (parallel : threaded)" if alone else "simd"
                with self.side_by_side(loop, threads, self._has_points(loop)):
                    self._for(loop)
            case _:
                self._for(loop)

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
            return
        at = self.sizes.index(store.at, store.tensor.name)
        past_cache = self.sizes.parameter("past_cache", int(self.nest.launch.past_cache))
        write = self.expressions.use(self.chunk_store(store))
        rest = f"moved, {past_cache}" if self._stored_part else past_cache
        self.out.line(f"{write}({store.tensor}_out + {at}, {self.lanes_of(store)}, {rest});")

    @property
    def rows_of_strip(self) -> bool:
        """Whether lanes are those of the rows of a strip, which may be fewer."""
        return self._lanes_used == _ROWS

    def lanes_used(self, count: int) -> str:
        return self._lanes_used or super().lanes_used(count)

    def _over_threads(self, loop: Loop) -> None:
        """The outermost loop over threads shares out its iterations, with those of the next."""
        if not self._dividing:
            self._choose_strip(loop)
            depth = self._nested_over_threads(loop)
            collapse = f" collapse({depth})" if depth > 1 else ""
            start = "for" if self._threads_started else "parallel for"
            condition = "" if self._threads_started else " if (threaded)"
            self.out.line(f"#pragma omp {start}{collapse}{self.shares(loop)}{condition}")
        outer, self._dividing = self._dividing, True
        self._for(loop)
        self._dividing = outer

    def shares(self, loop: Loop) -> str:
        """How threads share out the iterations of a loop, if not evenly."""
        return ""

    @staticmethod
    def _nested_over_threads(loop: Loop) -> int:
        inside = loop.body[0]
        nested = isinstance(inside, Loop) and inside.binding in _OVER_THREADS
        return 2 if nested and len(loop.body) == 1 else 1

    def _for(self, loop: Loop) -> None:
        name, index = self.sizes.axis(loop.axis), self.index
        if loop.binding is Binding.BLOCKS:
            self._blocks(loop, index)
            return
        if loop.binding is Binding.STRIP:
            self._strips(loop, index)
            return
        if loop.binding is Binding.BATCHES:
            self._batches(loop, index)
            return
        first, end = self.range_of(loop.axis)
        with self.out.block(f"for ({index} {name} = {first}; {name} < {end}; ++{name})"):
            self.nodes(loop.body)

    def range_of(self, axis: Axis) -> tuple[str, str]:
        """Where a sweep over an axis starts and ends."""
        return self._ranges.get(axis) or ("0", self.sizes.extent(axis))

    @contextmanager
    def in_range(self, axis: Axis, first: str, end: str) -> Generator[None]:
        """Sweeps over an axis do a part of it."""
        outer = self.range_of(axis)
        self._ranges[axis] = first, end
        yield
        self._ranges[axis] = outer

    def _blocks(self, loop: Loop, index: str) -> None:
        """Blocks of an axis, or of a block of it."""
        first, end = self.range_of(loop.axis)
        name = "block" if first == "0" else "inner_block"
        head = f"for ({index} {name} = {first}; {name} < {end}; {name} += {loop.step})"
        with self.out.block(head):
            left = f"{end} - {name}"
            last = f"{name} + ({left} < {loop.step} ? {left} : {loop.step})"
            self.out.line(f"const {index} {name}_end = {last};")
            with self.in_range(loop.axis, name, f"{name}_end"):
                self.nodes(loop.body)

    def _batches(self, loop: Loop, index: str) -> None:
        """Batches of rows, the last of which is moved back to end in range."""
        extent = self.sizes.extent(loop.axis)
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

    def _sweep(self, loop: Loop) -> None:
        """One body for the rounds of lanes and for what is left of the row."""
        if any(isinstance(node, Loop) for node in loop.body):
            self._phased_rounds(loop)
            return
        has_flags = any(isinstance(node, Load) and not node.drawn for node in _of_round(loop))
        room = self.out.block("") if has_flags else nullcontext()  # other sweeps have such names
        with self.in_own_lanes(loop, self._has_points(loop)), room:
            self._rounds(loop)

    def _rounds(self, loop: Loop) -> None:
        body, start, extent = self._element(loop)
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
        index, name = self.index, self.sizes.axis(loop.axis)
        (begin, end), start = self.range_of(loop.axis), f"start{self._sweeps}"
        self._sweeps += 1
        head = f"{index} {start} = {begin}; {start} < {end}; {start} += {loop.step}"
        with self.out.block(f"for ({head})"):
            last = f"{end} - {loop.step}"
            self.out.line(f"const {index} {name} = {start} < {last} ? {start} : {last};")
            self.out.line(f"const {index} first = {name};")
            self.out.line(f"const int done = int({start} - first);")
            self._chunk_axis, self._repeating = loop.axis, True
            self.nodes(loop.body)
            self._chunk_axis, self._repeating = None, False

    def _element(self, loop: Loop) -> tuple[str, str, str]:
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

    def _chunks(self, loop: Loop) -> None:
        """Chunks that start where vectors are aligned in the first tensor that is stored. The ones
        at the ends are moved into range, and of them is stored what no other chunk has."""
        index, name = self.index, self.sizes.axis(loop.axis)
        (begin, end), chunk = self.range_of(loop.axis), f"chunk{self._sweeps}"
        self._sweeps += 1
        self.expressions.use("stream_vector")
        store = next(node for node in loop.body if isinstance(node, Store))
        at = self.sizes.index(substitute(store.at, {loop.axis: ZERO}), store.tensor.name)
        inside = begin != "0"
        at = f"{at} + {begin}" if inside else at
        size = self.expressions.type(store.tensor.dtype)
        past = f"{index}(past_alignment({store.tensor}_out + {at}) / sizeof({size}))"
        start = f"{begin} - {past}" if inside else f"-{past}"
        head = f"{index} {chunk} = {start}; {chunk} < {end}; {chunk} += {loop.step}"
        with self.out.block(f"for ({head})"):
            last = f"{end} - {loop.step}"
            in_range = f"{chunk} < {begin} ? {begin} : {chunk} < {last} ? {chunk} : {last}"
            self.out.line(f"const {index} {name} = {in_range};")
            self.out.line(f"const {index} first = {name};")
            self.out.line(f"const {index} moved = {name} - {chunk};")
            self._chunk_axis, self._stored_part = loop.axis, "moved"
            self.nodes(loop.body)
            self._chunk_axis, self._stored_part = None, ""

    def _lanes_of_chunk(self, loop: Loop) -> None:
        """The elements of a chunk side by side; inside, the axis is that of the element."""
        index, name = self.index, self.sizes.axis(loop.axis)
        lanes = f"for (int lane = 0; lane < {self.lanes_used(loop.step)}; ++lane)"
        with self.side_by_side(loop, "simd"), self.out.block(lanes):
            self.out.line(f"const {index} {name} = first {'-' if self._turned else '+'} lane;")
            if self._repeating and REPEATED.name in _read_in(loop):
                self.out.line(f"const bool {REPEATED.name} = lane < done;")
            self.nodes(loop.body)

    def _choose_strip(self, loop: Loop) -> None:
        """How many rows are done side by side; every thread has the same number of strips."""
        outer, strips = "1", loop
        while strips.binding is Binding.PARALLEL and isinstance(strips.body[0], Loop):
            outer, strips = f"{outer} * {self.sizes.extent(strips.axis)}", strips.body[0]
        if strips.binding is Binding.STRIP:
            threads = f"threaded ? {self.expressions.use('thread_count')}() : 1"
            call = f"{self.expressions.use('tile_of')}({self.sizes.extent(strips.axis)}, "
            most, apart = str(strips.step), ""
            if strips.unit > 1:
                apart = f", {self.sizes.parameter('unit', strips.unit)}"
                most = self.sizes.parameter("most", strips.step // strips.unit * strips.unit)
            call += f"{most}, {outer.removeprefix('1 * ')}, {threads}{apart})"
            self.out.line(f"const int tile = {call};")

    def _strips(self, loop: Loop, index: str) -> None:
        """As many rows at a time as keep all threads busy, if none outside does."""
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        with self.out.block(f"for ({index} {name} = 0; {name} < {extent}; {name} += tile)"):
            left = f"{extent} - {name}"
            self.out.line(f"const int {_ROWS} = {left} < tile ? {left} : tile;")
            self._strip(loop)

    def _strip(self, loop: Loop) -> None:
        """What is done with a strip, of which the number of rows is known."""
        self.sizes.name_axis(lanes_of(loop.axis, loop.step)[0], "lane")
        self._lanes_used = _ROWS
        self.nodes(loop.body)
        self._lanes_used = None

    def _unrolled(self, loop: Loop) -> None:
        """Some elements of every row of a strip at a time: its lanes are read and written less."""
        body, start, extent = self._element(loop)
        whole = f"for (; {start} + {loop.step} <= {extent}; {start} += {loop.step})"
        with self.out.block(whole), self._rows_of_strip():
            for step in range(loop.step):
                self.out.line(f"{body}({start} + {step}, lane);")
        with self.out.block(f"for (; {start} < {extent}; ++{start})"), self._rows_of_strip():
            self.out.line(f"{body}({start}, lane);")

    @contextmanager
    def _rows_of_strip(self) -> Generator[None]:
        self.out.line("#pragma omp simd")
        with self.out.block(self._each_row()):
            yield

    def _each_row(self) -> str:
        return f"for (int lane = 0; lane < {_ROWS}; ++lane)"

    def _has_points(self, loop: Loop) -> str:
        first, end = self.range_of(loop.axis)
        return f"{first} < {end}"


def _read_in(loop: Loop) -> set[str]:
    """The names that are read in each lane."""
    return set(names_in(node for node in loop.body if isinstance(node, Let | Accumulate)))


def _of_round(loop: Loop) -> list[Load | Prefetch]:
    """What is done once for all lanes of a sweep."""
    several = (node for node in loop.body if isinstance(node, Load | Prefetch) and node.lanes > 1)
    return list(several)
