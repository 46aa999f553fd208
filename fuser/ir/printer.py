"""A fusion as an executable definition: running the text builds an equal fusion."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import assert_never

from fuser.ir import externs
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Constant,
    Expand,
    Extern,
    Flip,
    Full,
    Fusion,
    Gather,
    GeneratorState,
    Iota,
    Number,
    Operation,
    Output,
    Pad,
    Permute,
    Pointwise,
    Random,
    Reduce,
    Scan,
    Scatter,
    SizeOf,
    Slice,
    Squeeze,
    Statement,
    StrideOrder,
    Value,
    View,
    operands,
)
from fuser.ir.types import ScalarType, TensorType, row_major_order

_NAMES: dict[type, str] = {
    Constant: "define_scalar",
    SizeOf: "size",
    Cast: "cast",
    View: "reshape",
    Permute: "permute",
    Broadcast: "broadcast",
    Expand: "expand",
    Squeeze: "squeeze",
    Slice: "slice",
    Flip: "flip",
    StrideOrder: "stride_order",
    Full: "full",
    GeneratorState: "generator_state",
    Iota: "iota",
    Pad: "pad",
    Cat: "cat",
    CheckIndex: "check_index",
}
"""What users call the operations whose class says it all."""

HEADER = "def nvfuser_fusion(fd: FusionDefinition) -> None:"


def print_fusion(fusion: Fusion) -> str:
    """`def nvfuser_fusion(fd: FusionDefinition) -> None:` with one line a statement.

    An input is declared before the first statement that has a larger number, or that reads it.
    """
    place = {value: number for number, value in enumerate(fusion.inputs)}
    inputs = [f"{value} = {print_input(value)}" for value in fusion.inputs]
    body: list[str] = []
    declared = 0
    for statement in fusion.statements:
        wanted = max((place.get(value, -1) + 1 for value in operands(statement.op)), default=0)
        first = declared
        while declared < len(inputs) and (
            declared < wanted or fusion.inputs[declared].id < statement.outs[0].id
        ):
            declared += 1
        body += [*inputs[first:declared], print_statement(statement)]
    body += [*inputs[declared:], *map(_output, fusion.outputs)]
    return "\n".join([HEADER, *(f"    {line}" for line in body or ["pass"])]) + "\n"


def print_input(value: Value) -> str:
    """The call that declares an input."""
    match value.type:
        case ScalarType():
            return f"fd.define_scalar(None, dtype={value.dtype!r})"
        case TensorType() as type_:
            parts = [f"shape={list(type_.shape)}"]
            if type_.layout is not None:
                parts.append(f"contiguity={list(type_.layout.contiguity)}")
            parts.append(f"dtype={type_.dtype!r}")
            if type_.layout is not None and type_.layout.stride_order != row_major_order(
                type_.rank
            ):
                parts.append(f"stride_order={list(type_.layout.stride_order)}")
            if type_.is_cpu:
                parts.append("is_cpu=True")
            return f"fd.define_tensor({', '.join(parts)})"
        case _:
            assert_never(value.type)


def print_statement(statement: Statement) -> str:
    """`T2 = fd.ops.mul(T0, S1)`."""
    return f"{', '.join(map(str, statement.outs))} = {print_operation(statement.op)}"


def print_operation(op: Operation) -> str:
    """The call that makes `op`."""
    match op:
        case Constant():
            return f"fd.define_scalar({print_number(op.value)}, dtype={op.dtype!r})"
        case SizeOf():
            return f"fd.ops.size({op.arg}, dim={op.dim})"
        case Pointwise():
            return f"fd.ops.{op.op}({', '.join(map(str, op.args))})"
        case Cast():
            return f"fd.ops.cast({op.arg}, dtype={op.dtype!r})"
        case View():
            return f"fd.ops.reshape({op.arg}, new_shape={_list(op.shape)})"
        case Permute():
            return f"fd.ops.permute({op.arg}, dims={list(op.dims)})"
        case Broadcast():
            return f"fd.ops.broadcast({op.arg}, is_broadcast_dim={list(op.is_broadcast)})"
        case Expand():
            return f"fd.ops.expand({op.arg}, shape={_list(op.shape)})"
        case Squeeze():
            return f"fd.ops.squeeze({op.arg}, dims={list(op.dims)})"
        case Slice():
            return (
                f"fd.ops.slice({op.arg}, start_indices={_list(op.starts)}, "
                f"end_indices={_list(op.ends)}, strides={_list(op.steps)})"
            )
        case Flip():
            return f"fd.ops.flip({op.arg}, dims={list(op.dims)})"
        case StrideOrder():
            return f"fd.ops.stride_order({op.arg}, stride_order={list(op.order)})"
        case Full():
            return f"fd.ops.full(shape={_list(op.shape)}, fill_value={op.fill}, dtype={op.dtype!r})"
        case Iota():
            return f"fd.ops.iota({op.length}, start={op.start}, step={op.step}, dtype={op.dtype!r})"
        case GeneratorState():
            return "fd.ops.generator_state()"
        case Random():
            return _random(op)
        case Reduce():
            return _reduce(op)
        case Scan():
            reverse = ", reverse=True" if op.reverse else ""
            return f"fd.ops.{op.op}({op.arg}, dim={op.dim}{reverse})"
        case Pad():
            flat = [width for pair in reversed(op.widths) for width in pair]
            return f"fd.ops.pad({op.arg}, pad_widths={_list(flat)}, value={op.fill})"
        case Cat():
            return f"fd.ops.cat({_list(op.args)}, dim={op.dim})"
        case Gather():
            return f"fd.ops.{op.mode}({op.arg}, {op.index}, dim={op.dim})"
        case Scatter():
            return _scatter(op)
        case CheckIndex():
            name = json.dumps(op.operation)
            return f"fd.ops.check_index({op.arg}, size={op.size}, operation={name})"
        case Extern():
            return _extern(op)
        case _:
            assert_never(op)


def _random(op: Random) -> str:
    first, second = op.parameters
    return (
        f"fd.ops.{op.distribution}({first}, {second}, "
        f"shape={_list(op.shape)}, rng_seed={op.seed}, rng_offset={op.offset}, "
        f"dtype={op.dtype!r})"
    )


def operation_name(op: Operation) -> str:
    """The name a user calls the operation by: `mul`, `reshape`, `cast`, ..."""
    match op:
        case Pointwise() | Reduce() | Scan():
            return op.op
        case Gather() | Scatter():
            return op.mode
        case Random():
            return op.distribution
        case Extern():
            return op.function
        case _:
            return _NAMES[type(op)]


def operation_names(fusion: Fusion) -> tuple[str, ...]:
    """The names of a fusion's operations on tensors, in order."""
    return tuple(operation_name(s.op) for s in fusion.statements if s.outs[0].is_tensor)


