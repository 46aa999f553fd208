"""How values lie in memory, as far as it is known before inputs are seen, and whether it shows.

T1 = fd.ops.index_select(T0, T9, dim=1)     always row-major
T1 = fd.ops.slice(T0, ...)                  in the memory of T0
fd.add_output(T1)                           and T1's strides show: the two are not the same

A rewrite may change how a value lies only where no output shows it.
"""

from __future__ import annotations

import functools
from enum import IntEnum

from fuser.ir.dtypes import DataType
from fuser.ir.extern_memory import extern_memory
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    CheckIndex,
    Expand,
    Extern,
    Flip,
    Fusion,
    Gather,
    Operation,
    Permute,
    Pointwise,
    Scatter,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    operands,
)
from fuser.ir.strided import Order, Strided, alias, dense, order_of, row_major, selected
from fuser.ir.types import TensorType, dense_strides, dims_slowest_first
from fuser.passes.unknown_strides import UnknownStrides, is_known, used_strides


class Seen(IntEnum):
    """What the outputs show of how a value lies."""

    NOTHING = 0
    ORDER = 1  # of its strides: a result computed from it is laid out alike
    MEMORY = 2  # strides, and whose memory it is


def seen_layouts(fusion: Fusion) -> dict[Value, Seen]:
    """What the outputs show of each value; nothing of those that are left out. What is written
    into an input lies as that does."""
    returned = (output.value for output in fusion.outputs if output.alias_of is None)
    seen = dict.fromkeys(returned, Seen.MEMORY)
    for statement in reversed(fusion.statements):
        level = max(seen.get(out, Seen.NOTHING) for out in statement.outs)
        if level is not Seen.NOTHING:
            for value, shown in _shown(statement.op, level):
                seen[value] = max(shown, seen.get(value, Seen.NOTHING))
    return seen


def _shown(op: Operation, level: Seen) -> list[tuple[Value, Seen]]:
    """What an operation lets through of its operands' layouts."""
    match op:
        case View():
            return [(op.arg, Seen.MEMORY)]  # a gap decides whether a view is a copy
        case Permute() | Broadcast() | Expand() | Squeeze() | Slice() | Gather(mode="select"):
            return [(op.arg, level)]
        case _ if (same := _handed_on(op)) is not None:
            return [(same, level)]
        case Extern():
            return [(value, Seen.ORDER) for value in operands(op) if _has_order(value.shape)]
        case _:
            return [(value, Seen.ORDER) for value in _met(op) if _has_order(value.shape)]


def _handed_on(op: Operation) -> Value | None:
    """The operand that is the result, as it is."""
    if isinstance(op, CheckIndex) or (isinstance(op, Cast) and op.arg.dtype is op.dtype):
        return op.arg
    return None


_MET_OTHERWISE = {
    "add_alpha": (0, 2, 1),
    "addcmul": (0, 3, 1, 2),
    "logical_right_shift": (1, 0),
    "sub_alpha": (0, 2, 1),
}
"""Operations that are several in torch, which meet their operands in another order than theirs."""


def _met(op: Operation) -> list[Value]:
    """The tensors whose order a result follows that has a memory of its own, first come first."""
    match op:
        case Cast() | Flip() | Scatter(mode="index_put_accumulate"):
            return [op.arg]
        case Pointwise():
            order = _MET_OTHERWISE.get(op.op, range(len(op.args)))
            return [op.args[position] for position in order if op.args[position].shape]
        case _:
            return []


def _has_order(shape: tuple[int, ...]) -> bool:
    return sum(size != 1 for size in shape) > 1


# -- how values lie ------------------------------------------------------------------------------


