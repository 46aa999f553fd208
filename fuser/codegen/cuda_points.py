"""CUDA C++ for the points of a row: which a thread takes, and how it moves their memory."""

from __future__ import annotations

import math

from fuser.codegen.cuda_teams import CudaTeamPrinter, nest_of
from fuser.schedule.bindings import Binding, Team
from fuser.schedule.counts import ceil_div, power_of_two
from fuser.schedule.loop_nest import LoopNest
from fuser.schedule.loop_tree import Loop, Node, Peel
from fuser.schedule.row_statements import Keep, Kept, Place, RowArray
from fuser.schedule.statements import Load, Store
from fuser.segmenter import Segment


class CudaPointPrinter(CudaTeamPrinter):
    """Loops over points, vectors of neighbouring points, and what is kept between sweeps.

    `round` numbers what a thread does of a row.
    """

    def __init__(self, segment: Segment, nest: LoopNest, *, reports_indices: bool = False) -> None:
        super().__init__(segment, nest, reports_indices=reports_indices)
        self._arrays: dict[str, RowArray] = {}
        self._part: tuple[str, str] | None = None
        """Where the part of a row at hand begins and ends, if not all of it is."""
        self._peeled: set[str] = set()
        """Axes of which the ends are known."""

    def loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.TEAM:
                self._over_points(loop)
            case Binding.ENDS:
                self._over_ends(loop)
            case Binding.LANES:
                self._over_lanes(loop)
            case _:
                super().loop(loop)

    # -- points ----------------------------------------------------------------------------------

    def _over_points(self, loop: Loop) -> None:
        """The threads of a team take every so many points."""
        nest = nest_of(loop)
        last = nest[-1]
        name = self.sizes.axis(loop.axis) if len(nest) == 1 else "point"
        axes = "_".join(self.sizes.axis(n.axis) for n in nest)
        by_lanes = f"_by_{last.step}" if last.step > 1 else ""  # sweeps may differ in their lanes
        count = self._count(f"points_{axes}{by_lanes}", nest)
        if last.peel:
            self._find_ends(name, last)
            count = f"{name}_end"
        count = self._part[1] if self._part else count
        known = set(self.expressions.lane_arrays)
        self._sharing = last
        step = last.step if len(nest) == 1 else 1
        over = self._in_rounds if last.rounds else self._in_turn
        over(nest, name, count, step)
        keeps = [node.name for node in last.body if isinstance(node, Keep)]
        if any(map(self._is_copied, keeps)):
            self.out.line(f"{self.expressions.use('wait_for_copies')}();")
        self._sharing = None
        self.expressions.lane_arrays.intersection_update(known)

    def _in_rounds(self, nest: list[Loop], name: str, count: str, step: int) -> None:
        """As many rounds as the text says, so that what is kept lies in registers."""
        number = self._of_round("round")
        if self._is_split:
            blocks = f"{self.index}(round * gridDim.y + blockIdx.y)"
            number = self._of_round(blocks)
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int round = 0; round < {nest[-1].rounds}; ++round)"):
            first = _after_head(_times(number, step), name, nest[-1].peel)
            self.out.line(f"const {self.index} {name} = {first};")
            sure = self._sure_rounds(nest)
            beyond = f"{name} >= {count}"
            beyond = f"round >= {sure} && {beyond}" if sure else beyond
            if self._idles():
                beyond = f"!active || ({beyond})" if sure else f"!active || {beyond}"
            self.out.line(f"if ({beyond}) continue;")
            self._unravel(nest, name)
            self.nodes(nest[-1].body)

    def _in_turn(self, nest: list[Loop], name: str, count: str, step: int) -> None:
        """As many rounds as the row's length takes."""
        body = nest[-1].body
        counts = any(isinstance(node, Keep | Kept) for node in body)
        first = _after_head(_times(self._first_point(), step), name, nest[-1].peel)
        first = f"{self._part[0]} + {first}" if self._part else first
        stride = _times(self._point_stride(), step)
        begin = f"{self.index} {name} = {first}" + (", round = 0" if counts else "")
        onwards = f"{name} += {stride}" + (", ++round" if counts else "")
        only_reads = not any(isinstance(node, Store | Keep) for node in body)
        if only_reads and self._in_rows and not _has_loops(body):
            self.out.line(f"#pragma unroll {4 if step > 1 else 8}")
        idle = "active && " if self._idles() else ""
        with self.out.block(f"for ({begin}; {idle}{name} < {count}; {onwards})"):
            self._unravel(nest, name)
            self.nodes(body)

    def _of_round(self, number: str) -> str:
        threads = self._team_threads()
        return number if threads == 1 else f"{number} * {threads} + {self._thread}"

    def _sure_rounds(self, nest: list[Loop]) -> int:
        """Rounds in which every thread has points: more than half of as many as there are rounds
        for are there, where that number is the next power of two."""
        *outer, last = nest
        alone = self._team in (Team.WARP, Team.COLUMN) and not self._is_split
        vectors = ceil_div(last.axis.extent, last.step)
        rounded = power_of_two(vectors) == last.rounds * self._team_threads()
        return last.rounds // 2 if alone and rounded and not outer and not last.peel else 0

    def _idles(self) -> bool:
        """Whether a thread without a row does no points: it would read what others overwrite."""
        return self._in_rows and self._may_idle and self._team is Team.WARP

    def _first_point(self) -> str:
        if self._in_rows and self._is_split:
            return f"{self.index}(blockIdx.y) * {self._team_threads()} + {self._thread}"
        return self._thread

    def _point_stride(self) -> str:
        if not self._in_rows:
            return str(math.prod(self.nest.launch.block))
        # Of a signed type: with an unsigned step, the compiler does not know how many rounds there
        # are, and the loads of unrolled ones wait for each other.
        grid = f"{self.index}(gridDim.y) * " if self._is_split else ""
        grid = f"{self.index}(gridDim.x) * " if self._team is Team.GRID else grid
        return f"{grid}{self._team_threads()}"

    def _find_ends(self, name: str, loop: Loop) -> None:
        """How many elements come before the whole vectors of a row, and where these end."""
        if name in self._peeled or loop.peel is None:
            return
        self._peeled.add(name)
        peel, extent = loop.peel, self.sizes.extent(loop.axis)
        at = self.sizes.index(peel.at, f"{name}_start")
        stored = peel.tensor in self.segment.stores
        pointer = f"{peel.tensor}_{'out' if stored else 'in'} + ({at})"
        call = f"{self.expressions.use('before_aligned')}<{peel.lanes}>({pointer}, {extent})"
        self.out.line(f"const {self.index} {name}_head = {call};")
        whole = f"({extent} - {name}_head) / {loop.step} * {loop.step}"
        self.out.line(f"const {self.index} {name}_end = {name}_head + {whole};")

    def _over_ends(self, loop: Loop) -> None:
        """Single elements before and after the whole vectors of a row, for the first threads."""
        name, extent = self.sizes.axis(loop.axis), self.sizes.extent(loop.axis)
        behind = f"{name}_end - {name}_head + {self._thread}"
        own = f"{self._thread} < {name}_head ? {self._thread} : {behind}"
        mine = " && blockIdx.y == 0" if self._is_split else ""
        self._sharing = loop
        with self.out.block(f"if (const {self.index} {name} = {own}; {name} < {extent}{mine})"):
            self.nodes(loop.body)
        self._sharing = None

    # -- memory ----------------------------------------------------------------------------------

    def _valid(self) -> str:
        assert self._sharing is not None
        axis = self._sharing.axis
        return f"{self.sizes.extent(axis)} - {self.sizes.axis(axis)}"

    def load(self, load: Load) -> None:
        if self._is_copied(load.name):
            at = self.sizes.index(load.at, load.tensor.name)
            call = f"{self.expressions.use('copy_ahead')}<{load.piece or load.lanes}, {load.lanes}>"
            place = f"{load.tensor}_in + ({at})"
            self.out.line(f"{call}({self._kept_address(load.name)}, {place});")
            return
        super().load(load)

    def store(self, store: Store) -> None:
        if store.lanes == 1:
            super().store(store)
        else:
            self._store_lanes(store)

    def row_array(self, node: Keep | Kept | RowArray) -> None:
        """What a row keeps between sweeps."""
        type_ = self.expressions.type(node.dtype)
        if isinstance(node, RowArray):
            self._arrays[node.name] = node
            self._declare_room(node, type_)
            return
        place = self._kept_at(node.name)
        if isinstance(node, Keep) and self._is_copied(node.name):
            return
        if isinstance(node, Keep) and node.lanes == 1:
            ends = self._sharing is not None and self._sharing.binding is Binding.ENDS
            lane = "[lane]" if self._arrays[node.name].lanes > 1 and not ends else ""
            self.out.line(f"{place}{lane} = {node.name};")
        elif isinstance(node, Keep):
            self.out.line(f"{self.expressions.use('store_vector')}({node.name}, {place});")
        elif node.lanes == 1:
            self.out.line(f"const {type_} {node.name} = {place};")
        else:
            self._declare_lanes(node.name, node.dtype, node.lanes)
            self.out.line(f"{self.expressions.use('load_vector')}({node.name}, {place});")

    def _declare_room(self, array: RowArray, type_: str) -> None:
        name, lanes = f"{array.name}_kept", array.lanes
        if array.ends:
            self.out.line(f"{type_} {array.name}_end;")
        if array.place is Place.SHARED:
            offset = self.sizes.parameter(f"{name}_offset", array.offset) if array.offset else "0"
            place = f"reinterpret_cast<{type_}*>(row_memory + {offset})"
            self.out.line(f"{type_}* const {name} = {place};")
        elif lanes == 1:
            self.out.line(f"{type_} {name}[{array.rounds}];")
        else:
            aligned = f"alignas({min(lanes * array.dtype.itemsize, 16)})"
            self.out.line(f"{aligned} {type_} {name}[{array.rounds}][{lanes}];")

    def _is_copied(self, name: str) -> bool:
        """Whether the loop at hand copies a tensor to shared memory, past the registers."""
        sharing, array = self._sharing, self._arrays.get(name)
        if sharing is None or sharing.binding is Binding.ENDS or array is None:
            return False
        loads = (node for node in sharing.body if isinstance(node, Load) and node.drawn is None)
        filled = {node.name for node in sharing.body if isinstance(node, Keep)}
        fills = name in filled and any(load.name == name for load in loads)
        return fills and array.place is Place.SHARED

    def _kept_at(self, name: str) -> str:
        """What a thread kept of a tensor in a round: an element, or the address of several."""
        array = self._arrays[name]
        if self._sharing and self._sharing.binding is Binding.ENDS:
            return f"{name}_end"
        if array.place is Place.REGISTERS:
            return f"{name}_kept[round]"
        return f"*({self._kept_address(name)})" if array.lanes == 1 else self._kept_address(name)

    def _kept_address(self, name: str) -> str:
        """Where a thread keeps it in shared memory."""
        array = self._arrays[name]
        threads = math.prod(self.nest.launch.block)
        thread = "thread" if self._team is Team.BLOCK else "threadIdx.y * 32 + threadIdx.x"
        number = f"round * {threads} + {thread}"
        return f"{name}_kept + {_times(number, array.lanes)}"


def _has_loops(nodes: tuple[Node, ...]) -> bool:
    return any(isinstance(node, Loop) and node.binding is not Binding.LANES for node in nodes)


def _times(number: str, step: int) -> str:
    if step == 1:
        return number
    return f"({number}) * {step}" if " " in number else f"{number} * {step}"


def _after_head(first: str, name: str, peel: Peel | None) -> str:
    return f"{first} + {name}_head" if peel else first
