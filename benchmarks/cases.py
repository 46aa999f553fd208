"""What is measured: each definition, the peers that compute the same, and the exact result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from fuser import DataType, FusionDefinition

Tensors = list[torch.Tensor]
Peer = Callable[..., torch.Tensor]
IntoPeer = Callable[..., object]

HALF_SQRT = 0.7071067811865476


@dataclass(frozen=True, slots=True)
class Case:
    """`peers` take the inputs; `into` take the output's buffer, a scratch buffer and the inputs.

    The first peer is the definition written in torch, which torch.compile is given too.
    `tolerance` bounds fuser's absolute error against `exact`, which is torch in float64.
    """

    name: str
    define: Callable[[FusionDefinition], None]
    inputs: Callable[[str], Tensors]
    peers: Mapping[str, Peer]
    into: Mapping[str, IntoPeer]
    exact: Peer
    tolerance: float
    goals: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    @property
    def written(self) -> Peer:
        """The definition, written in torch."""
        return next(iter(self.peers.values()))


# -- gelu ----------------------------------------------------------------------------------------


def gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (torch.erf(x * HALF_SQRT) + 1.0)


def viewed_gelu(x: torch.Tensor) -> torch.Tensor:
    return gelu(x.view(64, 128, 3072)).view(8192, 3072)


def gelu_into(out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, HALF_SQRT, out=scratch).erf_().add_(1.0)
    torch.mul(x, 0.5, out=out).mul_(scratch)


def biased_gelu_into(
    out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor, bias: torch.Tensor
) -> None:
    torch.add(x, bias, out=out)
    torch.mul(out, HALF_SQRT, out=scratch).erf_().add_(1.0)
    out.mul_(0.5).mul_(scratch)


def library_gelu_into(out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor) -> None:
    torch.ops.aten.gelu.out(x, out=out)


def define_gelu(dtype: DataType) -> Callable[[FusionDefinition], None]:
    """gelu between two views, the second undoing the first; 16-bit results are cast back."""

    def define(fd: FusionDefinition) -> None:
        given = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=dtype)
        x = fd.ops.reshape(given, new_shape=[64, 128, 3072])
        result = x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0)
        if dtype is not DataType.Float:
            result = fd.ops.cast(result, dtype=dtype)
        fd.add_output(fd.ops.reshape(result, new_shape=[8192, 3072]))

    return define


def define_biased_gelu(fd: FusionDefinition) -> None:
    given = fd.define_tensor(shape=[-1, -1], contiguity=True)
    bias = fd.define_tensor(shape=[-1], contiguity=True)
    x = given + bias
    fd.add_output(x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0))


def define_small_gelu(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1], contiguity=True)
    fd.add_output(x * 0.5 * (fd.ops.erf(x * HALF_SQRT) + 1.0))


# -- permute -------------------------------------------------------------------------------------


def permuted(x: torch.Tensor) -> torch.Tensor:
    return x.view(64, 12, 128, 64).permute(0, 2, 1, 3).contiguous().view(8192, 768)


def permuted_into(out: torch.Tensor, scratch: torch.Tensor, x: torch.Tensor) -> None:
    out.view(64, 128, 12, 64).copy_(x.view(64, 12, 128, 64).permute(0, 2, 1, 3))


def define_permute(fd: FusionDefinition) -> None:
    given = fd.define_tensor(shape=[-1, -1, -1], contiguity=True)
    heads = fd.ops.reshape(given, new_shape=[64, 12, 128, 64])
    moved = fd.ops.set(fd.ops.permute(heads, dims=[0, 2, 1, 3]))
    joined = fd.ops.reshape(moved, new_shape=[64, 128, 768])
    fd.add_output(fd.ops.reshape(joined, new_shape=[8192, 768]))


# -- the list ------------------------------------------------------------------------------------


def random(
    *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> Callable[[str], Tensors]:
    def make(device: str) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        made = (torch.randn(shape, generator=generator) for shape in shapes)
        return [tensor.to(device, dtype) for tensor in made]

    return make


GELU_FLOAT = Case(
    name="gelu (erf) float32 [8192, 3072] between bookend views",
    define=define_gelu(DataType.Float),
    inputs=random((8192, 3072)),
    peers={"eager, as written": viewed_gelu, "eager, F.gelu": functional.gelu},
    into={"eager, as written": gelu_into, "eager, F.gelu": library_gelu_into},
    exact=functional.gelu,
    tolerance=2e-6,
    goals={
        ("as called", "torch.compile"): 5,
        ("as called", "eager, as written"): 4,
        ("as called", "eager, F.gelu"): 4,
        ("no page faults", "torch.compile"): 2,
    },
)
GELU_BFLOAT16 = Case(
    name="gelu (erf) bfloat16 [8192, 3072] between bookend views",
    define=define_gelu(DataType.BFloat16),
    inputs=random((8192, 3072), dtype=torch.bfloat16),
    peers={"eager, as written": viewed_gelu, "eager, F.gelu": functional.gelu},
    into={"eager, as written": gelu_into, "eager, F.gelu": library_gelu_into},
    exact=functional.gelu,
    tolerance=2**-6,  # half a unit in the last place of the largest results, which are below 8
    goals={
        ("as called", "torch.compile"): 3,
        ("as called", "eager, F.gelu"): 2,
        ("no page faults", "torch.compile"): 2,
    },
)
BIASED_GELU = Case(
    name="bias + gelu (erf) float32 [8192, 3072] + [3072]",
    define=define_biased_gelu,
    inputs=random((8192, 3072), (3072,)),
    peers={
        "eager, as written": lambda x, bias: gelu(x + bias),
        "eager, F.gelu": lambda x, bias: functional.gelu(x + bias),
    },
    into={"eager, as written": biased_gelu_into},
    exact=lambda x, bias: functional.gelu(x + bias),
    tolerance=4e-6,
)
PERMUTE = Case(
    name="permute float32 [768, 128, 64] -> [8192, 768] between bookend views",
    define=define_permute,
    inputs=random((768, 128, 64)),
    peers={"eager": permuted},
    into={"eager": permuted_into},
    exact=permuted,
    tolerance=0.0,
    goals={("as called", "torch.compile"): 1.5, ("no page faults", "torch.compile"): 1.5},
)
SMALL_GELU = Case(
    name="gelu (erf) float32 [64]",
    define=define_small_gelu,
    inputs=random((64,)),
    peers={"eager, as written": gelu, "eager, F.gelu": functional.gelu},
    into={},
    exact=functional.gelu,
    tolerance=2e-6,
)
LARGE = (GELU_FLOAT, GELU_BFLOAT16, BIASED_GELU, PERMUTE)
