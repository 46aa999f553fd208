"""How much of a rounding a fusion makes: the oracle run with other roundings, and compared."""

from __future__ import annotations

import dataclasses

import torch

from fuser.ir.dtypes import DataType
from fuser.ir.four_bits import one_by_one
from fuser.ir.interpret import Environment, evaluate, held_inputs, in_drawing_order
from fuser.ir.nodes import (
    Cast,
    Fusion,
    Inputs,
    Operation,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Value,
    map_operands,
)

_RUNS = 4
_CPU = torch.device("cpu")
_NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_SHAKEN = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def rounding_noise(fusion: Fusion, inputs: Inputs) -> dict[Value, torch.Tensor]:
    """The largest change of each output's elements, in float64, among a few runs in which every
    result that had to be rounded is moved by up to its rounding error, at random.

    Exact results stay as they are. NaN where a run makes NaN; 0 for integers and bool.
    """
    state = torch.get_rng_state()
    runs: list[Environment] = []
    for number in range(_RUNS + 1):
        torch.set_rng_state(state)  # random numbers are the same in all runs
        runs.append(_run(fusion, inputs, number))
    torch.set_rng_state(state)
    noise: dict[Value, torch.Tensor] = {}
    for value in fusion.output_values:
        exact = in_widest(runs[0][value])
        changes = torch.stack([(in_widest(run[value]) - exact).abs() for run in runs[1:]])
        largest = changes.amax(0).to(torch.float64)
        noise[value] = torch.zeros_like(largest) if value.dtype.is_integral else largest
    return noise


def _run(fusion: Fusion, inputs: Inputs, number: int) -> Environment:
    """What every value holds in one run; run 0 changes nothing."""
    generator = torch.Generator(_CPU).manual_seed(number)
    environment = {
        value: held.detach().to(_CPU, value.dtype.torch)
        for value, held in held_inputs(fusion, inputs).items()
    }
    for statement in in_drawing_order(fusion.statements):
        results = evaluate(statement.op, environment, _CPU)
        if number:
            results = tuple(
                _shaken(statement.op, position, result, environment, generator)
                for position, result in enumerate(results)
            )
        environment.update(zip(statement.outs, results, strict=True))
    return environment


def _shaken(
    op: Operation,
    position: int,
    result: torch.Tensor,
    environment: Environment,
    generator: torch.Generator,
) -> torch.Tensor:
    """A result in which each element that had to be rounded is moved by up to its error."""
    if (
        not isinstance(op, Pointwise | Reduce | Scan | Scatter | Cast)
        or result.dtype not in _SHAKEN
    ):
        return result  # what rounds to 16 bits rounds alike, but where what it is given differs
    exact = _exactly(op, position, environment)
    if exact.dtype is result.dtype:  # computed in the widest type: small exact numbers fit float32
        exact = exact.to(_NARROW[exact.dtype]).to(exact.dtype)
    apart = (exact - result).abs()
    error = torch.maximum(apart, result.abs() * torch.finfo(result.dtype).eps)
    half = 0.5 + 0.5j if result.is_complex() else 0.5
    by = 2 * (torch.rand(result.shape, generator=generator, dtype=exact.dtype, device=_CPU) - half)
    return torch.where(apart == 0, result, (result + by * error).to(result.dtype))


def _exactly(op: Operation, position: int, environment: Environment) -> torch.Tensor:
    """What an operation gives in float64, or complex128."""
    wide: Environment = {}

    def widened(value: Value) -> Value:
        dtype = _widest(value.dtype)
        new = Value(value.id, dataclasses.replace(value.type, dtype=dtype))
        wide[new] = environment[value].to(dtype.torch)
        return new

    widest = map_operands(op, widened)
    if isinstance(widest, Cast | Reduce) and widest.dtype is not None:
        widest = dataclasses.replace(widest, dtype=_widest(widest.dtype))
    return in_widest(evaluate(widest, wide, _CPU)[position])


def _widest(dtype: DataType) -> DataType:
    if dtype.is_complex:
        return DataType.ComplexDouble
    return DataType.Double if dtype.is_floating else dtype


def in_widest(tensor: torch.Tensor) -> torch.Tensor:
    """In a type where differences of floats are exact enough; 4-bit floats one by one."""
    return one_by_one(tensor).to(torch.complex128 if tensor.is_complex() else torch.float64)
