"""The time of a step outside matrix products, which no candidate computes itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

PRODUCTS = frozenset({"mkldnn::_linear_pointwise"}) | frozenset(
    f"aten::{name}"
    for name in (
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_flash_attention_forward",
        "_flash_attention_backward",
        "_efficient_attention_forward",
        "_efficient_attention_backward",
    )
)
"""torch's operations that are products, attention with what it does between its two."""


def outside_products(device: str) -> Callable[[Callable[[], object]], float]:
    """A clock: seconds of one call less those of its products, as torch's profiler has them.

    On the processor, of the wall clock; on a GPU, of the time of all kernels.
    """
    on_gpu = device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]

    def seconds(call: Callable[[], object]) -> float:
        with profile(activities=activities) as found:
            start = time.perf_counter()
            call()
            if on_gpu:
                torch.cuda.synchronize()
            taken = time.perf_counter() - start
        events: Any = found.key_averages()
        products = [event for event in events if event.key in PRODUCTS]
        if on_gpu:
            kernels = [event for event in events if event.device_type == DeviceType.CUDA]
            return _on_device(kernels) - _on_device(products)
        return taken - sum(event.self_cpu_time_total for event in products) / 1e6

    return seconds


def _on_device(events: Iterable[Any]) -> float:
    return sum(event.self_device_time_total for event in events) / 1e6
