"""Arithmetic, comparisons, logic, casts and copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._inductor import inductor_prims
from torch.fx import Node

from fuser.frontend.handles import Handle, Operand
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.aten.operand_types import asking_torch
from fuser.integrations.aten.row import Lower, Row, parameters, row, schema
from fuser.integrations.fx.nodes import meta_of, tensor_of
from fuser.ir.pointwise import EQUALITIES, TABLE

_aten: Any = torch.ops.aten
_prims: Any = torch.ops.prims
_MULTIPLY_ADD: Any = getattr(inductor_prims, "fma", None)
"""What Dynamo itself writes for the steps of optimizers, from torch 2.12 on."""

_OTHERWISE = frozenset(
    {"add", "clamp", "div", "imag", "isreal", "nextafter", "pow", "real", "set", "sub", "where"}
)
"""Names of the pointwise table that are views in ATen, or compositions, or have rows below."""

_RENAMED: Mapping[str, str] = {
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "clamp_max": "minimum",
    "clamp_min": "maximum",
    "div": "truediv",
    "true_divide": "truediv",
}

_OVERLOADS = ("default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


def _all_operands(name: str, taken: list[str]) -> Lower:
    """All operands in order to one row of the pointwise table."""
    read = _in_its_own_type if name in EQUALITIES else Lowering.operand

    def lower(b: Lowering, **given: object) -> Handle:
        return getattr(b.ops, name)(*(read(b, given[parameter]) for parameter in taken))

    return lower


def _in_its_own_type(b: Lowering, argument: object) -> Operand:
    """An operand of what shows what rounding to 16 bits does: another graph may have rounded it, as
    a largest element."""
    is_tensor = isinstance(argument, Node) and isinstance(meta_of(argument), torch.Tensor)
    return b.exact(argument) if is_tensor else b.operand(argument)


def _plain_rows() -> list[Row]:
    """Overloads whose operands go to one row of the pointwise table, as many as it takes."""
    names = {name: name for name in TABLE if name not in _OTHERWISE and hasattr(_aten, name)}
    rows: list[Row] = []
    for name, ours in (names | dict(_RENAMED)).items():
        packet = getattr(_aten, name)
        for overload in [getattr(packet, o) for o in packet.overloads() if o in _OVERLOADS]:
            taken = parameters(overload)
            of_tensors = any(str(given.type) == "Tensor" for given in schema(overload))
            if of_tensors and len(taken) == TABLE[ours].arity:
                rows.append(Row(overload, _all_operands(ours, taken), frozenset(taken)))
    return rows


# -- arithmetic that needs a word ----------------------------------------------------------------


def _scaled(b: Lowering, operand: Operand, alpha: Any) -> Operand:
    """A multiple, in the type of the result: in the operand's own, integers would wrap around."""
    if alpha == 1:
        return operand
    if isinstance(operand, Handle) and operand.dtype().compute is not b.dtype.compute:
        operand = b.ops.cast(operand, b.dtype)
    return b.ops.mul(operand, b.operand(alpha))


def _add(b: Lowering, self: Any, other: Any, alpha: Any) -> Handle:
    left, right = b.operand(self), b.operand(other)
    if b.dtype.is_integral and alpha != 1:
        return b.ops.add_alpha(left, right, b.operand(alpha))
    return b.ops.add(left, _scaled(b, right, alpha))


def _sub(b: Lowering, self: Any, other: Any, alpha: Any) -> Handle:
    return b.ops.sub(b.operand(self), _scaled(b, b.operand(other), alpha))


def _rsub(b: Lowering, self: Any, other: Any, alpha: Any) -> Handle:
    return b.ops.sub(b.operand(other), _scaled(b, b.operand(self), alpha))


def _div_mode(b: Lowering, self: Any, other: Any, rounding_mode: Any) -> Handle:
    left, right = b.operand(self), b.operand(other)
    if rounding_mode is None:
        return b.ops.truediv(left, right)
    if rounding_mode == "floor":
        return b.ops.floor_divide(left, right)
    if b.dtype.is_integral:
        return b.ops.div(left, right)
    quotient = b.ops.truediv(left, right)
    if b.dtype.is_floating and b.dtype.itemsize < quotient.dtype().itemsize:
        quotient = b.ops.cast(quotient, b.dtype)  # torch rounds it, and that may make it whole
    return b.ops.trunc(quotient)


def _power(b: Lowering, self: Any, exponent: Any) -> Handle:
    base = b.tensor(self)
    if exponent == 0:
        return b.ops.full(b.sizes(base), 1, b.dtype)
    if b.dtype.is_integral:
        return b.ops.pow(base, b.operand(exponent))
    if base.dtype().is_integral:
        base = b.ops.cast(base, b.dtype)  # products of integers would wrap around
    match exponent:
        case 1:
            return b.ops.set(base)
        case 2:
            return b.ops.mul(base, base)
        case 3:
            return b.ops.mul(b.ops.mul(base, base), base)
        case 0.5:
            return b.ops.sqrt(base)
        case -0.5:
            return b.ops.rsqrt(base)
        case -1:
            return b.ops.reciprocal(base)
        case _:
            return b.ops.pow(base, b.operand(exponent))


def _pow(b: Lowering, self: Any, exponent: Any) -> Handle:
    return b.ops.pow(b.operand(self), b.operand(exponent))


def _nextafter(b: Lowering, self: Any, other: Any) -> Handle:
    return b.ops.nextafter(b.operand(self), b.operand(other))


