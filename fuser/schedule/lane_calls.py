"""Functions of all lanes at once: what is done lane by lane, in phases with calls between them.

    lanes   T1 = load                      lanes   T1 = load; T1_held = T1
            T2 = T1 * 0.7                          T2 = T1 * 0.7; T3_given = T2        phase 0
            T3 = erf(T2)             ->    T3_held = erf of all lanes of T3_given
            T4 = T1 * T3                   lanes   T1 = T1_held; T3 = T3_held
                                                   T4 = T1 * T3                        phase 1

Compilers make vectors of a loop over lanes, but only with the instructions that C++ has words for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence

from fuser.ir.dtypes import DataType
from fuser.schedule.loop_tree import Call, Kept, LaneCall, Lanes, Let, Load, Loop, Node, Ref
from fuser.schedule.row_body import Code, dtype_of, names_in, variables_of

LANE_FUNCTIONS = frozenset(
    {"cos", "erf", "exp", "exp_nonpositive", "sigmoid", "silu", "sin", "tanh"}
)
"""The rows of the pointwise table that the device library has for all lanes at once."""

VECTOR = 16
"""Lanes come in multiples of so many, or a function is called in each of them."""

LaneLoop = Callable[[tuple[Node, ...]], Loop]


def calls_lanes(node: object) -> bool:
    """Whether a node calls a function that there is for all lanes at once."""
    match node:
        case Let(expression=Call() as call, in_lanes=False):
            return call.op in LANE_FUNCTIONS and call.dtype is DataType.Float
        case _:
            return False


def with_lane_calls(
    code: Sequence[Code], count: int, lane_loop: LaneLoop, before: Container[str] = ()
) -> tuple[list[Lanes], list[Node]]:
    """`code` for `count` lanes: arrays to declare, and loops over lanes with calls between them.

    What was made `before` under the same name, lane by lane, is made so again: calls round
    otherwise, and an element may be compared with what was found then.
    """
    calls = {node.name for node in code if calls_lanes(node) and node.name not in before}
    if not calls or count % VECTOR or not all(map(_may_repeat, code)):
        return [], [lane_loop(tuple(code))]
    return _Phases(code, calls).nodes(count, lane_loop)


def _may_repeat(node: Code) -> bool:
    """Whether a node does nothing but make what its name stands for."""
    return isinstance(node, Load | Let | Kept)


def _is_held(node: Code) -> bool:
    """Whether later phases read what the first one made: what is not just read from memory, if it
    is a float32, or random. Truth values would be slow to hold."""
    match node:
        case Load(drawn=None):
            return bool(variables_of((node.at,))) and node.tensor.dtype is DataType.Float
        case Load():
            return True
        case _:
            return isinstance(node, Let) and node.dtype is DataType.Float


class _Phases:
    """Which phases make what a name stands for, and which read it."""

    def __init__(self, code: Sequence[Code], calls: set[str]) -> None:
        self._code = code
        self._calls = calls
        """Which names stand for what is made for all lanes."""
        self._first: dict[str, int] = {}
        """The first phase in which a name may be read."""
        for node in code:
            after = max((self._first.get(name, 0) for name in names_in((node,))), default=0)
            self._first[node.name] = after + 1 if node.name in calls else after
        self._read: defaultdict[str, set[int]] = defaultdict(set)
        self._made: dict[str, set[int]] = {}
        """Of a call, the phase that ends with it."""
        for node in reversed(code):
            self._made[node.name] = self._makes(node)
            for name in names_in((node,)):
                self._read[name] |= self._made[node.name]

    def _makes(self, node: Code) -> set[int]:
        """A call is made at the end of the phase before; what is held, in the first phase that
        reads it; anything else, doubles and integers among them, in each that does."""
        first, read = self._first[node.name], self._read[node.name]
        if node.name in self._calls:
            return {first - 1}
        if isinstance(node, Let) and node.in_lanes:
            return {first}
        return {min(read)} if read and _is_held(node) else read

    def nodes(self, count: int, lane_loop: LaneLoop) -> tuple[list[Lanes], list[Node]]:
        """The arrays to declare; the phases, and the calls between them."""
        arrays: list[Lanes] = []
        nodes: list[Node] = []
        for phase in range(max(self._first.values()) + 1):
            inside: list[Node] = []
            calls: list[LaneCall] = []
            for node in self._code:
                done, call = self._of_phase(phase, node)
                inside += done
                calls += call
            filled = (node for node in inside if isinstance(node, Let) and node.in_lanes)
            own = (node for node in filled if node.name not in self._made)
            arrays += [Lanes(node.name, node.dtype, count) for node in own]
            arrays += [Lanes(call.name, DataType.Float, count) for call in calls]
            nodes += [lane_loop(tuple(inside)), *calls]
        return arrays, nodes

    def _of_phase(self, phase: int, node: Code) -> tuple[list[Node], list[LaneCall]]:
        """What a phase does for a name in each lane, and then for all lanes."""
        name, dtype = node.name, dtype_of(node)
        held, made, read = f"{name}_held", phase in self._made[name], self._read[name]
        if made and name in self._calls:
            assert isinstance(node, Let)
            assert isinstance(node.expression, Call)
            call = LaneCall(held, node.expression.op, f"{name}_given")
            return [Let(call.given, dtype, node.expression.args[0], in_lanes=True)], [call]
        if made:
            holds = _is_held(node) and phase < max(read, default=0)
            hold = Let(held, dtype, Ref(name, dtype), in_lanes=True)
            return [node, *([hold] if holds else [])], []
        return [Let(name, dtype, Ref(held, dtype))] if phase in read else [], []
