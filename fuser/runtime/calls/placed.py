"""Calls with their inputs on the device of the plan, and that device the current one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from fuser.ir.nodes import Fusion, Inputs, Number
from fuser.runtime.calls.torch_steps import separated
from fuser.runtime.cuda.driver import is_current, on_device

Run = Callable[[Inputs], list[torch.Tensor]]


def placed(fusion: Fusion, run: Run, inputs: Inputs, place: torch.device) -> Run:
    """`run`, a plan of `fusion` on `place`, for inputs of which 0-dim CPU tensors may be elsewhere.

    `place` is the current device meanwhile.
    """
    run = _after_moving(fusion, run, place) if are_elsewhere(inputs, place) else run
    return _with_current(run, place) if place.type == "cuda" else run


def are_elsewhere(inputs: Inputs, place: torch.device) -> bool:
    """Whether there are tensors on another device than `place`."""
    return any(isinstance(given, torch.Tensor) and given.device != place for given in inputs)


def apart(run: Run) -> Run:
    """`run`, with outputs in memory of their own."""
    return lambda inputs: separated(run(inputs), inputs)


def moved(inputs: Inputs, place: torch.device) -> Inputs:
    """The inputs, tensors on `place`."""
    return [_on(place, given) if isinstance(given, torch.Tensor) else given for given in inputs]


def filled(given: torch.Tensor, place: torch.device) -> torch.Tensor:
    """A 0-dim tensor with the number of another one. The host waits for nothing, as it would to
    copy memory to a GPU, and a CUDA graph may be captured meanwhile."""
    return torch.full((), given.item(), dtype=given.dtype, device=place)


def _on(place: torch.device, given: torch.Tensor) -> torch.Tensor:
    if given.device != place and given.device.type == "cpu" and place.type == "cuda":
        return filled(given, place)
    return given.to(place)


def copied(given: torch.Tensor | Number) -> torch.Tensor | Number:
    """A tensor of the same sizes, strides and alignment in memory of its own."""
    if not isinstance(given, torch.Tensor):
        return given
    memory, offset = given.untyped_storage().clone(), given.storage_offset()
    empty = torch.empty(0, dtype=given.dtype, device=given.device)
    return empty.set_(memory, offset, given.shape, given.stride())


def current(place: torch.device) -> AbstractContextManager[object]:
    """`place` is the current device, if there can be one."""
    return on_device(place.index or 0) if place.type == "cuda" else nullcontext()


def _after_moving(fusion: Fusion, run: Run, place: torch.device) -> Run:
    """`run` on moved inputs; what is handed on, or updated, is what was given."""
    position = {value: number for number, value in enumerate(fusion.inputs)}
    updated = [position[o.alias_of] for o in fusion.outputs if o.alias_of is not None]
    returned = [o.value for o in fusion.outputs if o.alias_of is None]
    handed = [
        (number, position[value])
        for number, value in enumerate(returned)
        if value in position and position[value] not in updated
    ]

    def inside(inputs: Inputs) -> list[torch.Tensor]:
        there = moved(inputs, place)
        results = run(there)
        with torch.no_grad():
            for number, at in handed:
                given = inputs[at]
                assert isinstance(given, torch.Tensor)
                results[number] = given.detach() if given.device != place else results[number]
            for at in updated:
                given, new = inputs[at], there[at]
                assert isinstance(given, torch.Tensor)
                assert isinstance(new, torch.Tensor)
                if new is not given:
                    given.copy_(new)
        return results

    return inside


def _with_current(run: Run, place: torch.device) -> Run:
    index = place.index or 0

    def inside(inputs: Inputs) -> list[torch.Tensor]:
        if is_current(index):
            return run(inputs)
        with current(place):
            return run(inputs)

    return inside
