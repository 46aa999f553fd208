"""A row of the ATen table: one overload, and how it is written into a definition."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch.fx import Node

from fuser.integrations.aten.lowering import Lowering, Results

Lower = Callable[..., Results]
Refuse = Callable[..., str | None]
Overload = Any
"""torch._ops.OpOverload, whose members torch does not annotate."""


@enum.unique
class Kind(enum.Enum):
    """COMPUTE makes elements, VIEW relabels memory, FACTORY makes elements of no tensor."""

    COMPUTE = "compute"
    VIEW = "view"
    FACTORY = "factory"


@dataclass(frozen=True, slots=True)
class Row:
    """One overload. `lower(lowering, **arguments)` is given those it takes, by ATen's names.

    `refuse(node, **arguments)` says why some arguments are not covered. Those that are not taken
    must have their default, but for those that change no element.
    """

    overload: Overload
    lower: Lower
    takes: frozenset[str]
    kind: Kind = Kind.COMPUTE
    refuse: Refuse | None = None

    def write(self, lowering: Lowering, node: Node) -> None:
        """Append the node's operations."""
        given = arguments(node)
        taken = {name: given[name] for name in self.takes}
        lowering.write(node, lambda: self.lower(lowering, **taken))

    def refusal(self, node: Node) -> str | None:
        """Why the arguments of a node are not covered; None where they are."""
        given = arguments(node)
        for argument in schema(self.overload):
            value = given[argument.name]
            known = argument.name in self.takes or argument.name in _HARMLESS
            if not known and value != argument.default_value:
                return f"{argument.name}={value!r} is not covered"
        return None if self.refuse is None else self.refuse(node, **given)


def row(
    overload: Overload, lower: Lower, kind: Kind = Kind.COMPUTE, refuse: Refuse | None = None
) -> Row:
    """A row that takes what `lower` names after the lowering; where an overload does not have an
    argument, `lower` has a default."""
    _, *named = inspect.signature(lower).parameters.values()
    has = parameters(overload)
    takes = frozenset(each.name for each in named if each.name in has or each.default is each.empty)
    return Row(overload, lower, takes, kind, refuse)


_HARMLESS = frozenset(
    {
        "device",
        "dtype",
        "layout",
        "memory_format",
        "non_blocking",
        "padding_idx",
        "pin_memory",
        "requires_grad",
        "scale_grad_by_freq",
        "sparse",
        "unsafe",
    }
)
"""Arguments that change no element; layout and device of the result are checked elsewhere."""


def schema(overload: Overload) -> Sequence[Any]:
    """The arguments of an overload, as torch declares them."""
    return list(overload._schema.arguments)


def parameters(overload: Overload) -> list[str]:
    """The names of an overload's arguments."""
    return [argument.name for argument in schema(overload)]


def arguments(node: Node) -> dict[str, Any]:
    """A node's arguments by name, with the defaults of those left out."""
    declared = schema(node.target)
    names = [argument.name for argument in declared]
    given = {a.name: a.default_value for a in declared if a.has_default_value()}
    given |= dict(zip(names, cast("tuple[Any, ...]", node.args), strict=False))
    return given | cast("dict[str, Any]", node.kwargs)
