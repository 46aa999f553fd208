"""A graph that is called again with inputs that lie as before: they are checked once.

    part = part_0(a, b)    # checks a and b
    c = part[0]                                [c] = run_0([a, b])    # which are recognized
    d = alias(c)           # checks c     =>   d = reinterpret(c, sizes, strides, offset)
    e = part_1(d)[0]       # checks d          [e] = run_1([d])

What partitions, aliases and products make lies as what they read says. What torch makes besides is
looked at where it is made. Of small tensors, the checks take longer than the kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fuser.frontend.profiler import PROFILERS
from fuser.integrations.fx.graph_text import Forward, GraphWriter
from fuser.integrations.fx.nodes import is_write, meta_of, tensor_of
from fuser.integrations.outer.products import PooledProduct
from fuser.integrations.outer.seen_layouts import SeenLayout
from fuser.integrations.outer.views import Alias
from fuser.integrations.partitions.partition_call import PartitionCall
from fuser.integrations.rewrites.updates import WRITES
from fuser.runtime.calls.call import is_traced
from fuser.runtime.calls.overlaps import are_apart, overlapping
from fuser.runtime.calls.placed import Run
from fuser.runtime.calls.torch_shortcuts import Recognizes, never, recognizer

ATTEMPTS = 8
"""How often a graph's inputs of the same sizes may lie in a new way, until no more are recorded."""

MOST_SIZES = 64
"""How many sizes of inputs are looked at where tracing left some open: of a text that grows by a
word each time, none comes again."""

_CONTIGUOUS = (torch.mm, torch.bmm, torch.addmm)
"""Their results are contiguous, whatever they read."""


def hoisted(outer: GraphModule) -> Forward:
    """`outer.forward`; after two calls with inputs that lie alike, such inputs are checked once."""
    return _GraphCall(outer) if _may_be_hoisted(outer.graph) else outer.forward


def _may_be_hoisted(graph: Graph) -> bool:
    """Whether the inputs' sizes say all that partitions read, and torch writes numbers only."""
    read = [node for call in graph.nodes if _is_checked(call) for node in call.all_input_nodes]
    writes = (node.target for node in graph.nodes if is_write(node))
    numbers = all(target in WRITES for target in writes)
    return bool(read) and all(map(_follows, read)) and numbers


def _is_checked(node: Node) -> bool:
    """Whether a node's call looks at how its inputs lie."""
    return isinstance(node.target, PartitionCall | Alias)


def _updated(node: Node) -> list[Node]:
    """What a partition updates."""
    call = node.target
    if not isinstance(call, PartitionCall):
        return []
    return [cast("Node", node.args[number]) for number in call.updated]


def _follows(node: Node) -> bool:
    """Whether the sizes of the graph's inputs, and the numbers among these, say of which sizes a
    node's result is, or which number."""
    value = meta_of(node)
    return isinstance(value, torch.Tensor | torch.SymInt | int) and not free_unbacked_symbols(value)


@dataclass(frozen=True, slots=True)
class _Habit:
    """What runs inputs of which this was recorded, and what tells those."""

    recognizes: Recognizes
    run: Forward


@dataclass(slots=True)
class _OfSizes:
    """What is known of inputs of some sizes: how the last ones lay, and of which is a habit."""

    habit: _Habit
    last: Recognizes = never
    attempts: int = ATTEMPTS


class _GraphCall:
    """Calls a graph, without checks where inputs lie as in two calls before; of sizes that tracing
    left open, in two with the same ones. Threads may share it: a habit is replaced as a whole."""

    def __init__(self, outer: GraphModule) -> None:
        self._outer, self._checked = outer, cast("Forward", outer.forward)
        self._places = [node for node in outer.graph.nodes if node.op == "placeholder"]
        numbered = list(enumerate(self._places))
        numbers = [n for n, node in numbered if _is_number(node)]
        looked_at = {n for n, node in numbered if any(map(_is_checked, node.users))}
        read = sorted(looked_at.union(numbers))
        self._numbers_of, self._read_of = _picker(numbers), _picker(read)
        written = {node for call in outer.graph.nodes for node in _updated(call)}
        self._updated = [at for at, n in enumerate(read) if self._places[n] in written]
        self._unknown = _Habit(never, self._checked)
        self._known: dict[tuple[object, ...], _OfSizes] = {}

    def __call__(self, inputs: list[Any]) -> Any:
        """The graph's results."""
        if PROFILERS or is_traced():
            return self._checked(inputs)
        sizes = tuple(self._numbers_of(inputs))
        known = self._known.get(sizes)
        if known is None:
            if len(self._known) >= MOST_SIZES:
                return self._checked(inputs)
            known = self._known[sizes] = _OfSizes(self._unknown)
        habit = known.habit
        if habit.recognizes(self._read_of(inputs)):
            return habit.run(inputs)
        if known.attempts > 0 and (recognizes := self._seen_again(known, inputs)):
            return self._recorded(known, recognizes, inputs)
        return self._checked(inputs)

    def _seen_again(self, known: _OfSizes, inputs: list[Any]) -> Recognizes | None:
        """What recognizes inputs without a habit, if they lie as the last ones without one."""
        read, last = self._read_of(inputs), known.last
        if last(read):
            return last
        known.attempts -= 1
        if not overlapping(read, self._updated):
            known.last = recognizer(read, are_apart(read, self._updated) if self._updated else None)
        return None

    def _recorded(self, known: _OfSizes, recognizes: Recognizes, inputs: list[Any]) -> Any:
        """The results, and a habit of inputs that lie as these."""
        recorder = _Recorder(self._outer)
        recorder.see_inputs(self._places, inputs)
        results = recorder.boxed_run(inputs)
        run = _without_checks(self._outer, recorder, partial(self._forget, known))
        known.habit = _Habit(recognizes, run)
        return results

    def _forget(self, known: _OfSizes) -> None:
        """Check all of such sizes from now on."""
        known.attempts, known.habit = 0, self._unknown


