"""Generic access to what an operation reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TypeVar

from fuser.ir.operations import Operation
from fuser.ir.values import Value

Node = TypeVar("Node", bound=Operation)


@functools.cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _reader(cls: type) -> Callable[[Operation], tuple[object, ...]]:
    """What reads the fields of an operation."""
    names = _field_names(cls)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda op: tuple(getattr(op, name) for name in names)


def operands(op: Operation) -> Iterator[Value]:
    """The values an operation reads, sizes included, in field order."""
    found: list[Value] = []
    for field in _reader(type(op))(op):
        if isinstance(field, Value):
            found.append(field)
        elif isinstance(field, tuple):
            found += _values(field)  # pyright: ignore[reportUnknownArgumentType]
    return iter(found)


def map_operands(op: Node, replace: Callable[[Value], Value | int]) -> Node:
    """The same operation on replaced operands. Only sizes may be replaced by an int."""
    changes: dict[str, object] = {}
    for name in _field_names(type(op)):
        field: object = getattr(op, name)
        if isinstance(field, Value):
            changes[name] = replace(field)
        elif isinstance(field, tuple):
            parts: tuple[object, ...] = field  # pyright: ignore[reportUnknownVariableType]
            if any(_values(parts)):
                changes[name] = _mapped(parts, replace)
    return dataclasses.replace(op, **changes) if changes else op


def _values(parts: tuple[object, ...]) -> Iterator[Value]:
    for part in parts:
        if isinstance(part, Value):
            yield part
        elif isinstance(part, tuple):
            yield from _values(part)  # pyright: ignore[reportUnknownArgumentType]


def _mapped(
    parts: tuple[object, ...], replace: Callable[[Value], Value | int]
) -> tuple[object, ...]:
    return tuple(
        replace(part)
        if isinstance(part, Value)
        else _mapped(part, replace)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(part, tuple)
        else part
        for part in parts
    )
