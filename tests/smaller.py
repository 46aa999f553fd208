"""The smallest part of a fusion that still fails.

T1 = exp(T0); T2 = sum(T1); T3 = neg(T2); output T3     and `sum` is wrong
-> T2 = sum(T1); output T2                              with T1 an input that holds its numbers
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch

from fuser.ir.concretize import concretize_for
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion, Number, Output, Statement, Value, map_operands, operands
from fuser.ir.types import Layout, compute_tensor_descriptor
from fuser.passes.dead_code import remove_dead_code

Inputs = Sequence["torch.Tensor | Number"]
Fails = Callable[[Fusion, Inputs], bool]
Part = tuple[Fusion, Inputs]


def smallest(fusion: Fusion, inputs: Inputs, fails: Fails) -> Part:
    """The part of a failing fusion of which no smaller part fails that it was asked about.

    Asked a few times for each statement.
    """
    part: Part = (concretize_for(fusion, inputs), inputs)
    if not fails(*part):
        return fusion, inputs
    found = True
    while found:
        found = False
        for smaller in (*_ending_earlier(*part), *_beginning_later(*part)):
            if _size(smaller) < _size(part) and fails(*smaller):
                part, found = smaller, True
                break
    return part


def _size(part: Part) -> tuple[int, int, int]:
    fusion, inputs = part
    return len(fusion.statements), len(fusion.outputs), len(inputs)


def _ending_earlier(fusion: Fusion, inputs: Inputs) -> Iterator[Part]:
    """One output alone; then one value of any statement, the first ones first."""
    tensors = [out for statement in fusion.statements for out in statement.outs if out.is_tensor]
    for value in (*dict.fromkeys(fusion.output_values), *tensors):
        yield _needed(dataclasses.replace(fusion, outputs=(Output(value),)), inputs)


def _beginning_later(fusion: Fusion, inputs: Inputs) -> Iterator[Part]:
    """What one statement makes becomes an input, the last ones first."""
    for statement in reversed(fusion.statements):
        if all(out.is_tensor for out in statement.outs):
            yield _needed(*_cut(fusion, inputs, statement))


def _cut(fusion: Fusion, inputs: Inputs, statement: Statement) -> Part:
    """The statement's results as inputs that hold what the oracle computes."""
    made = dataclasses.replace(fusion, outputs=tuple(map(Output, statement.outs)))
    results = [result.contiguous() for result in interpret(made, inputs)]
    new: dict[Value, Value] = {}
    for out, result in zip(statement.outs, results, strict=True):
        layout = Layout(*compute_tensor_descriptor(result.shape, result.stride()))
        new[out] = Value(out.id, dataclasses.replace(out.tensor, layout=layout))
    statements = tuple(
        dataclasses.replace(other, op=map_operands(other.op, lambda value: new.get(value, value)))
        for other in fusion.statements
        if other is not statement
    )
    outputs = tuple(Output(new.get(o.value, o.value)) for o in fusion.outputs)
    return Fusion((*fusion.inputs, *new.values()), statements, outputs), [*inputs, *results]


def _needed(fusion: Fusion, inputs: Inputs) -> Part:
    """Without statements and inputs that no output needs."""
    fusion = remove_dead_code(fusion)
    read = {v for statement in fusion.statements for v in operands(statement.op)}
    read.update(fusion.output_values)
    kept = [at for at, value in enumerate(fusion.inputs) if value in read]
    fusion = dataclasses.replace(fusion, inputs=tuple(fusion.inputs[at] for at in kept))
    return fusion, [inputs[at] for at in kept]