def _steps_in_16_bits(node: Node, **given: Any) -> str | None:
    """A step from a float32 is lost when it is rounded."""
    is_narrow = tensor_of(node).dtype in (torch.float16, torch.bfloat16)
    return "steps of 16-bit floats are not covered" if is_narrow else None


def _clamp(b: Lowering, self: Any, min: Any, max: Any) -> Handle:
    low = None if min is None else b.operand(min)
    high = None if max is None else b.operand(max)
    return b.ops.clamp(b.tensor(self), low, high)


def _hardtanh(b: Lowering, self: Any, min_val: Any, max_val: Any) -> Handle:
    return b.ops.clamp(b.tensor(self), b.operand(min_val), b.operand(max_val))


def _leaky_relu(b: Lowering, self: Any, negative_slope: Any) -> Handle:
    x = b.tensor(self)
    return b.ops.where(b.ops.gt(x, 0), x, b.ops.mul(x, b.operand(negative_slope)))


def _elu(b: Lowering, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Handle:
    x, slope = b.tensor(self), b.operand(scale)
    least = b.ops.mul(b.operand(alpha), slope)
    below = b.ops.mul(b.ops.expm1(b.ops.mul(x, b.operand(input_scale))), least)
    return b.ops.where(b.ops.gt(x, 0), b.ops.mul(x, slope), below)


def _multiply_add(lowering: Lowering, a: Any, b: Any, c: Any) -> Handle:
    ops = lowering.ops
    return ops.add(ops.mul(lowering.operand(a), lowering.operand(b)), lowering.operand(c))


def _extreme_of_numbers(name: str) -> Lower:
    """A maximum or minimum that is NaN only where both operands are."""

    def lower(b: Lowering, self: Any, other: Any) -> Handle:
        ops, x, y = b.ops, b.tensor(self), b.tensor(other)
        return ops.where(ops.isnan(x), y, ops.where(ops.isnan(y), x, getattr(ops, name)(x, y)))

    return lower


def _logical_xor(b: Lowering, self: Any, other: Any) -> Handle:
    return b.ops.ne(b.ops.ne(b.tensor(self), 0), b.ops.ne(b.tensor(other), 0))


# -- choices, casts and copies -------------------------------------------------------------------


def _where(b: Lowering, condition: Any, self: Any, other: Any) -> Handle:
    return b.ops.where(b.tensor(condition), b.operand(self), b.operand(other))


def _masked_fill(b: Lowering, self: Any, mask: Any, value: Any) -> Handle:
    filler = b.ops.cast(b.operand(value), b.dtype)
    return b.ops.where(b.tensor(mask), filler, b.tensor(self))


def _to_copy(b: Lowering, self: Any, dtype: Any) -> Handle:
    x = b.tensor(self)
    if dtype is None or b.dtype is x.dtype():
        return b.ops.set(x)
    return b.ops.cast(x, b.dtype)


def _convert(b: Lowering, a: Any, dtype: Any) -> Handle:
    return _to_copy(b, a, dtype)


def _copied(b: Lowering, self: Any) -> Handle:
    return b.ops.set(b.tensor(self))


def _copy(b: Lowering, self: Any, src: Any) -> Handle:
    value = b.ops.cast(b.tensor(src), b.dtype)
    rank = b.tensor(self).ndim
    value = b.with_rank(value, rank)
    return b.ops.expand(value, b.sizes(b.tensor(self))) if rank else b.ops.set(value)


def _other_device(node: Node, **given: Any) -> str | None:
    source = given["self"]
    here, there = tensor_of(source).device, tensor_of(node).device
    return None if here == there else f"it copies from {here} to {there}"


_ROWS: tuple[Row, ...] = (
    *_plain_rows(),
    row(_aten.add.Tensor, _add),
    row(_aten.add.Scalar, _add),
    row(_aten.sub.Tensor, _sub),
    row(_aten.sub.Scalar, _sub),
    row(_aten.rsub.Tensor, _rsub),
    row(_aten.rsub.Scalar, _rsub),
    row(_aten.div.Tensor_mode, _div_mode),
    row(_aten.div.Scalar_mode, _div_mode),
    row(_aten.pow.Tensor_Scalar, _power),
    row(_aten.pow.Tensor_Tensor, _pow),
    row(_aten.pow.Scalar, _pow),
    row(_aten.nextafter.default, _nextafter, refuse=_steps_in_16_bits),
    row(_aten.clamp.default, _clamp),
    row(_aten.clamp.Tensor, _clamp),
    row(_aten.hardtanh.default, _hardtanh),
    row(_aten.leaky_relu.default, _leaky_relu),
    row(_aten.elu.default, _elu),
    row(_aten.fmax.default, _extreme_of_numbers("maximum")),
    row(_aten.fmin.default, _extreme_of_numbers("minimum")),
    row(_aten.logical_xor.default, _logical_xor),
    *([] if _MULTIPLY_ADD is None else [row(_MULTIPLY_ADD, _multiply_add)]),
    row(_aten.where.self, _where),
    row(_aten.masked_fill.Scalar, _masked_fill),
    row(_aten.masked_fill.Tensor, _masked_fill),
    row(_aten._to_copy.default, _to_copy, refuse=_other_device),
    row(_prims.convert_element_type.default, _convert),
    row(_aten.clone.default, _copied),
    row(_aten.lift_fresh_copy.default, _copied),
    row(_aten.copy.default, _copy),
)
ROWS: tuple[Row, ...] = tuple(map(asking_torch, _ROWS))
