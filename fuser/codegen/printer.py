"""Loop nest -> kernel text: what every C-family target has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import Generic, TypeVar

from fuser.codegen.expressions import ExpressionPrinter
from fuser.codegen.kernel_source import (
    Argument,
    IndexCheck,
    KernelSource,
    Pointer,
    Scalar,
    Workspace,
    scalar_passed_as,
)
from fuser.codegen.moved_types import moved_types
from fuser.codegen.signature import declaration, kernel_header
from fuser.codegen.sizes import Sizes
from fuser.codegen.target import Target
from fuser.codegen.writer import Writer
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.schedule.indices.index import Axis
from fuser.schedule.tree.counts import costly_arithmetic
from fuser.schedule.tree.expressions import Ref, join
from fuser.schedule.tree.loop_nest import LoopNest
from fuser.schedule.tree.loop_tree import Loop, Node, RowNode, RunNode, every_node
from fuser.schedule.tree.row_statements import Carry, Running
from fuser.schedule.tree.statements import (
    CONVERTED,
    Drawn,
    LaneCall,
    Lanes,
    Let,
    Load,
    Prefetch,
    Store,
    TileNode,
)
from fuser.segmenter import Segment

_MANY_STATEMENTS = 100
"""Of a loop, from which it is long: a costly function counts as its instructions, at which g++
looks as long."""
_MANY_ROUNDS = 1024
"""From which what is left over after whole vectors counts for little."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the loops and regions around a node say of it, on any target."""

    ranges: Mapping[Axis, tuple[str, str]] = field(default_factory=dict[Axis, tuple[str, str]])
    """Where loops over an axis start and end, where that is not at its ends."""
    tile: tuple[Loop, Loop] | None = None
    """The loops over tiles of which one is at hand: along memory that is read, and across it."""


Around = TypeVar("Around", bound=Surroundings)


