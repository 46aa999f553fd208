"""The published definitions as text: what a person reads. `pytest --update-golden` rewrites."""

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from tests.seeds import cross_entropy, gelu, softmax, transpose

Golden = Callable[[str, str], None]

SEEDS = [
    ("gelu", gelu, torch.empty(8192, 3072, device="meta")),
    ("transpose", transpose, torch.empty(768, 128, 64, device="meta")),
]
ROWS = [
    ("softmax", softmax, [torch.empty(8192, 768, device="meta")]),
    (
        "cross_entropy",
        cross_entropy,
        [
            torch.empty(512, 32768, device="meta"),
            torch.empty(512, dtype=torch.int64, device="meta"),
        ],
    ),
]
seeds = pytest.mark.parametrize(("name", "build", "given"), SEEDS, ids=[seed[0] for seed in SEEDS])
rows = pytest.mark.parametrize(("name", "build", "given"), ROWS, ids=[row[0] for row in ROWS])


def defined(build: Callable[[FusionDefinition], None]) -> FusionDefinition:
    with FusionDefinition() as fd:
        build(fd)
    return fd


@seeds
def test_the_cuda_kernel(name: str, build, given: torch.Tensor, golden: Golden):
    (kernel,) = defined(build).plan([given], target="cuda:sm_90").kernels
    golden(f"{name}.cu", kernel.source)


@seeds
def test_the_cpu_kernel(name: str, build, given: torch.Tensor, golden: Golden):
    (kernel,) = defined(build).plan([given], target="cpu").kernels
    golden(f"{name}.cpp", kernel.source)


@seeds
def test_the_definition(name: str, build, given: torch.Tensor, golden: Golden):
    golden(f"{name}.fusion", repr(defined(build)))


@seeds
def test_the_segments_and_why(name: str, build, given: torch.Tensor, golden: Golden):
    plan = defined(build).plan([given], target="cuda:sm_90")
    golden(f"{name}.segments", "\n".join([*plan.log, "", str(plan)]) + "\n")


@rows
def test_the_cpu_kernel_of_rows(name: str, build, given: list[torch.Tensor], golden: Golden):
    (kernel,) = defined(build).plan(given, target="cpu").kernels
    golden(f"{name}.cpp", kernel.source)


@rows
def test_the_segments_of_rows(name: str, build, given: list[torch.Tensor], golden: Golden):
    plan = defined(build).plan(given, target="cpu")
    golden(f"{name}.segments", "\n".join([*plan.log, "", str(plan)]) + "\n")


def layernorm_backward(fd: FusionDefinition) -> None:
    """Sums of each row, and those over all rows for weight and bias."""
    dy = fd.define_tensor([-1, -1], contiguity=True)
    x = fd.define_tensor([-1, -1], contiguity=True)
    mean, rstd = (fd.define_tensor([-1, 1], contiguity=[True, None]) for _ in range(2))
    weight = fd.define_tensor([-1], contiguity=True)
    normal = (x - mean) * rstd
    scaled = dy * fd.ops.broadcast(weight, [True, False])
    along = fd.ops.mean(scaled * normal, [1], keepdim=True)
    fd.add_output((scaled - fd.ops.mean(scaled, [1], keepdim=True) - normal * along) * rstd)
    fd.add_output(fd.ops.sum(dy * normal, [0]))
    fd.add_output(fd.ops.sum(dy, [0]))


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


@pytest.mark.parametrize(
    ("name", "build", "given"),
    [
        ROWS[0],
        (
            "layernorm_backward",
            layernorm_backward,
            [meta(8192, 768), meta(8192, 768), meta(8192, 1), meta(8192, 1), meta(768)],
        ),
    ],
    ids=["softmax", "layernorm_backward"],
)
def test_the_cuda_kernel_of_rows(name: str, build, given: list[torch.Tensor], golden: Golden):
    (kernel,) = defined(build).plan(given, target="cuda:sm_90").kernels
    golden(f"{name}.cu", kernel.source)


def test_the_kernels_of_a_transposed_operand(golden: Golden):
    def turned(fd: FusionDefinition) -> None:
        x, y, z, w = (fd.from_pytorch(torch.empty(4096, 4096, device="meta")) for _ in range(4))
        total = fd.ops.permute(x, [1, 0]) * 2.0 + (y + z) * w
        fd.add_output(fd.ops.stride_order(total, [1, 0]))
        fd.add_output(fd.ops.stride_order(fd.ops.permute(total, [1, 0]), [1, 0]))

    given = [torch.empty(4096, 4096, device="meta")] * 4
    for target, name in (("cpu", "turned.cpp"), ("cuda:sm_90", "turned.cu")):
        (kernel,) = defined(turned).plan(given, target=target).kernels
        golden(name, kernel.source)