class Layouts:
    """How the values of a fusion lie in torch. It grows a statement at a time."""

    def __init__(self, fusion: Fusion, beside: Layouts | None = None) -> None:
        """`beside` another one, unknown strides have the same names in both."""
        self._unknown = UnknownStrides() if beside is None else beside._unknown
        tensors = [value for value in fusion.inputs if value.is_tensor]
        self._held: dict[Value, Strided] = {value: self._input(value) for value in tensors}

    @classmethod
    def of(cls, fusion: Fusion) -> Layouts:
        """How all of its values lie."""
        layouts = cls(fusion)
        for statement in fusion.statements:
            layouts.follow(statement)
        return layouts

    def __getitem__(self, value: Value) -> Strided:
        return self._held[value]

    def follow(self, statement: Statement) -> None:
        """Add the results of the next statement."""
        if isinstance(statement.op, Extern):
            self._held |= self._of_torch(statement)
            return
        for out in statement.outs:
            if out.is_tensor:
                self._held[out] = self.result(statement.op, out)

    def result(self, op: Operation, out: Value) -> Strided:
        """How `out`, a result of `op`, lies."""
        held = self._held
        match op:
            case View() | Permute() | Broadcast() | Expand() | Squeeze() | Slice():
                return self._alias(op, held[op.arg], out)
            case Gather(mode="select"):
                return selected(op, held[op.arg], out)
            case StrideOrder():
                return dense(out, op.order)
            case _ if (same := _handed_on(op)) is not None:
                return held[same]
            case _ if _has_order(out.shape) and (met := _met(op)):
                return self._computed(out, [held[value] for value in met])
            case _:
                return row_major(out)

    def _of_torch(self, statement: Statement) -> dict[Value, Strided]:
        """What torch runs; attention lays its results out as its operands."""
        held = [self._held[value] for value in operands(statement.op) if value.is_tensor]
        if all(map(is_known, held)):
            return extern_memory(statement, self._held)
        outs = {v: Strided(v, v.shape, self._unknown.of(v, v.shape)) for v in statement.outs}
        op = statement.op
        attends = isinstance(op, Extern) and op.function.startswith("sdpfa")
        return outs if attends else {value: row_major(value) for value in outs}

    def _input(self, value: Value) -> Strided:
        """Known where the declaration leaves no stride open."""
        layout = value.tensor.layout
        strides = list(self._unknown.of(value, value.shape))
        if layout is None:
            return Strided(value, value.shape, tuple(strides))
        step: int | None = 1
        fastest_first = reversed(dims_slowest_first(layout.stride_order))
        for dim, contiguous in zip(fastest_first, reversed(layout.contiguity), strict=True):
            size = value.shape[dim]
            if size == 1:
                continue
            if contiguous is None:
                strides[dim] = 0
                continue
            step = step if contiguous else None
            if step is not None:
                strides[dim] = step
                step *= size
        return Strided(value, value.shape, tuple(strides))

    def _alias(
        self, op: View | Permute | Broadcast | Expand | Squeeze | Slice, memory: Strided, out: Value
    ) -> Strided:
        found = alias(op, memory, out.shape)
        if found is not None:
            return found
        if is_known(memory):
            return row_major(out)
        what = (memory.base, memory.shape, used_strides(memory))
        return Strided(out, out.shape, self._unknown.of(what, out.shape))

    def _computed(self, out: Value, memories: list[Strided]) -> Strided:
        """A pointwise result: dense, its dimensions ordered by the first operand that can."""
        ordered = [memory for memory in memories if _has_order(memory.shape)]
        whole = bool(ordered) and ordered[0].shape == out.shape
        if whole:
            strides = _dense_like(out.shape, ordered[0].strides)
            if strides is not None:
                return Strided(out, out.shape, strides)
        if all(_falls(memory, out.shape) for memory in memories):
            return row_major(out)
        if whole and len(ordered) == 1:
            return Strided(out, out.shape, self._unknown.like(ordered[0]))
        return Strided(out, out.shape, self._unknown.of(out, out.shape))


def alike(old: Strided, new: Strided, seen: Seen) -> bool:
    """Whether outputs cannot tell the strides apart that show these, or only their order."""
    if used_strides(old) == used_strides(new):
        return True
    known = is_known(old) and is_known(new)
    return seen is Seen.ORDER and known and _order(old) == _order(new) is not None


def layout_to_restore(value: Value, memory: Strided) -> Order | None:
    """The stride order that lays `value` out as it was, if it was dense in its own memory."""
    if memory.base != value or not is_known(memory):
        return None
    order = order_of(memory)
    return order if order is not None and memory == dense(value, order) else None


@functools.lru_cache(maxsize=1024)
def _dense_like(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides without gaps, ordered as `strides` are; None where those leave the order open."""
    memory = Strided(Value(0, TensorType(DataType.Bool, shape)), shape, strides)
    order = order_of(memory) if is_known(memory) else None
    return None if order is None else dense_strides(shape, order)


def _falls(memory: Strided, shape: tuple[int, ...]) -> bool:
    """Whether strides are known that fall from left to right, as those of row-major tensors do.

    A tensor of `shape` is computed; where the operand is broadcast, its strides do not count.
    """
    sizes = shape[len(shape) - len(memory.shape) :]
    spans = zip(memory.strides, memory.shape, sizes, strict=True)
    strides = [stride for stride, have, size in spans if stride and have == size]
    return is_known(memory) and strides == sorted(strides, reverse=True)


def _order(memory: Strided) -> tuple[int, ...] | None:
    """Dimensions of more than one element, by rising stride order; None if one is expanded."""
    order = order_of(memory)
    if order is None:
        return None
    dims = [dim for dim, size in enumerate(memory.shape) if size != 1]
    return tuple(sorted(dims, key=order.__getitem__))
