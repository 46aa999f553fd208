"""Sizes that are scalars of the definition: vectors of them, and every argument that takes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import pad

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.ir.concretize import size_inputs
from fuser.pipeline import Executor
from tests.definitions import built


def test_a_vector_is_a_list_of_scalars() -> None:
    with FusionDefinition() as fd:
        inputs = fd.define_vector(2)
        mixed = fd.define_vector([inputs[0], 3], DataType.Int)
        named = fd.define_vector(values=(inputs[1] * 0.5, 4), dtype=DataType.Int)
        halves = fd.define_vector([1, 2.5], DataType.Double)
    assert (inputs.size, len(mixed), named.size) == (2, 2, 2)
    assert mixed.at(0) is mixed[0] is inputs[0]
    assert [s.name for s in mixed] == ["S0", "S2"]
    assert {s.dtype() for s in (*mixed, *named)} == {DataType.Int}
    assert [s.dtype() for s in halves] == [DataType.Double] * 2
    assert len(fd.fusion.inputs) == 2


def test_sizes_of_a_tensor_are_a_vector() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 4])
        sizes = x.shape()
        assert sizes.size == fd.ops.shape(x).size == 2
        assert fd.ops.at(sizes, -1) is sizes.at(1)
        with pytest.raises(errors.ArgumentError, match="at: index = 2: expected one of the 2"):
            fd.ops.at(sizes, 2)


def test_elements_of_vectors_are_scalars() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        with pytest.raises(errors.ArgumentTypeError, match=r"values\[1\] must be a scalar"):
            fd.define_vector([1, x])
        with pytest.raises(errors.ArgumentTypeError, match=r"values\[0\] must be a Python number"):
            fd.define_vector(["1"])  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ArgumentError, match=r"2\.5: expected a number that fits Int"):
            fd.define_vector([2.5])
        with pytest.raises(errors.ArgumentTypeError, match="values must be a list or tuple"):
            fd.define_vector(2.5)  # pyright: ignore[reportArgumentType]
        with pytest.raises(errors.ArgumentError, match="size or values"):
            fd.define_vector(2, values=[1])
        with pytest.raises(errors.ArgumentError, match="missing"):
            fd.define_vector()


VECTORS: list[tuple[Callable[[FusionDefinition, Handle, Handle], Handle], tuple[int, ...]]] = [
    (lambda fd, x, n: fd.ops.reshape(x, fd.define_vector([n, 3])), (4, 3)),
    (lambda fd, x, n: fd.ops.reshape(x, fd.define_vector([2, -1])), (2, 6)),
    (lambda fd, x, n: fd.ops.reshape(x, [fd.define_scalar(-1), n]), (3, 4)),
    (lambda fd, x, n: fd.ops.reshape(x, [fd.define_scalar(3.5), n]), (3, 4)),
    (lambda fd, x, n: fd.ops.reshape(x, [3, fd.ops.mul(12, fd.ops.reciprocal(3.0))]), (3, 4)),
    (lambda fd, x, n: fd.ops.full(fd.define_vector([n, 2]), 1.0, DataType.Float), (4, 2)),
    (lambda fd, x, n: fd.ops.expand(fd.ops.sum(x, 0, True), fd.define_vector([n, -1])), (4, 4)),
    (lambda fd, x, n: fd.ops.broadcast_in_dim(x, fd.define_vector([n, 3, -1]), [1, 2]), (4, 3, 4)),
    (lambda fd, x, n: fd.ops.broadcast_in_dim(x, fd.define_vector([3, 4, 1]), [0, 1]), (3, 4, 1)),
    (lambda fd, x, n: fd.ops.uniform(0.0, 1.0, fd.define_vector([n, 2])), (4, 2)),
    (lambda fd, x, n: fd.ops.normal(0.0, 1.0, shape=fd.define_vector([2, n * 2])), (2, 8)),
    (lambda fd, x, n: fd.ops.iota(n * 0.6), (2,)),
]


@pytest.mark.parametrize("case", range(len(VECTORS)))
def test_vectors_and_scalars_are_shapes(case: int) -> None:
    define, shape = VECTORS[case]
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[3, 4])
        fd.add_output(define(fd, x, fd.define_scalar(DataType.Int)))
    given = torch.arange(12.0).reshape(3, 4)
    (out,) = Executor(fd.fusion).execute([given, 4])
    assert out.shape == shape
    assert built(repr(fd)).fusion == fd.fusion
    assert fd.execute([given, 4])[0].shape == shape
    if out.numel() == 12:
        assert torch.equal(out.flatten(), given.flatten())


Reference = Callable[[torch.Tensor, int], torch.Tensor]

RANGES: list[tuple[Callable[[FusionDefinition, Handle, Handle], Handle], Reference]] = [
    (lambda fd, x, n: fd.ops.slice(x, [0, 1], x.shape()), lambda x, n: x[:, 1:]),
    (lambda fd, x, n: fd.ops.slice(x, [n, 0], [9, n]), lambda x, n: x[n:, :n]),
    (
        lambda fd, x, n: fd.ops.slice(
            x, fd.define_vector([n - 1, n]), fd.define_vector([5, x.size(1)]), [1, n]
        ),
        lambda x, n: x[n - 1 :, n::n],
    ),
    (
        lambda fd, x, n: fd.ops.slice(
            *(fd.ops.exp(x), fd.define_vector([0, 1])),
            *(fd.define_vector([2, n * 2]), fd.define_vector([1, 1])),
        ),
        lambda x, n: x.exp()[:2, 1 : 2 * n],
    ),
    (lambda fd, x, n: fd.ops.slice(x, [0, n * 0.5], [n * 1.6, 4]), lambda x, n: x[:3, 1:4]),
    (lambda fd, x, n: fd.ops.pad(x, [n, 1]), lambda x, n: pad(x, [n, 1])),
    (
        lambda fd, x, n: fd.ops.pad(fd.ops.exp(x), [0, 0, 8 - x.size(0), -n], 1.5),
        lambda x, n: pad(x.exp(), [0, 0, 3, -n], value=1.5),
    ),
    (lambda fd, x, n: fd.ops.pad(x, fd.define_vector([-n, 0])), lambda x, n: x[:, n:]),
    (
        lambda fd, x, n: fd.ops.sum(fd.ops.pad(x, [n, n, n, n], 1.0), [1]),
        lambda x, n: pad(x, [n] * 4, value=1.0).sum(1),
    ),
]


@pytest.mark.parametrize("case", range(len(RANGES)))
def test_slices_and_pads_by_scalars(case: int) -> None:
    define, reference = RANGES[case]
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(define(fd, x, fd.define_scalar(DataType.Int)))
    assert built(repr(fd)).fusion == fd.fusion
    executor = Executor(fd.fusion)
    for columns in (6, 7):
        given = torch.randn(5, columns)
        inputs = [given, 2]
        want = reference(given, 2)
        torch.testing.assert_close(fd.execute(inputs)[0], want)
        torch.testing.assert_close(executor.execute(inputs)[0], want)


def test_numbers_that_decide_sizes_are_read_at_each_call() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1])
        start, end, before = fd.define_vector(3)
        fd.add_output(fd.ops.pad(fd.ops.slice(x, [start], [end]), [before, 0]))
    assert {v.name for v in size_inputs(fd.fusion)} == {"S1", "S2", "S3"}
    executor, given = Executor(fd.fusion), torch.arange(6.0)
    for numbers in ([0, 6, 1], [2, 4, 0], [2, 5, 3], [3, 3, 2]):
        (out,) = executor.execute([given, *numbers])
        assert torch.equal(out, pad(given[numbers[0] : numbers[1]], [numbers[2], 0]))
    for numbers in ([3, 2, 0], [-1, 2, 0]):
        for run in (executor.execute, fd.execute):
            with pytest.raises(errors.ArgumentError, match="0 <= start <= end"):
                run([given, *numbers])
    with pytest.raises(errors.ArgumentError, match="cut below 0"):
        executor.execute([given, 0, 2, -3])


def test_a_constant_in_a_shape_is_its_number() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[3, 4])
        with pytest.raises(errors.ViewSizeError, match="T0"):
            fd.ops.reshape(x, fd.define_vector([5, 2]))
        with pytest.raises(errors.ArgumentTypeError, match=r"shape\[0\] must be an int"):
            fd.ops.full([fd.define_scalar(float("inf"))], 0)
        with pytest.raises(errors.ArgumentTypeError, match=r"shape\[0\] must be an int, or a sca"):
            fd.ops.full([fd.define_scalar(True)], 0)
        y = fd.ops.reshape(x, fd.define_vector([2, -1]))
    assert y.value.shape == (2, 6)
    assert "new_shape=[2, -1])" in repr(fd)
