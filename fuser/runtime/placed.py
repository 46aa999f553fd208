"""Calls with their inputs on the device of the plan, and that device the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from fuser.ir.nodes import Number
from fuser.runtime.call import Inputs
from fuser.runtime.cuda_driver import on_device

Result = TypeVar("Result")


def placed(
    run: Callable[[Inputs], Result], inputs: Inputs, place: torch.device
) -> Callable[[Inputs], Result]:
    """`run` with inputs where it wants them, and on a current device that is theirs."""
    elsewhere = any(isinstance(t, torch.Tensor) and t.device != place for t in inputs)
    run = _after_moving(run, place) if elsewhere else run
    return run if place.type == "cpu" else _with_current(place.index or 0, run)


def _after_moving(
    run: Callable[[Inputs], Result], device: torch.device
) -> Callable[[Inputs], Result]:
    """`run` on inputs of which 0-dim CPU tensors are first copied to where the others are."""

    def moved(given: torch.Tensor | Number) -> torch.Tensor | Number:
        return given.to(device) if isinstance(given, torch.Tensor) else given

    return lambda inputs: run([moved(given) for given in inputs])


def _with_current(index: int, run: Callable[[Inputs], Result]) -> Callable[[Inputs], Result]:
    """`run` while CUDA device `index` is the current one."""

    def inside(inputs: Inputs) -> Result:
        with on_device(index):
            return run(inputs)

    return inside
