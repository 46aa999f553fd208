"""The oracle: what a fusion means, in torch, one operation at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

import torch

from fuser.ir import externs, indexing
from fuser.ir.conversions import converted, movable
from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer, signature
from fuser.ir.nodes import (
    Broadcast,
    Cast,
    Cat,
    CheckIndex,
    Constant,
    Expand,
    Extent,
    Extern,
    Flip,
    Full,
    Fusion,
    Gather,
    GeneratorState,
    Inputs,
    Iota,
    MetadataOperation,
    Operation,
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
)
from fuser.ir.pointwise import TABLE
from fuser.ir.random_numbers import draw_state, random_numbers
from fuser.ir.result_shapes import check_spans
from fuser.ir.types import dims_slowest_first

Environment = dict[Value, torch.Tensor]
"""What each value holds; a scalar is a 0-dim CPU tensor."""


def interpret(
    fusion: Fusion, inputs: Inputs, device: torch.device | None = None
) -> list[torch.Tensor]:
    """Run `fusion` on `inputs` (in the order of `fusion.inputs`) and return its outputs.

    What is drawn from torch's generator is drawn first, as a plan does, whose steps have an order
    of their own; then what torch's operations draw.
    `device` is where factories create tensors; by default that of the first tensor input.
    """
    environment = held_inputs(fusion, inputs)
    place = device or _device_of(inputs)
    for statement in in_drawing_order(fusion.statements):
        results = evaluate(statement.op, environment, place)
        environment.update(zip(statement.outs, results, strict=True))
    return [environment[value] for value in fusion.output_values]


def held_inputs(fusion: Fusion, inputs: Inputs) -> Environment:
    """What the inputs of a fusion hold."""
    return {
        value: given
        if isinstance(given, torch.Tensor)
        else torch.tensor(given, dtype=value.dtype.torch, device="cpu")
        for value, given in zip(fusion.inputs, inputs, strict=True)
    }


def in_drawing_order(statements: Iterable[Statement]) -> list[Statement]:
    """Statements in an order in which a plan draws from torch's generator."""
    return sorted(statements, key=lambda statement: not isinstance(statement.op, GeneratorState))


def evaluate(
    op: Operation, environment: Environment, device: torch.device
) -> tuple[torch.Tensor, ...]:
    """The results of one operation, given what its operands hold.

    They have the types that the definition says, also where torch's autocast is on.
    """
    place = device.type
    if torch.amp.is_autocast_available(place) and torch.is_autocast_enabled(place):
        with torch.autocast(place, enabled=False):
            return _evaluate(op, environment, device)
    return _evaluate(op, environment, device)


def _evaluate(
    op: Operation, environment: Environment, device: torch.device
) -> tuple[torch.Tensor, ...]:
    def get(value: Value) -> torch.Tensor:
        return environment[value]

    def size(extent: Extent) -> int:
        return int(get(extent).item()) if isinstance(extent, Value) else extent

    match op:
        case Constant():
            return (torch.tensor(op.value, dtype=op.dtype.torch, device="cpu"),)
        case SizeOf():
            return (torch.tensor(get(op.arg).shape[op.dim], device="cpu"),)
        case Pointwise():
            return (_pointwise(op, environment),)
        case Cast():
            return (converted(get(op.arg), op.dtype),)
        case View() | Permute() | Broadcast() | Expand() | Squeeze() | Slice() | Flip():
            return (_relabelled(op, get(op.arg), size),)
        case StrideOrder():
            return (_laid_out(get(op.arg), op.order),)
        case Full():
            shape = [size(extent) for extent in op.shape]
            fill = converted(get(op.fill), op.dtype).to(device)
            return (fill.expand(shape).clone(),)
        case Iota():
            return (_iota(op, size(op.length), get(op.start), get(op.step), device),)
        case GeneratorState():
            return tuple(torch.tensor(word, device="cpu") for word in draw_state(device))
        case Random():
            shape = [size(extent) for extent in op.shape]
            first, second = (get(parameter).item() for parameter in op.parameters)
            state = int(get(op.seed).item()), int(get(op.offset).item())
            return (random_numbers(op, shape, (first, second), state, device),)
        case Reduce():
            return _reduce(op, get(op.arg))
        case Scan():
            return (_scan(op, get(op.arg)),)
        case Pad():
            widths = [(size(before), size(after)) for before, after in op.widths]
            return (_pad(widths, get(op.arg), get(op.fill), op.arg.dtype),)
        case Cat():
            parts = [get(arg) for arg in op.args]
            joined = torch.cat([movable(part) for part in parts], op.dim)
            return (joined.view(parts[0].dtype),)
        case Gather():
            return (indexing.gather(op, get(op.arg), get(op.index)),)
        case Scatter():
            src = get(op.src) if op.src.is_tensor else converted(get(op.src), op.arg.dtype)
            return (indexing.scatter(op, get(op.arg), get(op.index), src),)
        case CheckIndex():
            return (indexing.check_index(op, get(op.arg)),)
        case Extern():
            tensors = (None if arg is None else get(arg) for arg in externs.arguments(op))
            return externs.run(op, tuple(tensors), lambda option: get(option).item())
        case _:
            assert_never(op)


