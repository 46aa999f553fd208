"""Launching: the real cuda-bindings over a libcuda that records its calls, and a GPU if any."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from fuser.codegen import IndexCheck
from fuser.errors import CaptureError
from fuser.runtime.calls.checked import IndexReports
from fuser.runtime.cpu.toolchain import find_compiler
from fuser.runtime.cuda import bindings as cuda_bindings
from fuser.runtime.cuda import driver as cuda_driver
from fuser.runtime.cuda.nvrtc import compile_cubin
from fuser.runtime.cuda.parameters import Parameters

pytest.importorskip("cuda.bindings.driver")

ROOT = Path(__file__).parents[3]
PRELUDE = """
import ctypes
import torch
torch.cuda.current_device = lambda: 3
from fuser.errors import LaunchError
from fuser.runtime.cuda.cubin import Cubin, Resources
from fuser.runtime.cuda.driver import load_kernel
from fuser.runtime.cuda.parameters import Parameters

def cubin(image=b"ELF..", kernel="k", shared_bytes=128):
    return Cubin(image, kernel, Resources(32, 0, 0, shared_bytes, len(image)), "")

def failure(function, *arguments):
    try:
        function(*arguments)
    except LaunchError as error:
        print(error)

parameters = Parameters([ctypes.c_void_p, ctypes.c_int64, ctypes.c_float])
arguments = parameters.write([0xABC, 1 << 40, 2.5])
record = ctypes.CDLL("libcuda.so.1").fake_record
record.restype = ctypes.c_char_p
"""


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a libcuda.so.1 that records its calls."""
    compiler = find_compiler()
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C++ compiler")
    directory = tmp_path_factory.mktemp("fake_driver")
    source = Path(__file__).with_name("fake_libcuda.cpp")
    compiler.shared_library(source, directory / "libcuda.so.1", ("-O1", "-ldl"))
    return directory


def run(fake_driver: Path, script: str) -> list[str]:
    """The lines that `script` prints, then those the driver recorded."""
    text = f"{PRELUDE}\n{textwrap.dedent(script)}\nprint(record().decode(), end='')"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(fake_driver), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_launch_passes_shape_stream_and_parameters(fake_driver: Path) -> None:
    script = "load_kernel(cubin()).launch((1, 2, 3), (4, 5, 6), arguments, 0x77, 1000)"
    assert run(fake_driver, script) == [
        "cuLibraryLoadData ELF, options 0 0",
        "cuLibraryGetKernel 0x11b k",
        "cuLaunchKernel 0x4e1 <1 2 3, 4 5 6, 1000, 0x77> (0xabc, 1099511627776, 2.5) (nil)",
    ]


def test_a_thread_without_a_context_gets_the_primary_one_once(fake_driver: Path) -> None:
    script = """
        kernel = load_kernel(cubin())
        kernel.launch((1, 1, 1), (32, 1, 1), arguments, 0)
        kernel.launch((2, 1, 1), (32, 1, 1), arguments, 0)
    """
    assert run(fake_driver, script)[2:] == [
        "cuDevicePrimaryCtxRetain 103",
        "cuCtxSetCurrent 0xc0",
        "cuLaunchKernel 0x4e1 <1 1 1, 32 1 1, 0, (nil)> (0xabc, 1099511627776, 2.5) (nil)",
        "cuLaunchKernel 0x4e1 <2 1 1, 32 1 1, 0, (nil)> (0xabc, 1099511627776, 2.5) (nil)",
    ]


def test_much_shared_memory_is_asked_for_once_per_device(fake_driver: Path) -> None:
    script = """
        kernel = load_kernel(cubin(shared_bytes=1024))
        kernel.launch((1, 1, 1), (32, 1, 1), arguments, 0x77, 46 * 1024)
        kernel.launch((1, 1, 1), (32, 1, 1), arguments, 0x77, 47 * 1024)
        kernel.launch((1, 1, 1), (32, 1, 1), arguments, 0x77, 64 * 1024)
        failure(kernel.launch, (1, 1, 1), (32, 1, 1), arguments, 0x77, 232448)
    """
    message, *calls = run(fake_driver, script)
    asked = [call for call in calls if "Attribute" in call]
    # 97: the most shared memory a block may have. 1: what the kernel declares, by the driver's
    # count. 8: the most dynamic shared memory.
    assert asked == [
        "cuDeviceGetAttribute 97 of device 103",
        "cuKernelGetAttribute 1 of 0x4e1 on device 103",
        f"cuKernelSetAttribute 8 = {232448 - 2048} of 0x4e1 on device 103",
    ]
    # In a context, which a thread without one is given before.
    names = [call.split()[0] for call in calls]
    assert names[3:5] == ["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]
    assert names.index("cuKernelSetAttribute") == 7
    assert "232448 bytes of shared memory per block, the device allows 230400" in message


def test_driver_errors_are_launch_errors(fake_driver: Path) -> None:
    script = """
        kernel = load_kernel(cubin())
        failure(kernel.launch, (0, 1, 1), (32, 1, 1), arguments, 0x77)
        failure(load_kernel, cubin(image=b"not a cubin"))
        failure(load_kernel, cubin(kernel="absent"))
    """
    assert run(fake_driver, script)[:3] == [
        "kernel k: CUDA_ERROR_INVALID_VALUE: what it means "
        "(grid (0, 1, 1), block (32, 1, 1), 0 bytes of shared memory)",
        "kernel k: CUDA_ERROR_INVALID_IMAGE: what it means",
        "kernel absent: CUDA_ERROR_NOT_FOUND: what it means",
    ]


def test_no_driver_is_a_target_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDriver:
        def cuInit(self, flags: int) -> None:  # noqa: N802
            raise RuntimeError("libcuda.so.1 not found")

    monkeypatch.setattr(cuda_bindings, "driver", NoDriver)
    cubin = compile_cubin('extern "C" __global__ void kernel() {}', "kernel", "sm_90")
    with pytest.raises(cuda_driver.TargetError, match="NVIDIA driver"):
        cuda_driver.load_kernel(cubin)


def test_the_bindings_have_what_is_used_of_them() -> None:
    for protocol, module in (
        (cuda_bindings.Driver, cuda_bindings.driver()),
        (cuda_bindings.Nvrtc, cuda_bindings.nvrtc()),
    ):
        used = [name for name in vars(protocol) if name.startswith(("cu", "CU", "nvrtc"))]
        assert used
        assert [name for name in used if not hasattr(module, name)] == []


def test_questions_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", {0: (9, 0), 1: (10, 0)}.__getitem__)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", {1: 0x77}.get, raising=False)
    assert [cuda_driver.device_arch(index) for index in (0, 1)] == ["sm_90", "sm_100"]
    assert cuda_driver.current_stream(1) == 0x77


