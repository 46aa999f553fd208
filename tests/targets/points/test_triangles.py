"""triu and tril: torch's triangles, on every target."""

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import ArgumentError
from fuser.frontend.handles import Handle


def triangles(fd: FusionDefinition, x: Handle, diagonal: int) -> None:
    fd.add_output(fd.ops.triu(x, diagonal))
    fd.add_output(fd.ops.tril(x, diagonal=diagonal))


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.complex64], ids=str
)
@pytest.mark.parametrize("shape", [(7, 5), (3, 9, 40), (4, 1), (1, 6)], ids=str)
def test_triangles_are_torchs(shape: tuple[int, ...], dtype: torch.dtype, target: str):
    x = torch.randn(shape).to(dtype)
    for diagonal in (-2, 0, 3):
        with FusionDefinition() as fd:
            triangles(fd, fd.from_pytorch(x), diagonal)
        upper, lower = fd.execute([x], target=target)
        assert upper.dtype is dtype
        assert torch.equal(upper, x.triu(diagonal))
        assert torch.equal(lower, x.tril(diagonal))


def test_sizes_and_the_diagonal_may_be_known_late():
    with FusionDefinition() as fd:
        x, diagonal = fd.define_tensor([-1, -1]), fd.define_scalar()
        fd.add_output(fd.ops.triu(x, fd.ops.cast(diagonal, fd.ops.size(x, 0).dtype())))
    for shape in (3, 4), (6, 2):
        x = torch.randn(shape)
        assert torch.equal(fd.execute([x, 1.0])[0], x.triu(1))


def test_a_triangle_of_what_is_computed_is_one_kernel():
    x = torch.randn(40, 30)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.ops.triu(fd.ops.exp(fd.from_pytorch(x))), [1]))
    assert len(fd.plan([x]).kernels) == 1


def test_a_vector_has_no_triangle():
    with FusionDefinition() as fd, pytest.raises(ArgumentError, match="T0 has 1 dimension"):
        fd.ops.triu(fd.define_tensor([-1]))


def test_a_diagonal_is_an_integer():
    with FusionDefinition() as fd, pytest.raises(ArgumentError, match="tril: diagonal = "):
        fd.ops.tril(fd.define_tensor([-1, -1]), 1.5)
