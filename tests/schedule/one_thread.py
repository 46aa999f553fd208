"""Runs nodes of the loop tree in torch, one after the other, as a single thread would.

So what a pass or a mapping makes can be compared with the oracle before any target prints it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import torch

from fuser.ir.interpret import interpret
from fuser.ir.nodes import Number, Random, Value
from fuser.ir.pointwise import KERNEL_TABLE
from fuser.ir.random_numbers import random_numbers
from fuser.ir.strided import Strided
from fuser.ir.types import ScalarType
from fuser.schedule.code.body import Body
from fuser.schedule.indices.index import (
    ZERO,
    Axis,
    Clamped,
    Index,
    Quotient,
    Remainder,
    Term,
    Variable,
)
from fuser.schedule.rows.scans import carry_of
from fuser.schedule.tree.bindings import Binding
from fuser.schedule.tree.expressions import (
    Call,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
)
from fuser.schedule.tree.loop_tree import Loop, Node, Region
from fuser.schedule.tree.row_statements import (
    Accumulate,
    Carry,
    Finish,
    FinishPowers,
    Running,
    ScanLanes,
)
from fuser.schedule.tree.statements import (
    CheckedIndex,
    Drawn,
    Lanes,
    Let,
    Load,
    LoadRun,
    Store,
    StoreRun,
)
from fuser.segmenter import Segment
from tests.segmented import Inputs

CPU = torch.device("cpu")


class OneThread:
    """`memory` has a flat tensor for every tensor by its name; `held`, every other value.

    `inputs` are those of the definition, or what the segment reads by the number of its buffer.
    """

    def __init__(
        self, segment: Segment, inputs: Inputs | Mapping[int, torch.Tensor | Number]
    ) -> None:
        self.memory: dict[str, torch.Tensor] = {}
        self.held: dict[str, torch.Tensor] = {}
        self._arrays: dict[str, list[torch.Tensor]] = {}
        self._places: dict[Axis, int] = {}
        self._lane, self._lanes, self._turned = 0, 0, False
        self._segment, self._inputs = segment, inputs
        for value in segment.fusion.inputs:
            if value.is_tensor:
                given = self._given(segment.memory[value].base)
                size = given.untyped_storage().nbytes() // given.itemsize
                self.memory[value.name] = given.as_strided((size,), (1,), 0).clone()
            else:
                self.held[value.name] = torch.tensor(inputs[value.id], dtype=value.dtype.torch)
        for value in segment.stores:
            empty = torch.zeros(value.elements, dtype=value.dtype.torch)
            self.memory.setdefault(value.name, empty)

    def check(self, *, exact: bool = True) -> None:
        """What was stored is what the oracle says."""
        environment = [
            _seen(self._given(lies.base), lies)
            if (lies := self._segment.memory.get(value))
            else self._inputs[value.id]
            for value in self._segment.fusion.inputs
        ]
        fusion = self._segment.fusion
        results = interpret(fusion, environment, CPU)
        for output, result in zip(fusion.outputs, results, strict=True):
            found = _seen(self.memory[output.value.name], self._segment.memory[output.value])
            if exact:
                torch.testing.assert_close(found, result, rtol=0, atol=0)
            else:
                torch.testing.assert_close(found, result)

    def _given(self, base: Value) -> torch.Tensor:
        """An input of the definition, whose values are numbered from 0."""
        given = self._inputs[base.id]
        assert isinstance(given, torch.Tensor)
        return given

    def at_points(self, axes: Sequence[Axis], nodes: Sequence[Node | Running]) -> None:
        """Run nodes at every point of some axes."""
        for places in itertools.product(*(range(axis.extent) for axis in axes)):
            self._places |= zip(axes, places, strict=True)
            self.run(nodes)

    def run(self, nodes: Iterable[Node | Running]) -> None:
        """Run nodes where the loops around them stand."""
        for node in nodes:
            self._node(node)

    def _node(self, node: Node | Running) -> None:
        match node:
            case Load():
                self._load(node)
            case Let():
                self._bind(node.name, self._value(node.expression), in_lanes=node.in_lanes)
            case CheckedIndex():
                found = int(self._value(node.value))
                found += node.size if node.wraps and found < 0 else 0
                in_range = torch.tensor(found if 0 <= found < node.size else 0)
                self._bind(node.name, in_range, in_lanes=node.in_lanes)
            case Store():
                self._store(node)
            case LoadRun():
                memory, at, each = self.memory[node.tensor.name], self._at(node.at), len(node.names)
                for place, name in enumerate(node.names):
                    elements = (at + lane * each + place for lane in range(node.lanes))
                    self._arrays[name] = [memory[element] for element in elements]
            case StoreRun():
                memory, at = self.memory[node.tensor.name], self._at(node.at)
                for place, source in enumerate(node.sources):
                    for lane, element in enumerate(self._arrays[source.name]):
                        memory[at + lane * len(node.sources) + place] = element
            case Lanes():
                fill = torch.tensor(node.fill.value if node.fill else 0, dtype=node.dtype.torch)
                self._arrays[node.name] = [fill] * node.count
            case Loop():
                self._loop(node)
            case Region():
                for partial in node.partials:
                    fill = torch.tensor(partial.fill.value, dtype=partial.kept.torch)
                    self._arrays[partial.part] = [fill] * partial.slots
                self.run((*node.body, *node.epilogue))
            case Accumulate():
                parts, at = self._arrays[node.partial.part], self._at(node.at)
                value = self._value(node.value).to(parts[at].dtype)
                parts[at] = _joined(node.partial.operation, parts[at], value)
            case Finish():
                part = self._arrays[node.partial.part][self._at(node.at)]
                self.held[node.partial.name] = part.to(node.partial.dtype.torch)
            case FinishPowers():  # its own maximum is that of all
                self.run((Finish(node.largest, ZERO), Finish(node.sum, ZERO)))
            case Carry():
                self.held[node.name] = torch.tensor(node.fill.value, dtype=node.dtype.torch)
            case ScanLanes():
                array = self._arrays[node.array]
                lanes = range(self._lanes)
                for lane in reversed(lanes) if self._turned else lanes:
                    array[lane] = self._scanned(node.carry, array[lane])
            case Running():
                self.held[node.name] = self._scanned(carry_of(node), self._value(node.value))
            case _:
                raise AssertionError(f"{type(node).__name__} is not for one thread")

    def _loop(self, loop: Loop) -> None:
        match loop.binding:
            case Binding.SCAN:
                self._turned = loop.turned
                for place in range(0, loop.axis.extent, loop.step):
                    self._lanes = min(loop.step, loop.axis.extent - place)
                    # Where lane 0 is.
                    self._places[loop.axis] = place + (self._lanes - 1 if self._turned else 0)
                    self.run(loop.body)
                self._lanes, self._turned = 0, False
            case Binding.SIMD if self._lanes:  # the lanes of a chunk, along its axis
                first = self._places[loop.axis]
                for lane in range(self._lanes):
                    self._lane = lane
                    self._places[loop.axis] = first - lane if self._turned else first + lane
                    self.run(loop.body)
                self._lane, self._places[loop.axis] = 0, first
            case Binding.LANES:
                for lane in range(min(loop.axis.extent, self._lanes or loop.axis.extent)):
                    self._lane = self._places[loop.axis] = lane
                    self.run(loop.body)
                self._lane = 0
            case Binding.SIMD if loop.within is not None:
                for place in range(loop.axis.extent):
                    self._places[loop.axis] = place
                    if 0 <= self._at(loop.within.at) < loop.within.extent:
                        self.run(loop.body)
            case Binding.SERIAL | Binding.TEAM | Binding.TEAMS:
                for place in range(0, loop.axis.extent, loop.step):
                    self._places[loop.axis] = place
                    self.run(loop.body)
            case _:
                raise AssertionError(f"{loop.binding} is not for one thread")

    def _load(self, load: Load) -> None:
        at = self._at(load.at)
        if load.drawn is not None:
            elements = [self._drawn(load, load.drawn, at)]
        else:
            memory = self.memory[load.tensor.name]
            elements = [memory[at + lane * load.step] for lane in range(load.lanes)]
        if load.lanes > 1:
            self._arrays[load.name] = elements
        else:
            self._bind(load.name, elements[0], in_lanes=load.in_lanes)

    def _store(self, store: Store) -> None:
        memory, at = self.memory[store.tensor.name], self._at(store.at)
        if store.lanes > 1:
            assert isinstance(store.source, Ref)
            elements = self._arrays[store.source.name]
            for lane in range(min(store.lanes, self._lanes or store.lanes)):
                memory[at + lane] = elements[lane]
            return
        value = self._value(store.source)
        memory[at] = value if store.joins is None else _joined(store.joins, memory[at], value)

    def _bind(self, name: str, value: torch.Tensor, *, in_lanes: bool) -> None:
        if in_lanes:
            self._arrays[name][self._lane] = value
        else:
            self._arrays.pop(name, None)  # of an earlier sweep, which had lanes
            self.held[name] = value

    def _scanned(self, carry: Carry, value: torch.Tensor) -> torch.Tensor:
        held = self.held.setdefault(
            carry.name, torch.tensor(carry.fill.value, dtype=carry.dtype.torch)
        )
        self.held[carry.name] = _joined(carry.operation, held, value.to(held.dtype))
        return self.held[carry.name].to(value.dtype)

    def _drawn(self, load: Load, drawn: Drawn, number: int) -> torch.Tensor:
        word = Value(0, ScalarType(load.tensor.dtype))
        op = Random(drawn.distribution, (number + 1,), (word, word), word, word, load.tensor.dtype)
        state = int(self._value(drawn.seed)), int(self._value(drawn.offset))
        return random_numbers(op, (number + 1,), (0.0, 1.0), state, CPU)[number]

    def _value(self, expression: Expression) -> torch.Tensor:
        match expression:
            case Ref():
                array = self._arrays.get(expression.name)
                value = self.held[expression.name] if array is None else array[self._lane]
                assert value.dtype == expression.dtype.torch, expression
                return value
            case Literal():
                return torch.tensor(expression.value, dtype=expression.dtype.torch)
            case SizeValue():
                return torch.tensor(expression.number, dtype=expression.dtype.torch)
            case IndexValue():
                return torch.tensor(self._at(expression.index), dtype=expression.dtype.torch)
            case Convert():
                return self._value(expression.of).to(expression.dtype.torch)
            case Call():
                made = KERNEL_TABLE[expression.op].reference(*map(self._value, expression.args))
                return made.to(expression.dtype.torch)

    def _at(self, index: Index) -> int:
        return index.constant + sum(factor * self._term(term) for term, factor in index.terms)

    def _term(self, term: Term) -> int:
        match term:
            case Axis():
                return self._places[term]
            case Variable():
                return int(self.held[term.name])
            case Quotient():
                return self._at(term.of) // term.divisor
            case Remainder():
                return self._at(term.of) % term.divisor
            case Clamped():
                return min(max(self._at(term.of), 0), term.extent - 1)


def run_body(segment: Segment, body: Body, inputs: Inputs) -> OneThread:
    """A body at every point of its axes."""
    return run_bodies(segment, [body], inputs)


def run_bodies(segment: Segment, bodies: Iterable[Body], inputs: Inputs) -> OneThread:
    """Bodies one after the other, each at every point of its axes."""
    thread = OneThread(segment, inputs)
    for body in bodies:
        thread.run(body.prologue)
        thread.at_points(body.axes, (*body.loads, *body.lets, *body.stores))
    return thread


def _seen(tensor: torch.Tensor, lies: Strided) -> torch.Tensor:
    return tensor.as_strided(lies.shape, lies.strides, lies.offset)


def _joined(operation: str, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return KERNEL_TABLE[operation].reference(one, other).to(one.dtype)