def test_only_another_device_is_switched_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with cuda_driver.on_device(1) as switched:
        assert switched is None
    assert isinstance(cuda_driver.on_device(0), torch.cuda.device)


DEFINITION = """
from fuser import FusionDefinition
with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    weights = fd.define_tensor(shape=[-1], contiguity=True)
    y = fd.ops.exp(x - fd.ops.max(x, [1], keepdim=True))
    shares = fd.ops.segment_set(y / fd.ops.sum(y, [1], keepdim=True))
    fd.add_output(shares)
    fd.add_output(fd.ops.sum(shares) * weights)
given = [torch.randn(40, 20000), torch.randn(9)]
"""
WARM = """
import threading
from fuser.planning import compile_plan
from fuser.runtime.cuda import driver as cuda_driver
from fuser.runtime.calls import executor
from fuser.runtime.cuda.occupancy import Capacity
from fuser.runtime.target_name import TargetName

streams = threading.local()
torch._C._cuda_getCurrentRawStream = lambda index: streams.current
streams.current = 0x51
cuda_driver.capacity = lambda index: Capacity(108, 2048, 164 << 10)
made = []
maker = executor.room_maker

def room_maker(*where):
    make = maker(*where)
    return lambda: made.append(make()) or made[-1]

executor.room_maker = room_maker

compiled = compile_plan(fd.fusion, given, TargetName("cuda", "sm_80"))
here = torch.device("cpu")
kernels = {name: compiled.backend.load(name, here) for name in compiled.backend.sources}
runner = executor.Runner(compiled.segmented, kernels, here)
runner.run(given)
cold = len(record().splitlines())
made.clear()

def work(stream):
    streams.current = stream
    runner.run(given)
    runner.run(given)

threads = [threading.Thread(target=work, args=(0x60 + n,)) for n in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(kernels), len(made), cold)
"""


def test_a_warm_call_only_launches_on_the_stream_of_its_thread(fake_driver: Path) -> None:
    """So that it can be captured in a CUDA graph: memory is torch's, and nothing is waited for."""
    defined: dict[str, Any] = {"torch": torch}
    exec(DEFINITION, defined)
    # NVRTC does not work over the fake driver: what it makes here is found on disk there.
    for kernel in defined["fd"].plan(defined["given"], target="cuda:sm_80").kernels:
        kernel.compile()
    lines = run(fake_driver, DEFINITION + WARM)
    kernels, rooms, cold = map(int, lines[0].split())
    assert kernels >= 2
    assert rooms >= 6  # the sum of everything has a workspace, each call's its own
    assert any("cuKernelSetAttribute" in call for call in lines[: 1 + cold])  # more than 48 KB
    warm = lines[1 + cold :]
    assert [call.split()[0] for call in warm] == ["cuLaunchKernel"] * (6 * kernels)
    for stream in ("0x60", "0x61", "0x62"):
        assert sum(f", {stream}>" in call for call in warm) == 2 * kernels


def test_what_must_wait_refuses_to_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(CaptureError, match="FUSER_CHECK=index waits"):
        IndexReports((IndexCheck("gather", 3, False),), torch.device("cuda")).take()
    with pytest.raises(CaptureError, match="loads kernels"):
        cuda_driver.refuse_capture("a first call loads kernels")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_kernel_runs_on_the_device() -> None:
    source = """
        extern "C" __global__ void scale(float* to, const float* from, float by) {
          extern __shared__ float kept[];
          kept[threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x];
          __syncthreads();
          to[blockIdx.x * blockDim.x + threadIdx.x] = by * kept[threadIdx.x];
        }"""
    kernel = cuda_driver.load_kernel(compile_cubin(source, "scale", cuda_driver.device_arch(0)))
    x = torch.randn(8 * 128, device="cuda:0")
    y = torch.empty_like(x)
    parameters = Parameters([ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float])
    given = parameters.write([y.data_ptr(), x.data_ptr(), 3.0])
    with cuda_driver.on_device(0):
        stream = cuda_driver.current_stream(0)
        for shared_bytes in (512, 64 * 1024):
            y.zero_()
            kernel.launch((8, 1, 1), (128, 1, 1), given, stream, shared_bytes)
            torch.testing.assert_close(y, 3 * x)
