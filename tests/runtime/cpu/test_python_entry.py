"""A kernel on the processor, called as a function of CPython's own kind."""

from __future__ import annotations

import ctypes
import threading

import numpy
import pytest
import torch

from fuser.codegen import Argument, KernelSource, Pointer, Scalar, Size
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Value
from fuser.ir.types import ScalarType, TensorType
from fuser.runtime.cpu.kernel import compile_cpu
from fuser.runtime.kernels.kernel import Launcher
from fuser.schedule.tree.loop_nest import Launch

PASSED: list[tuple[DataType, complex, complex]] = [
    (DataType.Bool, True, True),
    (DataType.UInt8, 200, 200),
    (DataType.UInt64, (1 << 63) + 5, (1 << 63) + 5),
    (DataType.Int8, -3, -3),
    (DataType.Int16, -300, -300),
    (DataType.Int32, -70_000, -70_000),
    (DataType.Int, -(1 << 62), -(1 << 62)),
    (DataType.Int, 1 << 63, -(1 << 63)),  # wraps around
    (DataType.Float, 0.5, 0.5),
    (DataType.Float, 3, 3.0),
    (DataType.Float, 1e300, float("inf")),
    (DataType.Double, 0.1, 0.1),
    (DataType.ComplexFloat, 1.5 - 2j, 1.5 - 2j),
    (DataType.ComplexDouble, 0.1 + 3j, 0.1 + 3j),
    (DataType.ComplexDouble, numpy.complex64(1.5 - 2j), 1.5 - 2j),  # no complex of Python's
]


def launcher(name: str, code: str, *arguments: Argument) -> Launcher:
    return compile_cpu(KernelSource(name, "", code, arguments, Launch())).launch


def writes(dtype: DataType, argument: Argument) -> Launcher:
    """A kernel that writes its number."""
    type_ = {
        DataType.Bool: "bool",
        DataType.UInt8: "unsigned char",
        DataType.UInt64: "unsigned long long",
        DataType.Int8: "signed char",
        DataType.Int16: "short",
        DataType.Int32: "int",
        DataType.Int: "long long",
        DataType.Float: "float",
        DataType.Double: "double",
        DataType.ComplexFloat: "complex64_parts",
        DataType.ComplexDouble: "complex128_parts",
    }[dtype]
    parts = "struct complex64_parts { float re, im; }; struct complex128_parts { double re, im; };"
    head = f"void writes({type_}* __restrict x_out, const {type_} given, const bool)"
    code = f'{parts} extern "C" {head} {{ *x_out = given; }}'
    pointer = Pointer(Value("x", TensorType(dtype, (1,))))
    return launcher("writes", code, pointer, argument)


@pytest.mark.parametrize(("dtype", "given", "expected"), PASSED)
def test_numbers_arrive(dtype: DataType, given: complex, expected: complex) -> None:
    launch = writes(dtype, Scalar(Value("s", ScalarType(dtype))))
    x = torch.zeros(1, dtype=dtype.torch)
    launch(x.data_ptr(), given, False)
    assert x.item() == torch.tensor(expected, dtype=dtype.torch).item()


def test_a_size_arrives() -> None:
    x = torch.zeros(1, dtype=torch.int32)
    writes(DataType.Int32, Size("n0", 7, DataType.Int32))(x.data_ptr(), 7, False)
    assert x.item() == 7


def test_there_may_be_many() -> None:
    """More than ctypes takes."""
    names = [f"n{at}" for at in range(1200)]
    given = ", ".join(f"const long long {name}" for name in names)
    total = " + ".join(names)
    code = f'extern "C" void adds(long long* x_out, {given}, const bool) {{ *x_out = {total}; }}'
    sizes = [Size(name, at, DataType.Int) for at, name in enumerate(names)]
    x = torch.zeros(1, dtype=torch.int64)
    pointer = Pointer(Value("x", TensorType(DataType.Int, (1,))))
    launcher("adds", code, pointer, *sizes)(x.data_ptr(), *range(1200), False)
    assert x.item() == sum(range(1200))


def test_what_is_no_argument_is_refused_and_nothing_runs() -> None:
    launch = writes(DataType.Int, Size("n0", 7, DataType.Int))
    x = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(TypeError, match="writes takes 3 arguments"):
        launch(x.data_ptr(), 7)
    with pytest.raises(TypeError, match="float"):
        launch(x.data_ptr(), 7.5, False)
    with pytest.raises(TypeError, match="an integer"):
        launch("x", 7, False)
    assert x.item() == 0


def test_other_threads_run_meanwhile() -> None:
    """The kernel waits for what another thread of Python writes."""
    code = """extern "C" void waits(int* x_out, const bool) {
      while (__atomic_load_n(x_out, __ATOMIC_ACQUIRE) == 0) {}
      *x_out = 2;
    }"""
    flag = ctypes.c_int(0)
    pointer = Pointer(Value("x", TensorType(DataType.Int32, (1,))))
    launch = launcher("waits", code, pointer)
    timer = threading.Timer(0.1, lambda: setattr(flag, "value", 1))
    timer.start()
    launch(ctypes.addressof(flag), False)
    timer.join()
    assert flag.value == 2