def print_number(value: Number) -> str:
    """A Python expression for a number, NaN and infinities included."""
    if isinstance(value, complex):
        return f"complex({print_number(value.real)}, {print_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _reduce(op: Reduce) -> str:
    parts = [str(op.arg), f"dims={list(op.dims)}"]
    if op.op in ("var", "var_mean"):
        parts.append(f"correction={op.correction}")
    parts.append(f"keepdim={op.keepdim}")
    if op.dtype is not None:
        parts.append(f"dtype={op.dtype!r}")
    return f"fd.ops.{op.op}({', '.join(parts)})"


def _scatter(op: Scatter) -> str:
    dim = "" if op.mode == "index_put_accumulate" else f", dim={op.dim}"
    return f"fd.ops.{op.mode}({op.arg}, {op.index}, {op.src}{dim})"


def _extern(op: Extern) -> str:
    """Tensors that come first by position, others by name; options that are not the default's."""
    row = externs.TABLE[op.function]
    args = externs.arguments(op)
    parts = [str(arg) for arg in args[: row.positional] if arg is not None]
    named = zip(row.args[row.positional :], args[row.positional :], strict=True)
    parts += [f"{name}={arg}" for name, arg in named if arg is not None]
    for name, option in externs.options(op).items():
        if option != row.options[name]:
            parts.append(f"{name}={_option(option)}")
    return f"fd.ops.{op.function}({', '.join(parts)}){row.picked}"


def _option(option: object) -> str:
    if isinstance(option, int | float):
        return print_number(option)
    return option.name if isinstance(option, Value) else repr(option)


def _output(output: Output) -> str:
    if output.alias_of is None:
        return f"fd.add_output({output.value})"
    return f"fd.add_output({output.value}, alias_input={output.alias_of})"


def _list(parts: Iterable[object]) -> str:
    return f"[{', '.join(map(str, parts))}]"
