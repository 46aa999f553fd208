"""The reader of machine code, against what NVIDIA's disassembler prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from fuser.runtime.cuda.cubin import Cubin
from fuser.runtime.cuda.nvrtc import compile_cubin
from tests.machine_code import elf_section, memory_accesses

pytest.importorskip("cuda.bindings.nvrtc")
nvidia = pytest.importorskip("nvidia")

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?(?P<name>[A-Z0-9_.]+)", re.M)
_ACCESS = re.compile(r"^(?P<operation>(?:LD|ST)[GSL]?)(?P<modifiers>(?:\.\w+)*)$")
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}

# Global, shared and local memory (an array indexed by data), at every width.
SOURCE = """
struct alignas(16) Wide { int x, y, z, w; };
struct alignas(8) Pair { int x, y; };
template <typename T> __device__ void through_shared(const T* from, T* to, int i) {
  __shared__ T kept[64];
  kept[threadIdx.x] = from[i];
  __syncthreads();
  to[i] = kept[63 - threadIdx.x];
}
template <typename T> __device__ void through_local(const T* from, T* to, const int* order) {
  T kept[32];
  for (int i = 0; i < 32; ++i) kept[order[i]] = from[i];
  for (int i = 0; i < 32; ++i) to[i] = kept[order[32 + i]];
}
extern "C" __global__ void kernel(
    const char* in, char* out, const int* __restrict__ order, float* sum, int** unknown) {
  const int i = threadIdx.x;
  through_shared((const unsigned char*)in, (unsigned char*)out, i);
  through_shared((const short*)in, (short*)out, i + 1000);
  through_shared((const int*)in, (int*)out, i + 2000);
  through_shared((const Pair*)in, (Pair*)out, i + 3000);
  through_shared((const Wide*)in, (Wide*)out, i + 4000);
  through_local((const signed char*)in, (signed char*)out, order);
  through_local((const int*)in, (int*)out, order);
  through_local((const Wide*)in, (Wide*)out, order);
  ((int*)out)[i] = ((const signed char*)in)[i] + ((const short*)in)[i];
  atomicAdd(sum + i, sinf(sum[i]) + erfinv(sum[i]));
  *unknown[i] = *unknown[i + 1];
}
"""


def disassembled(cubin: Cubin, directory: Path) -> Counter[tuple[str, int]]:
    """The memory accesses in nvdisasm's text."""
    roots = [Path(root) / "cu13" / "bin" for root in nvidia.__path__]
    tool = shutil.which("nvdisasm", path=":".join(map(str, roots))) or shutil.which("nvdisasm")
    if tool is None:
        pytest.skip("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")
    image = directory / "kernel.cubin"
    image.write_bytes(cubin.image)
    text = subprocess.run([tool, "-c", image], capture_output=True, text=True, check=True).stdout
    found: Counter[tuple[str, int]] = Counter()
    for instruction in _INSTRUCTION.finditer(text):
        access = _ACCESS.match(instruction["name"])
        if access is not None:
            modifiers = access["modifiers"].split(".")
            found[access["operation"], next((_BITS[m] for m in modifiers if m in _BITS), 32)] += 1
    return found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_memory_accesses_agree_with_nvdisasm(arch: str, tmp_path: Path) -> None:
    cubin = compile_cubin(SOURCE, "kernel", arch)
    accesses = memory_accesses(cubin)
    assert accesses == disassembled(cubin, tmp_path)
    every_width = {8, 16, 32, 64, 128}
    assert {bits for operation, bits in accesses if operation == "LDG"} == every_width
    assert {bits for operation, bits in accesses if operation == "STS"} == every_width
    assert {bits for operation, bits in accesses if operation == "STG"} == every_width
    generic = {"LD", "ST"}
    operations = {operation for operation, _ in accesses}
    assert operations - generic == {"LDG", "STG", "LDS", "STS", "LDL", "STL"}


def test_a_missing_section_is_a_key_error() -> None:
    image = compile_cubin('extern "C" __global__ void kernel() {}', "kernel", "sm_90").image
    assert elf_section(image, ".text.kernel")
    with pytest.raises(KeyError):
        elf_section(image, ".text.other")
