"""Kernels that report an index out of range."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch

from fuser.codegen import IndexCheck
from fuser.ir.indexing import index_error
from fuser.runtime.cuda_driver import refuse_capture
from fuser.runtime.environment import Action, Environment


def checking(
    run: Callable[..., None], checks: Sequence[IndexCheck], device: torch.device
) -> Action:
    """Run a kernel, wait for it, and raise IndexOutOfRangeError if an index was out of range."""

    def raise_for(number: int, index: int) -> None:
        if number:
            check = checks[number - 1]
            raise index_error(check.operation, index, check.size, wraps=check.wraps)

    def run_on_cpu(environment: Environment) -> None:
        errors = (ctypes.c_longlong * 2)()
        run(environment, ctypes.addressof(errors))
        raise_for(*errors)

    def run_on_device(environment: Environment) -> None:
        refuse_capture("FUSER_CHECK=index waits for the kernel; leave it off")
        errors = torch.zeros(2, dtype=torch.int64, device=device)
        run(environment, errors.data_ptr())
        raise_for(int(errors[0]), int(errors[1]))

    return run_on_cpu if device.type == "cpu" else run_on_device
