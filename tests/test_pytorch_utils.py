"""nvFuser's helpers by their names."""

from __future__ import annotations

import unittest

import pytest
import torch

import fuser
from fuser import DataType, errors, pytorch_utils
from fuser.pytorch_utils import (
    python_scalar_to_nvfuser_dtype,
    retry_on_oom_or_skip_test,
    torch_dtype_to_nvfuser_dtype,
)

pytest_plugins = ["pytester"]


def test_dtypes_of_torch_and_python() -> None:
    for dtype in {*DataType} - {DataType.Float4_e2m1fn}:  # which torch has pairs of
        assert torch_dtype_to_nvfuser_dtype(dtype.torch) is dtype
    assert torch_dtype_to_nvfuser_dtype(float) is DataType.Double
    numbers = [True, 2, 0.5, 1j]
    expected = [DataType.Bool, DataType.Int, DataType.Double, DataType.ComplexDouble]
    assert [python_scalar_to_nvfuser_dtype(number) for number in numbers] == expected
    for unknown in (torch.float8_e4m3fnuz, torch.quint8, str):
        with pytest.raises(errors.OperandDtypeError, match="no DataType"):
            torch_dtype_to_nvfuser_dtype(unknown)  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.OperandDtypeError, match=r"^python_scalar_to_nvfuser_dtype: .*str"):
        python_scalar_to_nvfuser_dtype("2")  # pyright: ignore[reportArgumentType]


def failing(times: int) -> tuple[list[int], object]:
    calls: list[int] = []

    @retry_on_oom_or_skip_test
    def run(by: int) -> int:
        calls.append(by)
        if len(calls) <= times:
            raise torch.OutOfMemoryError("full")
        return 2 * by

    return calls, run


def test_a_second_try_is_enough() -> None:
    calls, run = failing(1)
    assert run(21) == 42
    assert calls == [21, 21]


def test_the_module_is_there_without_an_import_of_its_own() -> None:
    assert fuser.pytorch_utils is pytorch_utils
    fuser.pytorch_utils.clear_cuda_cache()


def test_two_failures_skip_a_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = failing(2)
    with pytest.raises(unittest.SkipTest, match="out of memory: full"):
        run(1)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    _, run = failing(2)
    with pytest.raises(torch.OutOfMemoryError):
        run(1)


def test_pytest_counts_it_as_skipped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import torch
        from fuser.pytorch_utils import retry_on_oom_or_skip_test

        @retry_on_oom_or_skip_test
        def test_too_large():
            raise torch.OutOfMemoryError("full")
    """)
    pytester.runpytest().assert_outcomes(skipped=1)


def test_properties_are_those_of_the_gpu() -> None:
    if not torch.cuda.is_available():
        assert pytorch_utils.DEVICE_PROPERTIES is None
        return
    assert pytorch_utils.DEVICE_PROPERTIES["gpu_sm_count"] > 0
