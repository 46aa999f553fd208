"""What `validate` compares with: inputs before they are updated, and the same random numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import torch

from fuser.ir import externs
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import (
    Constant,
    Fusion,
    GeneratorState,
    Inputs,
    Number,
    Output,
    Statement,
)
from fuser.ir.random_numbers import State, recorded_states
from fuser.locks import forkable_lock


def before_updates(fusion: Fusion, inputs: Inputs) -> list[torch.Tensor | Number]:
    """The inputs, copied where they lie in the memory of one that is updated."""
    updated = (inputs[at] for at in fusion.updated if at < len(inputs))
    changed = {
        given.untyped_storage().data_ptr() for given in updated if isinstance(given, torch.Tensor)
    }
    return [
        given.clone()
        if changed
        and isinstance(given, torch.Tensor)
        and given.untyped_storage().data_ptr() in changed
        else given
        for given in inputs
    ]


def with_updates_shown(fusion: Fusion) -> Fusion:
    """The same fusion, which returns what an updated input becomes in place of that input."""
    becomes = {output.alias_of: output.value for output in fusion.outputs}
    outputs = tuple(
        output if held is None else dataclasses.replace(output, value=becomes[held])
        for output, held in zip(fusion.outputs, fusion.shown_in(), strict=True)
    )
    return dataclasses.replace(fusion, outputs=outputs)


def without_updates(fusion: Fusion) -> Fusion:
    """The same fusion, returning what it writes into inputs as well."""
    outputs = tuple(Output(output.value) for output in fusion.outputs)
    return dataclasses.replace(fusion, outputs=outputs)


def all_results(
    fusion: Fusion, inputs: Inputs, outputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The outputs, and the inputs that were updated where they stand in for one."""
    returned = iter(outputs)
    given = dict(zip(fusion.inputs, inputs, strict=True))
    results: list[torch.Tensor] = []
    for output in fusion.outputs:
        if output.alias_of is None:
            results.append(next(returned))
            continue
        held = given[output.alias_of]
        assert isinstance(held, torch.Tensor)
        results.append(held)
    return results


RandomStates = tuple[torch.Tensor, dict[torch.device, torch.Tensor]]


_VALIDATING = forkable_lock()
"""Held while states of generators, which all threads share, are set back."""


@contextmanager
def drawing_alike(fusion: Fusion, inputs: Inputs) -> Generator[Callable[[Fusion], Fusion]]:
    """What makes a fusion draw what an execution of `fusion` in the block has drawn.

    The states of kernels' random numbers are put into it. What torch's operations draw is drawn
    again by generators that are set back, so no other thread may draw meanwhile.
    """
    if not any(externs.draws(statement.op) for statement in fusion.statements):
        with recorded_states() as states:
            yield lambda drawing: _with_states(drawing, states)
        return
    with _VALIDATING:
        tensors = (given for given in inputs if isinstance(given, torch.Tensor))
        now = _random_states({given.device for given in tensors if given.is_cuda})
        after: list[RandomStates] = []

        def set_back(drawing: Fusion) -> Fusion:
            after.append(_set_random_states(now))
            return drawing

        try:
            yield set_back
        finally:
            for states in after:  # go on from where they were
                _set_random_states(states)


def _with_states(fusion: Fusion, states: Sequence[State]) -> Fusion:
    """The same fusion with states of generators that were drawn, in order."""
    drawn, statements = iter(states), list[Statement]()
    for statement in fusion.statements:
        if isinstance(statement.op, GeneratorState):
            words = zip(statement.outs, next(drawn), strict=True)
            statements += [Statement((out,), Constant(word, DataType.Int)) for out, word in words]
        else:
            statements.append(statement)
    return dataclasses.replace(fusion, statements=tuple(statements))


def _random_states(devices: Iterable[torch.device]) -> RandomStates:
    """The states of the generators of the processor and of some GPUs."""
    return torch.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices}


def _set_random_states(states: RandomStates) -> RandomStates:
    """Go on from other states; returns those there were."""
    before = _random_states(states[1])
    torch.set_rng_state(states[0])
    for device, state in states[1].items():
        torch.cuda.set_rng_state(state, device)
    return before