def _relabelled(
    op: MetadataOperation, tensor: torch.Tensor, size: Callable[[Extent], int]
) -> torch.Tensor:
    match op:
        case View():
            return tensor.reshape([size(extent) for extent in op.shape])
        case Permute():
            return tensor.permute(op.dims)
        case Broadcast():
            return tensor[tuple(None if new else slice(None) for new in op.is_broadcast)]
        case Expand():
            return tensor.expand([size(extent) for extent in op.shape])
        case Squeeze():
            return tensor.squeeze(op.dims)
        case Slice():
            given = (list(map(size, part)) for part in (op.starts, op.ends, op.steps))
            spans = list(zip(*given, strict=True))
            check_spans(spans)
            return tensor[tuple(slice(*span) for span in spans)]
        case Flip():
            return movable(tensor).flip(op.dims).view(tensor.dtype)
        case _:
            assert_never(op)


def _pointwise(op: Pointwise, environment: Environment) -> torch.Tensor:
    types = signature(op)
    held = [environment[arg] for arg in op.args]
    device = next((t.device for t, arg in zip(held, op.args, strict=True) if arg.is_tensor), None)
    operands = (
        converted(tensor, dtype).to(device or tensor.device)
        for tensor, dtype in zip(held, types.args, strict=True)
    )
    return TABLE[op.op].reference(*operands).to(types.result.torch)


def _laid_out(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    slowest_first = dims_slowest_first(order)
    back = [slowest_first.index(dim) for dim in range(len(order))]
    laid = tensor.permute(slowest_first).clone(memory_format=torch.contiguous_format)
    return laid.permute(back)


def _scan(op: Scan, tensor: torch.Tensor) -> torch.Tensor:
    (type_,) = infer(op)
    given = tensor.to(type_.dtype.torch)
    result = getattr(torch, op.op)(given.flip(op.dim) if op.reverse else given, op.dim)
    scanned = result if isinstance(result, torch.Tensor) else result.values
    return scanned.flip(op.dim) if op.reverse else scanned


def _pad(
    widths: Sequence[tuple[int, int]], tensor: torch.Tensor, fill: torch.Tensor, dtype: DataType
) -> torch.Tensor:
    """torch.nn.functional.pad, which takes no complex fill and cuts no more than there is."""
    spans = list(zip(tensor.shape, widths, strict=True))
    shape = [size + before + after for size, (before, after) in spans]
    result = converted(fill, dtype).to(tensor.device).expand(shape).clone()
    kept = tensor[tuple(slice(max(-b, 0), max(n + min(a, 0), 0)) for n, (b, a) in spans)]
    starts = (max(before, 0) for before, _ in widths)
    inside = tuple(slice(s, s + n) for s, n in zip(starts, kept.shape, strict=True))
    result[inside] = kept
    return result


def _iota(
    op: Iota, length: int, start: torch.Tensor, step: torch.Tensor, device: torch.device
) -> torch.Tensor:
    wide = torch.int64 if op.dtype.is_integral else torch.float64
    steps = torch.arange(length, device=device, dtype=wide)
    return (start.to(device, wide) + steps * step.to(device, wide)).to(op.dtype.torch)


def _reduce(op: Reduce, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    dims = list(op.dims)
    tensor = converted(tensor, (op.dtype or op.arg.dtype).compute)
    match op.op:
        case "var_mean":
            variance = torch.var(tensor, dims, correction=op.correction, keepdim=op.keepdim)
            # The mean of torch.var_mean is NaN where there is an infinity.
            return variance, torch.mean(tensor, dims, keepdim=op.keepdim)
        case "welford":
            return _welford(op, tensor, dims)
        case "var":
            result = torch.var(tensor, dims, correction=op.correction, keepdim=op.keepdim)
        case "max":
            result = torch.amax(tensor, dims, keepdim=op.keepdim)
        case "min":
            result = torch.amin(tensor, dims, keepdim=op.keepdim)
        case "prod":
            result = tensor if dims else torch.prod(tensor)
            for dim in sorted(dims, reverse=True):
                result = torch.prod(result, dim, keepdim=op.keepdim)
        case "argmax" | "argmin":
            result = getattr(torch, op.op)(tensor, dims[0], keepdim=op.keepdim)
        case _:
            result = getattr(torch, op.op)(tensor, dims, keepdim=op.keepdim)
    return (result.to(infer(op)[0].dtype.torch),)


def _welford(op: Reduce, tensor: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, ...]:
    """The mean, the sum of squared deviations from it, and the number of elements."""
    mean = tensor.mean(dims, keepdim=True)
    squares = (tensor - mean).abs().square().sum(dims, keepdim=op.keepdim)
    count = math.prod(tensor.shape[dim] for dim in dims)
    return mean.reshape(squares.shape), squares, torch.full_like(squares, count, dtype=torch.int64)


def _device_of(inputs: Inputs) -> torch.device:
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    dimensioned = [tensor for tensor in tensors if tensor.dim() > 0] or tensors
    return dimensioned[0].device if dimensioned else torch.device("cpu")
