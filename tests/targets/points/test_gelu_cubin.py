"""What the machine code of the two published definitions does with memory and registers."""

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.runtime.cuda.kernel import compile_cuda
from tests.machine_code import memory_accesses
from tests.seeds import gelu, transpose

ARCHS = ("sm_80", "sm_90", "sm_100")
GELU = torch.empty(8192, 3072, device="meta")
TRANSPOSE = torch.empty(768, 128, 64, device="meta")


def accesses(
    build: Callable[[FusionDefinition], None], given: torch.Tensor, arch: str
) -> dict[tuple[str, int], int]:
    """How often the only kernel makes each global or local access, by width in bits."""
    with FusionDefinition() as fd:
        build(fd)
    (kernel,) = fd.plan([given], target=f"cuda:{arch}").kernels
    assert kernel.compile().spill_bytes == 0
    return memory_accesses(compile_cuda(kernel.kernel_source, arch))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("build", "given"), [(gelu, GELU), (transpose, TRANSPOSE)])
def test_memory_is_moved_128_bits_at_a_time(
    build: Callable[[FusionDefinition], None], given: torch.Tensor, arch: str
):
    found = accesses(build, given, arch)
    assert found["LDG", 128] > 0
    assert found["STG", 128] > 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("build", "given"), [(gelu, GELU), (transpose, TRANSPOSE)])
def test_lanes_stay_in_registers(
    build: Callable[[FusionDefinition], None], given: torch.Tensor, arch: str
):
    found = accesses(build, given, arch)
    assert not [access for access in found if access[0] in ("LDL", "STL")]


@pytest.mark.parametrize("arch", ARCHS)
def test_sixteen_bit_floats_move_as_wide(arch: str):
    given = torch.empty(8192, 3072, device="meta", dtype=torch.bfloat16)

    def build(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(given)
        fd.add_output(fd.ops.cast(fd.ops.tanh(x), x.dtype()))

    found = accesses(build, given, arch)
    assert found["LDG", 128] > 0
    assert found["STG", 128] > 0


def test_misaligned_inputs_are_read_in_narrow_pieces():
    given = torch.empty(4097)[1:]

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.exp(fd.from_pytorch(given)))

    found = accesses(build, given, "sm_90")
    assert {width for name, width in found if name == "LDG"} == {32}
    assert ("STG", 128) in found