def _picker(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Takes what is at some places of a list, in their order, by one call."""
    start, count = (places[0] if places else 0), len(places)
    if list(places) == list(range(start, start + count)):
        return operator.itemgetter(slice(start, start + count))
    return operator.itemgetter(*places)


class _Recorder(Interpreter):
    """Runs a graph, and keeps how tensors lie, and what ran the partitions of which a call needs
    to know no more than how its inputs lie, with the number of their outputs."""

    def __init__(self, outer: GraphModule) -> None:
        super().__init__(outer)
        self.extra_traceback = False  # errors are the operations' own
        self.lies: dict[Node, SeenLayout] = {}
        self.runs: dict[Node, tuple[Run, int]] = {}

    def see_inputs(self, places: Sequence[Node], inputs: Sequence[object]) -> None:
        """Keep how inputs lie, which are those of `places`."""
        for place, given in zip(places, inputs, strict=True):
            self._see(place, given)

    def run_node(self, n: Node) -> Any:
        """The result of a node."""
        made = super().run_node(n)
        self._see(n, made)
        if isinstance(n.target, PartitionCall):
            run = n.target.settled(self.fetch_args_kwargs_from_env(n)[0])
            if run is not None:
                self.runs[n] = run, len(made)
        return made

    def _see(self, node: Node, made: object) -> None:
        if isinstance(made, torch.Tensor):
            self.lies[node] = SeenLayout.of(made)


def _without_checks(outer: GraphModule, seen: _Recorder, forget: Callable[[], None]) -> Forward:
    """The graph, for inputs of which all that is made lies as it was `seen` to."""
    writer, settled = GraphWriter(outer), set[Node]()  # what lies as it was seen
    for node in outer.graph.nodes:
        if node.op == "placeholder":
            settled.add(node)
        elif _is_checked(node) and not settled.issuperset(node.all_input_nodes):
            writer.call(node)
        elif node in seen.runs and _may_run(node, seen):
            _write_run(writer, node, seen, forget)
            settled.update((node, *node.users))
        elif isinstance(node.target, Alias) and not node.target.noticed:
            # It may be unaligned: what reads it then has no run.
            there, below = seen.lies[node], seen.lies[node.all_input_nodes[0]]
            laid = there.sizes, there.strides, there.offset - below.offset
            writer.call_instead(node, node.target.at, (*node.args, *laid))
            settled.add(node)
        elif _is_number(node):
            writer.call(node)
            if _follows(node):
                settled.add(node)
        elif node not in settled and _write_of_torch(writer, node, seen):
            settled.add(node)
    return writer.function()


def _write_run(
    writer: GraphWriter, node: Node, seen: _Recorder, forget: Callable[[], None]
) -> None:
    """Write the call of a partition that looks at nothing."""
    run, count = seen.runs[node]
    taken = {user.args[1]: user for user in node.users}
    outputs = [taken.get(number) for number in range(count)]
    laid = [None if out is None else seen.lies[out] for out in outputs]
    once = bool(_updated(node))  # what was written already is not written again
    writer.unpack(node, outputs, run, None if once else _instead(node, laid, forget))


def _write_of_torch(writer: GraphWriter, node: Node, seen: _Recorder) -> bool:
    """Write what torch makes, laid out as it was seen where that matters; whether it is."""
    made_by = _product_of(node, seen)
    if made_by is node.target:
        writer.call(node)
    else:
        writer.call_instead(node, made_by, node.args)
    lies = seen.lies.get(node)
    if lies is None or not lies.aligned:
        return False
    if node.op == "get_attr" or made_by in _CONTIGUOUS:
        return True
    is_laid = lies.can_be_laid and any(map(_is_checked, node.users))
    if is_laid:
        writer.lay(node, lies.again)
    return is_laid


def _product_of(node: Node, seen: _Recorder) -> Any:
    """What a node calls; of products, what makes results of the sizes that were seen."""
    product = node.target
    if not isinstance(product, PooledProduct) or node.kwargs:
        return product
    return product.of_result(seen.lies[node].sizes, tensor_of(node).element_size())


def _is_number(node: Node) -> bool:
    return isinstance(meta_of(node), torch.SymInt | int)


def _may_run(node: Node, seen: _Recorder) -> bool:
    """Whether a partition may run unchecked: what it makes can be laid as it was seen, and of what
    it updates, the graph's inputs tell whether other operands overlap it."""
    if not all(seen.lies[user].can_be_laid for user in node.users):
        return False
    return not _updated(node) or not any(map(_may_be_view, node.all_input_nodes))


def _may_be_view(node: Node) -> bool:
    """Whether a node may be in memory of an input that the graph's check does not look at."""
    ours = isinstance(node.target, Alias) or node.target in _CONTIGUOUS
    made = node.target is operator.getitem and _is_checked(node.all_input_nodes[0])
    return not (node.op == "placeholder" or ours or made)


def _instead(
    node: Node, laid: Sequence[SeenLayout | None], forget: Callable[[], None]
) -> Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]:
    """What is called where a partition fails that nothing has checked: itself, which tells of
    mistakes, or has torch run it from then on. The outputs are `laid` as they were."""
    call = cast("PartitionCall", node.target)

    def checked(inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        outputs = call(*inputs)
        if call.failure is not None:
            forget()
        pairs = zip(outputs, laid, strict=True)
        return [out if lies is None else lies.again(out) for out, lies in pairs]

    return checked
