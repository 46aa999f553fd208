"""Statements as scalar expressions: what stands for one element of a result."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fuser.ir.dtypes import DataType, holds
from fuser.ir.infer import signature
from fuser.ir.nodes import (
    Cast,
    Cat,
    Constant,
    Full,
    Gather,
    Iota,
    MetadataOperation,
    Pad,
    Pointwise,
    Random,
    Statement,
    StrideOrder,
    Value,
    operands,
    static,
)
from fuser.schedule.code.draw import draw
from fuser.schedule.indices.coordinates import Coordinates, cat_parts, pull
from fuser.schedule.indices.index import Index, linear
from fuser.schedule.tree.expressions import (
    Call,
    Expression,
    IndexValue,
    Literal,
    Ref,
    SizeValue,
    convert,
)
from fuser.schedule.tree.statements import Let, Load, Store
from fuser.segmenter import Segment

COPIES = ("set", "segment_set")


class Emitter(ABC):
    """Makes expressions for statements. A subclass keeps what was made, and where it is put."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._addressed_as = segment.addressed_as
        self._fusion = segment.fusion
        self._definitions = segment.fusion.definitions()
        self._prologue: list[Let] = []
        """What is the same for all elements."""
        self._compared = 0
        """How many comparisons of an index were made."""

    def reads(self, statement: Statement, at: Coordinates) -> list[tuple[Value, Coordinates]]:
        """For each tensor operand of a statement, the coordinates it is read at."""
        return pull(statement, at)

    @abstractmethod
    def get(self, value: Value, at: Coordinates) -> Expression:
        """What stands for an element that was made before."""

    @abstractmethod
    def name(self, value: Value, at: Coordinates) -> str:
        """A name for an element: `T5`, or `T5_1` where it is also computed elsewhere."""

    @abstractmethod
    def add(self, let: Let, is_tensor: bool) -> None:
        """Put a let where it belongs; that of a scalar is the same for all elements."""

    @abstractmethod
    def add_load(self, load: Load) -> None:
        """Put a load of what is drawn where it belongs."""

    def emit(self, statement: Statement, at: Coordinates) -> Expression:
        """The expression that stands for a statement's result at `at`; lets are added for it."""
        op, out = statement.op, statement.out
        match op:
            case Constant():
                number = Literal(op.value, op.dtype)
                return SizeValue(int(op.value.real), op.dtype) if op.is_size else number
            case _ if isinstance(op, MetadataOperation | StrideOrder | Gather):
                return self.get(*self._first_read(statement, at))
            case Pointwise() if op.op in COPIES:
                return self.get(*self._first_read(statement, at))
            case Full():
                return self.read_as(op.fill, (), op.dtype)
            case Random():
                return draw(self, op, out, at)
            case Pad() | Cat():
                chosen = self._padded if isinstance(op, Pad) else self._concatenated
                expression = chosen(statement, at)
                if not isinstance(expression, Call):  # there is no choice here
                    return expression
            case Cast():
                expression = self.read_as(*self._first_read(statement, at), op.dtype)
            case Pointwise():
                expression = self._call(op, statement, at)
            case Iota():
                expression = self._iota(op, out, at)
            case _:
                raise AssertionError(f"{statement} does not run in a kernel")
        name = self.name(out, at)
        self.add(Let(name, out.dtype, expression), out.is_tensor)
        return Ref(name, out.dtype)

    def _first_read(self, statement: Statement, at: Coordinates) -> tuple[Value, Coordinates]:
        """A statement's first operand and where it is read; a scalar lies nowhere."""
        reads = self.reads(statement, at)
        return reads[0] if reads else (next(operands(statement.op)), ())

    def _call(self, op: Pointwise, statement: Statement, at: Coordinates) -> Call:
        types = signature(op)
        places = iter(self.reads(statement, at))
        reads = [next(places)[1] if arg.is_tensor else () for arg in op.args]
        args = tuple(
            self.read_as(arg, read_at, dtype)
            for arg, read_at, dtype in zip(op.args, reads, types.args, strict=True)
        )
        return Call(op.op, args, types.result, op.alike)

    def _iota(self, op: Iota, out: Value, at: Coordinates) -> Expression:
        """start + index * step, in Int or Double as the oracle does, then the result's type."""
        wide = DataType.Int if op.dtype.is_integral else DataType.Double
        name = f"{self.name(out, at)}_index"
        self.add(Let(name, wide, IndexValue(at[0], wide)), is_tensor=True)
        start, step = (self.read_as(number, (), wide) for number in (op.start, op.step))
        if start == Literal(0, wide) and step == Literal(1, wide):
            return convert(Ref(name, wide), op.dtype)
        once = step == Literal(1, wide)
        product = Ref(name, wide) if once else Call("mul", (Ref(name, wide), step), wide)
        return convert(Call("add", (start, product), wide), op.dtype)

    def _concatenated(self, statement: Statement, at: Coordinates) -> Expression:
        """The element of that operand in which it lies."""
        op, name = statement.op, self.name(statement.out, at)
        assert isinstance(op, Cat)
        first, *others = cat_parts(op, at)
        expression = self.get(first.value, first.at)
        if not others:
            return expression
        place = self._place(at[op.dim], f"{name}_place")
        for part in others:
            reached = self._compare("ge", place, part.start)
            chosen = (reached, self.get(part.value, part.at), expression)
            expression = Call("where", chosen, statement.out.dtype)
        return expression

    def _padded(self, statement: Statement, at: Coordinates) -> Expression:
        """The operand's element, or the fill."""
        op, name, dtype = statement.op, self.name(statement.out, at), statement.out.dtype
        assert isinstance(op, Pad)
        expression = self.get(*self._first_read(statement, at))
        for inside in self._inside(op, at, name):
            outside = self.read_as(op.fill, (), dtype)
            expression = Call("where", (inside, expression, outside), dtype)
        return expression

    def _inside(self, op: Pad, at: Coordinates, name: str) -> list[Expression]:
        """What must hold for an element of a padded tensor to be the operand's."""
        conditions: list[Expression] = []
        befores = static(before for before, _ in op.widths)
        for dim, (index, size, before) in enumerate(zip(at, op.arg.shape, befores, strict=True)):
            low, high = index.bounds()
            if low >= before and high < before + size:
                continue
            place = self._place(index, f"{name}_place_{dim}")
            if low < before:
                conditions.append(self._compare("ge", place, before))
            if high >= before + size:
                conditions.append(self._compare("lt", place, before + size))
        return conditions

    def _place(self, index: Index, name: str) -> Ref:
        """An index as a number."""
        fits = all(holds(DataType.Int32, bound) for bound in index.bounds())
        dtype = DataType.Int32 if fits else DataType.Int
        self.add(Let(name, dtype, IndexValue(index, dtype)), is_tensor=True)
        return Ref(name, dtype)

    def _compare(self, comparison: str, place: Ref, number: int) -> Expression:
        """Whether a place is at least, or below, a number that follows from sizes."""
        name = f"{place.name}_{'from' if comparison == 'ge' else 'below'}_{self._compared}"
        self._compared += 1
        dtype = place.dtype if holds(place.dtype, number) else DataType.Int
        operands = convert(place, dtype), SizeValue(number, dtype)
        self.add(Let(name, DataType.Bool, Call(comparison, operands, DataType.Bool)), True)
        return Ref(name, DataType.Bool)

    def _address(self, value: Value, at: Coordinates) -> Index:
        """Where an element lies in memory."""
        memory = self._segment.memory[value]
        return linear(at, memory.strides, memory.offset)

    def _load(self, value: Value, at: Coordinates) -> Load:
        """The load of an element that lies in memory."""
        return Load(self.name(value, at), self._addressed_as[value], self._address(value, at))

    def _store(self, value: Value, at: Coordinates) -> Store:
        """The store of an element made before."""
        return Store(value, self._address(value, at), self.read_as(value, at, value.dtype))

    def read_as(self, value: Value, at: Coordinates, dtype: DataType) -> Expression:
        """An element made before, converted."""
        return convert(self.get(value, at), dtype)


def scalar_operands(statement: Statement) -> list[Value]:
    """The operands of a statement that are no tensors."""
    return [value for value in operands(statement.op) if not value.is_tensor]
