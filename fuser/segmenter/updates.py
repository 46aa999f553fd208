"""Outputs that are written into inputs: by the kernel that computes them, or copied at the end.

T0 -> [mul, sub] -> T2, written into T0      the kernel stores T2 where T0 lies: nothing is copied,
                                             and the old T0 is read once, before it is overwritten

A kernel may do so if it is the last step that reads the old value (other readers are moved before
it, where what they need allows that), and if it reads each element only where it overwrites it,
which the schedule says. In every other case the output has memory of its own, and is copied into
the input when all steps are done.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

from fuser.ir.nodes import Value
from fuser.ir.strided import Strided
from fuser.segmenter.plan import AliasStep, ExternStep, Segment, SegmentedFusion, Update

Refuse = Callable[[Segment], "str | None"]
"""Why a segment whose memory says so cannot overwrite what it reads; None if it can."""


def place_updates(
    segmented: SegmentedFusion, sharing: Collection[Value], refuse: Refuse
) -> SegmentedFusion:
    """`segmented` with the updates of inputs decided, in place where that is safe.

    `sharing` are the inputs whose memory overlaps that of another one.
    """
    return _Planner(segmented, sharing, refuse).run()


class Pair(NamedTuple):
    """A value, and the input that it is written into."""

    value: Value
    into: Value


class _Planner:
    """The segmented fusion as decided so far, and which steps must come before which."""

    def __init__(
        self, segmented: SegmentedFusion, sharing: Collection[Value], refuse: Refuse
    ) -> None:
        self._segmented = segmented
        self._sharing = sharing
        self._refuse = refuse
        self._memory = segmented.memory
        self._steps = [step for step in segmented.steps if not isinstance(step, AliasStep)]
        self._aliases = [step for step in segmented.steps if isinstance(step, AliasStep)]
        self._order = list(range(len(self._steps)))
        self._edges = set(_dependencies(self._steps))
        """Pairs of steps by number, of which the first must come first."""
        segments = ((n, step) for n, step in enumerate(self._steps) if isinstance(step, Segment))
        self._makers = {value: number for number, step in segments for value in step.stores}
        """The kernel that stores each value, by number."""
        self._wanted: list[Pair] = []
        self._shown: dict[Value, set[Value | None]] = {}
        """By buffer that outputs show: what these are written into, None for nothing."""
        for output in segmented.fusion.outputs:
            if output.alias_of is not None:
                self._wanted.append(Pair(output.value, output.alias_of))
            if output.shown_in is None:
                base = self._memory[output.value].base
                self._shown.setdefault(base, set()).add(output.alias_of)
        self._times = Counter(pair.into for pair in self._wanted)
        """How many outputs are written into each input."""

    def run(self) -> SegmentedFusion:
        reasons = {pair: self._refusal(pair) for pair in self._wanted}
        by_kernel: dict[int, list[Pair]] = {}
        for pair in (pair for pair, reason in reasons.items() if reason is None):
            by_kernel.setdefault(self._makers[self._memory[pair.value].base], []).append(pair)
        for number, pairs in by_kernel.items():
            reasons |= self._place(number, pairs)
        updates = [Update(p.value, p.into, self._memory[p.into], reasons[p]) for p in self._wanted]
        steps = (*(self._steps[number] for number in self._order), *self._aliases)
        return dataclasses.replace(
            self._segmented,
            steps=steps,
            memory=self._memory,
            updates=tuple(updates),
            sharing=frozenset(self._sharing),
        )

    def _place(self, number: int, pairs: Sequence[Pair]) -> dict[Pair, str | None]:
        """Let a kernel store new values into inputs; reasons where it cannot. It is scheduled to
        find out, so all are tried at once, and halves of them where that fails."""
        reason = self._placed(number, pairs)
        if reason is None or len(pairs) == 1:
            return dict.fromkeys(pairs, reason)
        half = len(pairs) // 2
        return self._place(number, pairs[:half]) | self._place(number, pairs[half:])

    def _refusal(self, pair: Pair) -> str | None:
        """What keeps the new value from lying where the old one is, whatever the kernel does."""
        memory, value, into = self._memory, pair.value, pair.into
        base = memory[value].base
        if self._times[into] > 1:
            return f"several outputs are written into {into}"
        if into in self._sharing:
            return f"{into} shares memory with another input"
        if self._is_shown(into, beside=into):
            return f"the old {into} is needed when everything is done"
        if self._is_shown(base, beside=into):
            return f"{value} leaves as something else too"
        if base not in self._makers:
            return f"no kernel makes {value}"
        if _overlaps_itself(memory[into]):
            return f"elements of {into} may share memory"
        return None

    def _is_shown(self, buffer: Value, *, beside: Value) -> bool:
        """Whether outputs show a buffer, beside those that are written into an input."""
        return not self._shown.get(buffer, set()) <= {beside}

    def _placed(self, number: int, pairs: Sequence[Pair]) -> str | None:
        """Let a kernel store each of some new values into an input; a reason if it cannot."""
        moved: dict[Value, Strided] = {}
        edges = set(self._edges)
        read = [_read_bases(step) for step in self._steps]
        for value, into in pairs:
            places = _moved(self._memory, value, self._memory[into])
            if places is None:
                return f"{value} and {into} are laid out differently"
            moved |= places
            readers = (reader for reader, bases in enumerate(read) if into in bases)
            edges |= {(reader, number) for reader in readers if reader != number}
        order = _order(len(self._steps), edges)
        if order is None:
            (value, into), *_ = pairs
            return f"the old {into} is read by what needs {value}"
        overwriting = _with_memory(self._steps[number], moved)
        assert isinstance(overwriting, Segment)
        reason = self._refuse(overwriting)
        if reason is not None:
            return reason
        self._edges, self._order = edges, order
        self._memory = {**self._memory, **moved}
        self._steps = [_with_memory(step, moved) for step in self._steps]
        self._aliases = [
            dataclasses.replace(s, memory=moved.get(s.output, s.memory)) for s in self._aliases
        ]
        return None


def _moved(
    memory: Mapping[Value, Strided], value: Value, target: Strided
) -> dict[Value, Strided] | None:
    """Where everything in the buffer of `value` lies once it is that of `target`; None if the
    elements of `value` would not be in their places."""
    base = memory[value].base
    inside = [other for other, lies in memory.items() if lies.base is base]
    if inside == [value]:
        return {value: target}
    lies = memory[value]
    if lies.elements != memory[base].elements or _walk(lies) != _walk(target):
        return None
    return {other: dataclasses.replace(memory[other], base=target.base) for other in inside}


def _walk(memory: Strided) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The offset, and the sizes and strides of all dimensions that have more than one element."""
    spans = zip(memory.shape, memory.strides, strict=True)
    return memory.offset, tuple((size, stride) for size, stride in spans if size > 1)


