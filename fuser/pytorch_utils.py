"""What nvFuser's `pytorch_utils` offers: dtypes of torch and Python, freeing what is cached, and
another try for tests."""

from __future__ import annotations

import functools
import gc
import os
import unittest
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import torch

from fuser.errors import OperandDtypeError
from fuser.ir import dtypes
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Number
from fuser.runtime.calls.output_pool import POOL

P = ParamSpec("P")
Result = TypeVar("Result")

_OF_NUMBERS = {
    complex: DataType.ComplexDouble,
    float: DataType.Double,
    int: DataType.Int,
    bool: DataType.Bool,
}

_DEVICE_PROPERTIES = {
    "gpu_name": "name",
    "gpu_compute_capability_major": "major",
    "gpu_compute_capability_minor": "minor",
    "gpu_gmem_bytes": "total_memory",
    "gpu_sm_count": "multi_processor_count",
    "gpu_smem_bytes_per_block": "shared_memory_per_block",
    "gpu_l2_bytes": "L2_cache_size",
    "gpu_max_threads_per_sm": "max_threads_per_multi_processor",
}
"""nvFuser's names of what torch knows about a GPU."""


def torch_dtype_to_nvfuser_dtype(dtype: torch.dtype | type[Number]) -> DataType:
    """The DataType of a torch dtype, or of Python's numbers of a type.

    Raises OperandDtypeError where there is none (uint16, quantized, ...).
    """
    return _data_type("torch_dtype_to_nvfuser_dtype", dtype)


def python_scalar_to_nvfuser_dtype(a: Number) -> DataType:
    """The DataType of a Python number: Bool, Int, Double or ComplexDouble.

    Raises OperandDtypeError for what is no such number.
    """
    return _data_type("python_scalar_to_nvfuser_dtype", type(a))


def _data_type(operation: str, dtype: torch.dtype | type[Number]) -> DataType:
    found = dtypes.from_torch(dtype) if isinstance(dtype, torch.dtype) else _OF_NUMBERS.get(dtype)
    if found is None:
        reason = "there is no DataType of this dtype"
        raise OperandDtypeError(operation=operation, reason=reason, got=dtype)
    return found


def retry_on_oom_or_skip_test(func: Callable[P, Result]) -> Callable[P, Result]:
    """Decorates a test: where a device's memory is full, what is cached is freed for another try.

    Where that fails too, the test is skipped; outside of pytest the error is raised.
    """

    @functools.wraps(func)
    def retried(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError:
            pass  # the error's traceback holds tensors until its block is left
        clear_cuda_cache()
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError as error:
            if "PYTEST_CURRENT_TEST" not in os.environ:
                raise
            raise unittest.SkipTest(f"out of memory: {error}") from error

    return retried


def clear_cuda_cache() -> None:
    """Free the memory that is held for tensors to come, of the GPU and of outputs on the CPU."""
    gc.collect()
    POOL.clear()
    torch.cuda.empty_cache()


def __getattr__(name: str) -> object:
    """`DEVICE_PROPERTIES`, asked for when it is read: importing this initializes no GPU."""
    if name == "DEVICE_PROPERTIES":
        return _device_properties() if torch.cuda.is_available() else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _device_properties() -> dict[str, object]:
    held = cast("object", torch.cuda.get_device_properties(torch.cuda.current_device()))  # pyright: ignore[reportUnknownMemberType]
    return {name: getattr(held, attribute) for name, attribute in _DEVICE_PROPERTIES.items()}