class KernelPrinter(ABC, Generic[Around]):
    """Prints one kernel. A subclass says how a target spells functions, loops and vector access."""

    target: Target

    def __init__(self, segment: Segment, nest: LoopNest, around: Around) -> None:
        self.segment = segment
        self.nest = nest
        self.sizes = Sizes(nest.axes, nest.index_dtype, nest.in_text)
        moved = moved_types(segment.fusion) if self.target.moves_integers else ()
        self.expressions = ExpressionPrinter(self.target, self.sizes, moved)
        self.index = self.expressions.index_type(nest.index_dtype)
        """The type of indices."""
        self.out = Writer()
        self.checks: list[IndexCheck] = []
        self.workspaces: list[Workspace] = []
        self.around = around
        """What surrounds the node at hand; `within` changes it, and nothing else does."""

    def run(self) -> KernelSource:
        for value in self._scalars():
            if scalar_passed_as(value.dtype) != value.dtype.spelling:
                type_ = self.expressions.type(value.dtype)
                self.out.line(f"const {type_} {value} = {type_}({value}_given);")
        self.nodes(self.nest.prologue)
        self.nodes(self.nest.body)
        body, self.out = self.out.text, Writer()
        assert all(f"{value}_out" in body for value in self.segment.stores), "all is stored"
        arguments = self._arguments()
        parameters = [
            declaration(argument, self.segment, self.expressions, self.index)
            for argument in arguments
        ]
        if self.checks:
            parameters.append("long long* errors")
        body = self.finish(body, [parameter.split()[-1] for parameter in parameters])
        head = self.signature(", ".join(parameters))
        library = self.target.library.text(list(self.expressions.sections))
        nodes = list(every_node(self.nest.body))
        long_loops = [node for node in nodes if isinstance(node, Loop) and _is_long(node)]
        code = f"{library}\n\n{head} {{\n{indent(body, '  ')}}}\n"
        return KernelSource(
            self.nest.name,
            kernel_header(self.segment, self.nest),
            code.lstrip("\n"),
            arguments,
            self.nest.launch,
            tuple(self.checks),
            compares_choices=self.expressions.known.compares_choices,
            calls_in_lanes=any(isinstance(node, LaneCall) for node in nodes),
            has_long_loops=any(loop.axis.extent > _MANY_ROUNDS for loop in long_loops),
            has_long_bodies=bool(long_loops),
        )

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Print nodes, one after the other."""
        for node in nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        """Print one node of the loop tree."""
        match node:
            case Load():
                self.expressions.known.loaded(node.name, node.dtype)
                self.load(node)
            case Store():
                self.store(node)
            case Let():
                self._let(node)
            case Lanes():
                self._lanes_array(node)
            case LaneCall():
                self._lane_call(node)
            case Prefetch():
                self.prefetch(node)
            case Loop():
                self.loop(node)
            case Carry():
                self.begin_carry(node, self.expressions.print(node.fill, node.name))
            case Running():
                raise AssertionError("mappings make lanes of what a sweep scans")
            case _:
                self.own_node(node)

    def own_node(self, node: RowNode | RunNode | TileNode) -> None:
        """Print a node that not all kernels have, each printer the ones of its own."""
        raise AssertionError(f"{type(self).__name__} has no {type(node).__name__}")

    @contextmanager
    def within(self, **changes: object) -> Generator[None]:
        """Print, meanwhile, what has other surroundings."""
        outer = self.around
        self.around = replace(outer, **changes)
        yield
        self.around = outer

    def in_range(self, axis: Axis, first: str, end: str) -> AbstractContextManager[None]:
        """Print, meanwhile, loops over an axis that do a part of it."""
        return self.within(ranges={**self.around.ranges, axis: (first, end)})

    def range_of(self, axis: Axis) -> tuple[str, str]:
        """Where a loop over an axis starts and ends."""
        return self.around.ranges.get(axis) or ("0", self.sizes.extent(axis))

    @abstractmethod
    def signature(self, parameters: str) -> str:
        """The head of the function, without the brace."""

    def finish(self, body: str, parameters: Sequence[str]) -> str:
        """The text of a body, now that the names of its parameters are known."""
        return body

    @abstractmethod
    def loop(self, loop: Loop) -> None:
        """Print a loop and its body."""

    def load(self, load: Load) -> None:
        """Print a load of one element."""
        type_ = self.expressions.type(load.dtype)
        at = self.sizes.index(load.at, load.tensor.name)
        name = f"{load.name}[lane]" if load.in_lanes else f"const {type_} {load.name}"
        if load.drawn is None:
            stored = self.read(load, at)
            if not load.in_lanes:
                stored = self.expressions.element(load.name, stored)
            self.out.line(f"{name} = {stored};")
        else:
            draw = f"{self.expressions.use('draw')}<{self.drawn_numbers(load, load.drawn)}>"
            self.out.line(f"{name} = {draw}({self.drawn_at(load, load.drawn)});")

    def read(self, load: Load, at: str) -> str:
        """What is in memory at `at`, where a load of one element reads."""
        return f"{load.tensor}_in[{at}]"

    def drawn_numbers(self, load: Load, drawn: Drawn) -> str:
        """The structure that makes the numbers of a load which draws them."""
        return self.expressions.use(f"{drawn.distribution}_{load.dtype.spelling}")

    def drawn_at(self, load: Load, drawn: Drawn) -> str:
        """What a draw is called with: seed, offset and the number of the first."""
        state = (self.expressions.print(word, load.name) for word in (drawn.seed, drawn.offset))
        return f"{', '.join(state)}, {self.sizes.index(load.at, load.tensor.name)}"

    def store(self, store: Store) -> None:
        """Print a store of one element."""
        at = self.sizes.index(store.at, store.tensor.name)
        place, source = f"{store.tensor}_out[{at}]", store.source
        if store.joins is not None:
            source = join(store.joins, Ref(place, store.dtype), source)
        number = self.expressions.print(source, store.tensor.name)
        if store.apart:
            number = f"{self.expressions.use('apart')}({number})"
        self.assign(store.dtype, place, number)

    def assign(self, dtype: DataType, place: str, source: str) -> None:
        """Print that an element in memory becomes a number."""
        self.out.line(f"{place} = {source};")

    @abstractmethod
    def prefetch(self, prefetch: Prefetch) -> None:
        """Print a request for memory that is read soon."""

    def begin_carry(self, carry: Carry, value: str) -> None:
        """Print what has come before the first point of a row, or of a part of it."""
        self.out.line(f"{self.expressions.type(carry.dtype)} {carry.name} = {value};")

    def lanes_of(self, store: Store) -> str:
        """The array that a store of several lanes writes."""
        assert isinstance(store.source, Ref), "lanes are computed before they are stored"
        return store.source.name

    def lanes_used(self, count: int) -> str:
        """How many of `count` lanes have a point."""
        return str(count)

    def joiner(self, operation: str, dtype: DataType, owner: str, *, generic: bool = False) -> str:
        """A function that joins two numbers of a type by a pointwise operation; a `generic` one
        also two vectors, or two numbers of a wider type."""
        type_ = "auto" if generic else self.expressions.type(dtype)
        joined = self.expressions.print(join(operation, Ref("x", dtype), Ref("y", dtype)), owner)
        return f"[]({type_} x, {type_} y) {{ return {joined}; }}"

    def _lane_call(self, call: LaneCall) -> None:
        if call.operation == CONVERTED:
            kind = "_floats" if call.dtype.is_floating else ""
            self.expressions.use(f"convert_lanes{kind}")
            self.out.line(f"convert_lanes({call.name}, {call.given});")
            return
        self.expressions.use_for(f"{call.operation}_lanes", call.dtype)
        function = f"[](auto x) {{ return {call.operation}(x); }}"
        self.out.line(f"in_lanes({call.name}, {call.given}, {function});")

    def _lanes_array(self, lanes: Lanes) -> None:
        self.expressions.lane_arrays.add(lanes.name)
        self.out.line(f"{self.expressions.type(lanes.dtype)} {lanes.name}[{lanes.count}];")
        if lanes.fill is not None:
            fill = self.expressions.print(lanes.fill, lanes.name)
            each = f"for (int lane = 0; lane < {self.lanes_used(lanes.count)}; ++lane)"
            self.out.line(f"{each} {lanes.name}[lane] = {fill};")

    def _let(self, let: Let) -> None:
        source = self.expressions.let(let.name, let.expression)
        if let.in_lanes:
            self.out.line(f"{let.name}[lane] = {source};")
            self.expressions.known.loaded(let.name, let.dtype)
        else:
            # An array of lanes of this name was of rows that are done.
            self.expressions.lane_arrays.discard(let.name)
            self.define(let.name, let.dtype, source)

    def define(self, name: str, dtype: DataType, source: str) -> None:
        """Print that a name stands for a number."""
        self.out.line(f"const {self.expressions.type(dtype)} {name} = {source};")

    def _arguments(self) -> tuple[Argument, ...]:
        read = dict.fromkeys(self.segment.addressed_as.values())
        loads = [Pointer(value) for value in read if not self.segment.is_scattered_into(value)]
        stores = [Pointer(value) for value in self.segment.stores]
        scalars = [Scalar(value) for value in self._scalars()]
        return (*loads, *stores, *self.workspaces, *scalars, *self.sizes.parameters)

    def _scalars(self) -> list[Value]:
        return [value for value in self.segment.fusion.inputs if not value.is_tensor]


def _is_long(loop: Loop) -> bool:
    return len(loop.body) + costly_arithmetic(loop.body) > _MANY_STATEMENTS
