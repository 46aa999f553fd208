"""Complex numbers as pairs of real ones and back, and conjugates.

view_as_complex(x)   complex(x[..., 0], x[..., 1])
view_as_real(z)      real(z) and imag(z), one beside the other

torch's conjugates are views that say so and change nothing in memory. In a definition they are
values, so nodes that read one are given what it means.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fuser.frontend.handles import Handle
from fuser.integrations.aten import reductions
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.operand_types import asking_torch
from fuser.integrations.aten.row import Kind, Row, row
from fuser.integrations.aten.views import sliced
from fuser.integrations.fx.nodes import is_pointwise, is_view, tensor_of

_aten: Any = torch.ops.aten
_REDUCTIONS = frozenset(row.overload for row in reductions.ROWS)


def _view_as_complex(b: Lowering, self: Any) -> Handle:
    x = b.tensor(self)
    last = x.ndim - 1
    real, imag = (b.ops.squeeze(sliced(b, x, last, at, at + 1), [last]) for at in (0, 1))
    return b.ops.complex(real, imag)


def _view_as_real(b: Lowering, self: Any) -> Handle:
    z = b.tensor(self)
    behind = [dim == z.ndim for dim in range(z.ndim + 1)]
    parts = [b.ops.broadcast(part, behind) for part in (b.ops.real(z), b.ops.imag(z))]
    return b.ops.cat(parts, z.ndim)


def _is_reduced(node: Node, **given: Any) -> str | None:
    """Rows that are swept in pairs take several times as long as torch's view, read by strides."""
    pending, seen = list(node.users), set[Node]()
    while pending:
        user = pending.pop()
        if user.target in _REDUCTIONS:
            return f"{user} reduces it, and would read its pairs one by one"
        if user not in seen and (is_view(user) or is_pointwise(user)):
            seen.add(user)
            pending += user.users
    return None


def _conj(b: Lowering, self: Any) -> Handle:
    if isinstance(self, complex):  # torch takes numbers for tensors, and autograd conjugates them
        real, imag = (b.ops.full([], part, b.dtype.real) for part in (self.real, -self.imag))
        return b.ops.complex(real, imag)
    z = b.tensor(self)
    if not b.dtype.is_complex:
        return b.ops.set(z)
    return b.ops.complex(b.ops.real(z), b.ops.neg(b.ops.imag(z)))


def _negated(b: Lowering, self: Any) -> Handle:
    return b.ops.neg(b.tensor(self))


def _polar(b: Lowering, abs: Any, angle: Any) -> Handle:
    length, at = b.tensor(abs), b.tensor(angle)
    return b.ops.complex(b.ops.mul(length, b.ops.cos(at)), b.ops.mul(length, b.ops.sin(at)))


def _angle(b: Lowering, self: Any) -> Handle:
    z = b.tensor(self)
    return b.ops.atan2(b.ops.imag(z), b.ops.real(z))


def _not_complex(node: Node, **given: Any) -> str | None:
    return None if tensor_of(given["self"]).is_complex() else "it is of real numbers"


ROWS: tuple[Row, ...] = (
    row(_aten.view_as_complex.default, _view_as_complex, Kind.VIEW),
    row(_aten.view_as_real.default, _view_as_real, Kind.VIEW, _is_reduced),
    row(_aten._conj.default, _conj, Kind.VIEW),
    row(_aten._neg_view.default, _negated, Kind.VIEW),
    row(_aten._conj_physical.default, _conj),
    row(_aten.conj_physical.default, _conj),
    asking_torch(row(_aten.polar.default, _polar)),
    row(_aten.angle.default, _angle, refuse=_not_complex),
)