def _overlaps_itself(memory: Strided) -> bool:
    """Whether two elements may be one in memory: dimensions are not nested in each other."""
    (_, spans), reached = _walk(memory), 1
    for size, stride in sorted(spans, key=lambda span: span[1]):
        if stride < reached:
            return True
        reached = size * stride
    return False


def _dependencies(steps: Sequence[Segment | ExternStep]) -> Iterator[tuple[int, int]]:
    """Steps that write what others read or change, by number. What a scatter changes in place lies
    in the buffer of its result, which so has two writers."""
    writers: dict[Value, int] = {}
    for number, step in enumerate(steps):
        written = _bases(step, step.fusion.output_values)
        touched = _read_bases(step) | written
        yield from ((writers[base], number) for base in touched if base in writers)
        writers |= dict.fromkeys(written, number)


def _order(count: int, edges: Collection[tuple[int, int]]) -> list[int] | None:
    """The steps in an order that all of `edges` allow, the first one where they can be; or None."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    if not nx.is_directed_acyclic_graph(graph):
        return None
    return list(nx.lexicographical_topological_sort(graph))


def _read_bases(step: Segment | ExternStep) -> set[Value]:
    """The buffers a step reads."""
    return _bases(step, step.fusion.inputs)


def _bases(step: Segment | ExternStep, values: Iterable[Value]) -> set[Value]:
    """The buffers of some values of a step."""
    return {step.memory[value].base for value in values if value.is_tensor}


def _with_memory(
    step: Segment | ExternStep, moved: Mapping[Value, Strided]
) -> Segment | ExternStep:
    memory = {value: moved.get(value, lies) for value, lies in step.memory.items()}
    return dataclasses.replace(step, memory=memory)
