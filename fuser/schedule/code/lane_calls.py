"""Functions of all lanes at once: what is done lane by lane, in phases with calls between them.

    lanes   T1 = load                      lanes   T1 = load; T1_held = T1
            T2 = T1 * 0.7                          T2 = T1 * 0.7; T3_given = T2        phase 0
            T3 = erf(T2)             ->    T3_held = erf of all lanes of T3_given
            T4 = T1 * T3                   lanes   T1 = T1_held; T3 = T3_held
                                                   T4 = T1 * T3                        phase 1

Compilers make vectors of a loop over lanes, but only with the instructions that C++ has words for,
and all of one size: where sixteen lanes become bytes, floats are done in vectors of four. So of few
lanes, conversions of 32 bits to bytes are such calls too.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuser.ir.dtypes import DataType
from fuser.schedule.code.row_body import Code, Fold, names_in
from fuser.schedule.indices.rewrites import variables_of
from fuser.schedule.tree.expressions import Call, Convert, Expression, Ref
from fuser.schedule.tree.loop_tree import Loop, Node, every_node
from fuser.schedule.tree.names import given_name, held_name
from fuser.schedule.tree.row_statements import Accumulate, Keep, Kept
from fuser.schedule.tree.statements import CONVERTED, LaneCall, Lanes, Let, Load, Store, draws
from fuser.schedule.tree.vectors import VECTOR_BYTES

LANE_FUNCTIONS = {
    DataType.Float: frozenset(
        {
            *("cos", "erf", "exp", "exp_nonpositive", "gelu", "log", "log10", "log1p", "log2"),
            *("normal_cdf", "sigmoid", "silu", "sin", "tan", "tanh"),
        }
    ),
    DataType.Double: frozenset(
        {"cos", "erf", "erfinv", "exp", "log", "log10", "log2", "sin", "sqrt", "tan"}
    ),
}
"""By type, the rows of the pointwise table that the device library has for all lanes at once."""

_AS_GOOD = frozenset({"exp"})
"""Those that compilers make almost as good vectors of. Other kernels, where lanes are rows, may
make them again lane by lane, and compare an element with what those of a row are folded to."""

_NARROW = frozenset({"erf", "exp", "gelu", "normal_cdf", "sigmoid", "silu", "tanh"})
"""Those it has for results of 16 bits too, in fewer operations."""

_SMOOTH = _NARROW | {
    *("abs", "add", "addcmul", "clamp", "cos", "maximum", "minimum", "mul", "neg", "reciprocal"),
    *("relu", "sin", "sub", "truediv", "where"),
}
"""Rows of the table that make no more of a small error than 16 bits hide. A step would, and where
there is a logarithm or a root, what 1 - tanh(x) still has."""

_NARROW_BYTES = 2
_WIDE_BYTES = 4

VECTOR = 16
"""Lanes come in multiples of so many, or a function is called in each of them."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Names that all loops of a kernel make alike. Calls round otherwise than what is made lane by
    lane, and narrow ones more than others, and an element may be compared with what an earlier loop
    found."""

    in_turn: AbstractSet[str] = frozenset()
    """Those that are made lane by lane, though there is a call for all lanes."""
    wide: AbstractSet[str] = frozenset()
    """Those that are made in 32 bits, though a loop has results of 16 bits only."""


ANY_WAY = Alike()
"""Before any loop is made."""


Work = Code | Accumulate | Store
"""What is done in each lane."""


def gains_by_chunks(nodes: Iterable[Node]) -> bool:
    """Whether nodes draw random numbers, which chunks do in whole blocks, or call functions that
    chunks have for all lanes at once."""
    nodes = tuple(nodes)
    return draws(nodes) or bool(lane_calls_in(nodes))


def lane_calls_in(nodes: Iterable[Node], in_turn: Container[str] = ()) -> dict[str, Call]:
    """By name, the calls of functions that there are for all lanes at once."""
    calls: dict[str, Call] = {}
    for node in nodes:
        match node:
            case Let(name, expression=Call(op, _, dtype, False) as call, in_lanes=False):
                if op in LANE_FUNCTIONS.get(dtype, ()) and name not in in_turn:
                    calls[name] = call
            case _:
                pass
    return calls


def _conversions_in(nodes: Iterable[Node], count: int) -> dict[str, Convert]:
    """By name, the conversions of 32 bits to bytes of which `count` fill no vector, where nothing
    converts them back."""
    if count >= VECTOR_BYTES:
        return {}
    conversions: dict[str, Convert] = {}
    for node in nodes:
        match node:
            case Let(name, expression=Convert(of, dtype) as conversion, in_lanes=False):
                if of.dtype.itemsize == _WIDE_BYTES and _is_byte(dtype):
                    conversions[name] = conversion
                elif isinstance(of, Ref):
                    conversions.pop(of.name, None)
            case _:
                pass
    return conversions


def _is_byte(dtype: DataType) -> bool:
    """Whether a number has a byte of its own; truth values are masks of vectors."""
    return dtype.itemsize == 1 and dtype is not DataType.Bool and not dtype.is_float4


def worth_phases(code: Sequence[Work], count: int, in_turn: Container[str]) -> bool:
    """Whether calls make up for what is held between phases, where it would be in registers."""
    if _conversions_in(code, count):
        return True
    return any(call.op not in _AS_GOOD for call in lane_calls_in(code, in_turn).values())


def with_lane_calls(
    code: Sequence[Work],
    count: int,
    lane_loop: Loop,
    alike: Alike = ANY_WAY,
    *,
    narrow: bool = False,
) -> tuple[list[Lanes], list[Node]]:
    """`code` for `count` lanes: arrays to declare, and `lane_loop`s with calls between them.
    `narrow`: all that comes of `code` are results of 16 bits."""
    functions, conversions = lane_calls_in(code, alike.in_turn), _conversions_in(code, count)
    if not (functions or conversions) or count % VECTOR or not all(map(_may_wait, code)):
        return [], [dataclasses.replace(lane_loop, body=tuple(code))]
    if narrow:
        wide = alike.wide | read_exactly(code)
        functions |= {name: _narrowed(call) for name, call in functions.items() if name not in wide}
    return _Phases(code, functions | conversions).nodes(count, lane_loop)


def _narrowed(call: Call) -> Call:
    is_narrow = call.dtype is DataType.Float and call.op in _NARROW
    return dataclasses.replace(call, op=f"{call.op}_narrow") if is_narrow else call


def read_exactly(
    nodes: Sequence[Work | Fold],
    smooth: AbstractSet[str] = _SMOOTH,
    seen: AbstractSet[str] = frozenset(),
) -> set[str]:
    """The names that are `seen` as they are, and those of which something else than `smooth`
    functions is made, whatever is made of that."""
    read = set(seen)
    for node in reversed(nodes):
        match node:
            case Let(name, expression=value) | Fold(name, "add" | "maximum" | "minimum", value):
                read.update(_exactly(value, smooth, exactly=name in read))
            case Store() | Kept():
                pass
            case _:
                read.update(names_in((node,)))
    return read


def _exactly(expression: Expression, smooth: AbstractSet[str], *, exactly: bool) -> Iterator[str]:
    """The names that an expression reads `exactly`, or in what is not smooth."""
    match expression:
        case Ref(name) if exactly:
            yield name
        case Convert(of, dtype):
            yield from _exactly(of, smooth, exactly=exactly or not dtype.is_floating)
        case Call(op, args):
            for arg in args:
                yield from _exactly(arg, smooth, exactly=exactly or op not in smooth)
        case _:
            pass


def are_narrow(stores: Iterable[Store]) -> bool:
    """Whether all that is stored are floats of 16 bits at most."""
    dtypes = [store.dtype for store in stores]
    return all(dtype.is_floating and dtype.itemsize <= _NARROW_BYTES for dtype in dtypes)


def made_alike(nodes: Iterable[Node], so_far: Alike) -> Alike:
    """`so_far`, and the names that some loops make for all lanes at once and others lane by lane,
    or by two functions."""
    done = list(every_node(nodes))
    by: defaultdict[str, set[str]] = defaultdict(set)
    for node in done:
        if isinstance(node, LaneCall):
            by[node.value].add(node.operation)
    twice = {name for name, functions in by.items() if len(functions) > 1}
    return Alike(so_far.in_turn | (by.keys() & lane_calls_in(done).keys()), so_far.wide | twice)


def _may_wait(node: Work) -> bool:
    """Whether a node may as well be done when those after it are, in other lanes."""
    return isinstance(node, Load | Let | Kept | Keep | Accumulate | Store)


def _read_by_name(node: Work) -> Code | None:
    """A node, if others of the loop may read what it makes."""
    match node:
        case Keep() | Accumulate() | Store() | Let(in_lanes=True):
            return None
        case _:
            return node


def _is_held(node: Work) -> bool:
    """Whether later phases read what the first one made: what is not just read from memory, if it
    is a float of 32 bits or more, or random. Truth values would be slow to hold."""
    match node:
        case Load(drawn=None):
            return bool(variables_of(node.at)) and node.dtype in LANE_FUNCTIONS
        case Load():
            return True
        case _:
            return isinstance(node, Let) and node.dtype in LANE_FUNCTIONS


class _Phases:
    """Which phases make what a name stands for, and which read it."""

    def __init__(self, code: Sequence[Work], calls: Mapping[str, Call | Convert]) -> None:
        self._code = code
        self._calls = calls
        """What is made for all lanes, by name."""
        first: list[int] = []
        """Of each node, the first phase in which what it reads is known."""
        known: dict[str, int] = {}
        for node in code:
            first.append(max((known.get(name, 0) for name in names_in((node,))), default=0))
            if named := _read_by_name(node):
                known[named.name] = first[-1] + (named.name in calls)
        self._read: defaultdict[str, set[int]] = defaultdict(set)
        self._made: list[set[int]] = [set() for _ in code]
        """Of each node, the phases that do it; of a call, the one that ends with it."""
        for place in reversed(range(len(code))):
            node = code[place]
            self._made[place] = self._makes(node, first[place])
            for name in names_in((node,)):
                self._read[name] |= self._made[place]

    def _makes(self, node: Work, first: int) -> set[int]:
        """A call is made at the end of a phase, for the next. What is held, in the first phase that
        reads it; anything else, integers among them, in each that does."""
        named = _read_by_name(node)
        if named is None or named.name in self._calls:
            return {first}
        read = self._read[named.name]
        return {min(read)} if read and _is_held(node) else read

    def nodes(self, count: int, lane_loop: Loop) -> tuple[list[Lanes], list[Node]]:
        """The arrays to declare; the phases, and the calls between them."""
        arrays: list[Lanes] = []
        nodes: list[Node] = []
        declared = {node.name for node in self._code if isinstance(node, Let) and node.in_lanes}
        for phase in range(max(set[int]().union(*self._made)) + 1):
            done = (self._done(phase, *each) for each in zip(self._code, self._made, strict=True))
            inside = [node for nodes_of in done for node in nodes_of]
            calls = list(self._called_after(phase))
            filled = (node for node in inside if isinstance(node, Let) and node.in_lanes)
            own = (node for node in filled if node.name not in declared)
            arrays += [Lanes(node.name, node.dtype, count) for node in own]
            arrays += [Lanes(call.name, call.dtype, count) for call in calls]
            nodes += [dataclasses.replace(lane_loop, body=tuple(inside)), *calls]
        return arrays, nodes

    def _done(self, phase: int, node: Work, made: AbstractSet[int]) -> list[Node]:
        """What a phase does of a node that phases `made` do, in each lane."""
        named = _read_by_name(node)
        if named is None:
            return [node] if phase in made else []
        name, dtype, read = named.name, named.dtype, self._read[named.name]
        held = Ref(held_name(name), dtype)
        if phase not in made:
            return [Let(name, dtype, held)] if phase in read else []
        if call := self._calls.get(name):
            given, of = _given(call)
            return [Let(given_name(name), of, given, in_lanes=True)]
        if _is_held(node) and phase < max(read, default=0):
            return [node, Let(held.name, dtype, Ref(name, dtype), in_lanes=True)]
        return [node]

    def _called_after(self, phase: int) -> Iterator[LaneCall]:
        for node, made in zip(self._code, self._made, strict=True):
            named = _read_by_name(node)
            if named and (call := self._calls.get(named.name)) and phase in made:
                yield _lane_call(named.name, call)


def _given(call: Call | Convert) -> tuple[Expression, DataType]:
    """What a call is of, in each lane, and its type."""
    return (call.args[0], call.dtype) if isinstance(call, Call) else (call.of, call.of.dtype)


def _lane_call(name: str, call: Call | Convert) -> LaneCall:
    operation = call.op if isinstance(call, Call) else CONVERTED
    return LaneCall(held_name(name), name, operation, given_name(name), call.dtype)
