"""Runtime scalars, vectors and sizes in every place that takes one, as the oracle has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from tests.definitions import agrees

TARGETS = pytest.mark.parametrize("target", ["cpu", "emulator"])
Build = Callable[..., Handle | list[Handle]]

NUMBERS: dict[DataType, complex] = {
    DataType.Double: 0.1,
    DataType.Float: 0.1,
    DataType.Half: 0.1,
    DataType.BFloat16: 0.1,
    DataType.Int: -(1 << 40),
    DataType.Int32: -(1 << 30),
    DataType.Int16: -300,
    DataType.Int8: -3,
    DataType.UInt8: 200,
    DataType.Bool: True,
    DataType.ComplexFloat: 0.1 - 2j,
    DataType.ComplexDouble: 0.1 + 2j,
}
TENSORS = {
    dtype: (torch.arange(-12, 12) / 4).reshape(4, 6).to(dtype.torch)
    for dtype in (DataType.Float, DataType.Half, DataType.Double, DataType.Int32, DataType.Bool)
} | {DataType.ComplexFloat: torch.randn(4, 6, dtype=torch.complex64)}


def run(
    build: Build, given: list[object], dtypes: list[DataType], target: str
) -> list[torch.Tensor]:
    """What is built from handles of the inputs: tensors, or scalars of `dtypes`."""
    scalars = iter(dtypes)
    with FusionDefinition() as fd:
        handles = [
            fd.from_pytorch(x) if isinstance(x, torch.Tensor) else fd.define_scalar(next(scalars))
            for x in given
        ]
        made = build(fd, *handles)
        for out in made if isinstance(made, list) else [made]:
            fd.add_output(out)
    return agrees(fd, given, target)  # pyright: ignore[reportArgumentType]


# -- runtime scalars -----------------------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("scalar", NUMBERS, ids=lambda dtype: dtype.name)
def test_arithmetic_of_tensors_of_every_type_and_a_scalar(scalar: DataType, target: str):
    def build(fd: FusionDefinition, s: Handle, *tensors: Handle) -> list[Handle]:
        chosen = [fd.ops.where(fd.ops.ne(t, s), s, t) for t in tensors]
        return [*(t + s for t in tensors), *(s * t for t in tensors), *chosen]

    run(build, [NUMBERS[scalar], *TENSORS.values()], [scalar], target)


@TARGETS
@pytest.mark.parametrize("scalar", NUMBERS, ids=lambda dtype: dtype.name)
def test_tensors_made_of_a_scalar(scalar: DataType, target: str):
    def build(fd: FusionDefinition, s: Handle) -> list[Handle]:
        real = () if scalar.is_complex else (DataType.Float, DataType.Double)
        made = [fd.ops.full([5], s, dtype) for dtype in (scalar, *real)]
        return [*made, fd.ops.full([], fd.ops.cast(s, DataType.Float), DataType.Float)]

    run(build, [NUMBERS[scalar]], [scalar], target)


@TARGETS
@pytest.mark.parametrize(
    "scalar", [d for d in NUMBERS if not d.is_complex and d is not DataType.Bool], ids=str
)
def test_counting_from_a_scalar_in_steps_of_one(scalar: DataType, target: str):
    small = 3 if scalar.is_integral else 0.25
    run(
        lambda fd, s: [fd.ops.iota(7, s, 2, scalar), fd.ops.iota(7, 1, s, scalar)],
        [small],
        [scalar],
        target,
    )


@TARGETS
@pytest.mark.parametrize("scalar", NUMBERS, ids=lambda dtype: dtype.name)
def test_scalars_are_computed_with(scalar: DataType, target: str):
    def build(fd: FusionDefinition, t: Handle, s: Handle, n: Handle) -> list[Handle]:
        some = fd.ops.add(fd.ops.mul(s, 2), n)
        return [t * some, t + fd.ops.cast(some, DataType.Float), t * fd.ops.truediv(n, 3)]

    run(build, [TENSORS[DataType.Float], NUMBERS[scalar], 5], [scalar, DataType.Int], target)


@TARGETS
@pytest.mark.parametrize("scalar", [d for d in NUMBERS if not d.is_complex], ids=lambda d: d.name)
def test_scalars_in_rows(scalar: DataType, target: str):
    def build(fd: FusionDefinition, t: Handle, s: Handle) -> list[Handle]:
        total = fd.ops.sum(t * s, [1], keepdim=True)
        return [total + s, fd.ops.max(fd.ops.where(t > s, t, s), [1]), t - total * s]

    number = NUMBERS[scalar] if not scalar.is_integral or scalar is DataType.Bool else 3
    run(build, [TENSORS[DataType.Float], number], [scalar], target)


@TARGETS
@pytest.mark.parametrize(
    "scalar", [DataType.Double, DataType.Float, DataType.Half, DataType.BFloat16], ids=str
)
def test_numbers_that_few_types_hold(scalar: DataType, target: str):
    with FusionDefinition() as fd:
        t, s = fd.define_tensor(shape=[-1]), fd.define_scalar(scalar)
        for out in (t * s, t - s, fd.ops.full([2], s, scalar), fd.ops.atan2(t, s)):
            fd.add_output(out)
    x = torch.tensor([0.0, -1.5, math.inf, math.nan])
    for number in (math.inf, -math.inf, math.nan, -0.0, 1e300, 5e-324, 10**30):
        agrees(fd, [x, number], target)


@TARGETS
@pytest.mark.parametrize("number", [torch.iinfo(torch.int64).max, torch.iinfo(torch.int64).min])
def test_the_largest_integers(number: int, target: str):
    x = torch.tensor([0, 1, -1])
    run(
        lambda fd, t, s: [t + s, fd.ops.full([2], s, DataType.Int)],
        [x, number],
        [DataType.Int],
        target,
    )


@TARGETS
def test_another_number_takes_no_other_plan(target: str):
    with FusionDefinition() as fd:
        t, s = fd.define_tensor(shape=[-1]), fd.define_scalar(DataType.Double)
        fd.add_output(t * s)
    x = torch.ones(3)
    assert [fd.execute([x, n], target=target)[0][0].item() for n in (2.0, 3, -1.5, True)] == [
        *(2.0, 3.0, -1.5, 1.0)
    ]


@TARGETS
def test_a_fusion_of_many_scalars_keeps_their_order(target: str):
    with FusionDefinition() as fd:
        scalars = [fd.define_scalar(dtype) for dtype in NUMBERS]
        t = fd.define_tensor(shape=[-1], dtype=DataType.ComplexDouble)
        for s in reversed(scalars):
            t = t * 0.5 + s
        fd.add_output(t)
    agrees(fd, [*NUMBERS.values(), torch.randn(3, dtype=torch.complex128)], target)


# -- vectors -------------------------------------------------------------------------------------


@TARGETS
@pytest.mark.parametrize("shape", [[6], [2, 3], [1, 6, 1], [0, 2]])
def test_a_vector_is_a_shape(shape: list[int], target: str):
    with FusionDefinition() as fd:
        sizes = fd.define_vector(len(shape))
        t = fd.define_tensor(shape=[-1])
        made = fd.ops.reshape(fd.ops.exp(t), sizes)
        fd.add_output(made)
        fd.add_output(made + fd.ops.full(sizes, 0.5, DataType.Float))
    x = torch.randn(math.prod(shape))
    results = fd.execute([shape, x], target=target)
    assert [list(result.shape) for result in results] == [shape, shape]
    agrees(fd, [*shape, x], target)


@TARGETS
def test_a_vectors_numbers_are_computed_with(target: str):
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        a, b = fd.define_vector(2)
        two, three = fd.define_vector([2, 3])
        fd.add_output(t * a + fd.ops.mul(b, two) - three)
    agrees(fd, [torch.randn(5), 4, -7], target)


# -- sizes ---------------------------------------------------------------------------------------


def shapes_of_sizes(fd: FusionDefinition, t: Handle) -> list[Handle]:
    rows, columns = t.shape()
    flat = fd.ops.mul(rows, columns)
    half = fd.ops.div(columns, 2)
    return [
        fd.ops.reshape(fd.ops.exp(t), [flat]),
        fd.ops.reshape(fd.ops.exp(t), [rows, 2, half]),
        fd.ops.exp(fd.ops.reshape(t, [columns, rows])),
        fd.ops.full([fd.ops.size(t, 1), rows], 0.25, DataType.Float) * 2.0,
        fd.ops.iota(fd.ops.add(rows, 1), 0, 1, DataType.Int) * 2,
        fd.ops.expand(fd.ops.sum(t, [0], keepdim=True), [rows, columns]) + 1.0,
        fd.ops.broadcast_in_dim(fd.ops.sum(t, [1]), [rows, columns], [0]) * t,
    ]


@TARGETS
def test_shapes_made_of_sizes(target: str):
    with FusionDefinition() as fd:
        for out in shapes_of_sizes(fd, fd.define_tensor(shape=[-1, -1], contiguity=True)):
            fd.add_output(out)
    for shape in ((4, 6), (1, 2), (5, 2), (3, 0), (0, 4)):
        agrees(fd, [torch.randn(shape)], target)


@TARGETS
def test_sizes_as_numbers(target: str):
    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        rows, columns = fd.ops.shape(t)
        mean = fd.ops.sum(t, [1], keepdim=True) / columns
        return [t - mean, t * rows, fd.ops.where(fd.ops.gt(rows, columns), t, 0.5), t + rows % 3]

    for shape in ((4, 6), (7, 3)):
        run(build, [torch.randn(shape)], [], target)


@TARGETS
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_sizes_as_numbers_of_every_type(dtype: DataType, target: str):
    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        rows = fd.ops.cast(fd.ops.size(t, 0), dtype)
        chosen = fd.ops.where(fd.ops.eq(t, rows), t, rows)
        return [chosen, fd.ops.mul(t, rows), *([] if dtype.is_complex else [extreme(fd, t, rows)])]

    def extreme(fd: FusionDefinition, t: Handle, rows: Handle) -> Handle:
        return fd.ops.maximum(t, fd.ops.minimum(rows, t))

    run(build, [(torch.arange(24) - 3).reshape(4, 6).to(dtype.torch)], [], target)


@TARGETS
def test_lengths_from_runtime_scalars(target: str):
    with FusionDefinition() as fd:
        n = fd.define_scalar(DataType.Int)
        m = fd.define_scalar(DataType.Int32)
        counted = fd.ops.iota(n, 3, 2, DataType.Float)
        fd.add_output(counted * 0.5)
        fd.add_output(fd.ops.full([n, m], n, DataType.Int) + m)
        fd.add_output(fd.ops.full([fd.ops.add(n, m)], 1.5, DataType.Half))
    for n, m in ((5, 3), (1, 1), (0, 4), (64, 2)):
        agrees(fd, [n, m], target)


@TARGETS
def test_sizes_of_what_is_computed(target: str):
    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        y = fd.ops.slice(fd.ops.exp(t), [1, 0], [3, 5])
        rows, columns = y.shape()
        return [fd.ops.reshape(y, [fd.ops.mul(rows, columns)]), fd.ops.iota(rows) + columns]

    run(build, [torch.randn(4, 6)], [], target)


# -- tensors of no dimensions, and none at all ---------------------------------------------------


@TARGETS
@pytest.mark.parametrize("tensor", TENSORS, ids=lambda dtype: dtype.name)
def test_a_tensor_beside_some_of_no_dimensions(tensor: DataType, target: str):
    with FusionDefinition() as fd:
        t = fd.from_pytorch(TENSORS[tensor])
        for dtype in TENSORS:
            zero = fd.define_tensor(shape=[], dtype=dtype, is_cpu=True)
            fd.add_output(t + zero)
            fd.add_output(fd.ops.where(fd.ops.ne(zero, 0), zero, t))
            fd.add_output(fd.ops.mul(zero, zero))
    agrees(fd, [TENSORS[tensor], *(x[0, 1].clone() for x in TENSORS.values())], target)


@TARGETS
def test_only_tensors_of_no_dimensions(target: str):
    def build(fd: FusionDefinition, x: Handle, y: Handle) -> list[Handle]:
        return [x * y, fd.ops.sum(x), fd.ops.broadcast(fd.ops.exp(x), [True, True])]

    run(build, [torch.tensor(0.5), torch.tensor(3)], [], target)


@TARGETS
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), None])
def test_scalars_only(device: object, target: str):
    with FusionDefinition() as fd:
        s, n = fd.define_scalar(DataType.Double), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.full([4, n], s, DataType.Float) * fd.ops.iota(n, 0, 1, DataType.Int))
    (got,) = fd.execute([0.5, 3], target=target, device=device)  # pyright: ignore[reportArgumentType]
    assert torch.equal(got, torch.tensor([[0, 0.5, 1.0]] * 4))


@TARGETS
def test_no_inputs_at_all(target: str):
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.iota(4, 1, 2, DataType.Int) * 3)
    assert fd.execute([], target=target, device="cpu")[0].tolist() == [3, 9, 15, 21]


# -- wrong uses ----------------------------------------------------------------------------------


def of_a_vector(fd: FusionDefinition) -> None:
    sizes = fd.define_vector(2)
    fd.add_output(fd.ops.reshape(fd.define_tensor(shape=[-1]), sizes))


def of_a_length(fd: FusionDefinition) -> None:
    fd.add_output(fd.ops.full([fd.define_scalar(DataType.Int)], 1.0, DataType.Float))


def of_a_count(fd: FusionDefinition) -> None:
    fd.add_output(fd.ops.iota(fd.define_scalar(DataType.Int)))


X = torch.arange(6.0)


@pytest.mark.parametrize(
    ("build", "inputs", "error", "words"),
    [
        (of_a_vector, [[2], X], errors.InputCountError, "3 input.* but 2 were given; .*S0, S1, T2"),
        (of_a_vector, [X, [2, 3]], errors.InputKindError, r"input 0 \(S0\): expected a number"),
        (of_a_vector, [[2, 3.5], X], errors.ScalarInputError, r"input 1 \(S1\): 3.5 .* Int"),
        (of_a_vector, [[2, "3"], X], errors.InputKindError, r"input 1 \(S1\): .* got str '3'"),
        (of_a_vector, [[2, 4], X], errors.ViewSizeError, r"T2 of sizes \[6\].* \[2, 4\]"),
        (of_a_vector, [2, 3, 4.0], errors.InputKindError, r"input 2 \(T2\): expected a strided"),
        (of_a_length, [-1], errors.ArgumentError, r"full: shape = \[-1\]"),
        (of_a_count, [-4], errors.ArgumentError, r"iota: length = \[-4\]: sizes are 0 or more"),
        (of_a_length, [2.0], errors.ScalarInputError, "2.0 does not fit the scalar type Int"),
        (of_a_length, [torch.tensor(2)], errors.InputKindError, "expected a number for the Int"),
    ],
)
def test_a_wrong_input_is_named_by_position(
    build: Callable[..., None], inputs: list[object], error: type[errors.FuserError], words: str
):
    with FusionDefinition() as fd:
        build(fd)
    for target in ("cpu", "emulator"):
        with pytest.raises(error, match=words):
            fd.execute(inputs, target=target)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("inputs", "device", "error", "words"),
    [
        ([X], "cuda:0", errors.ArgumentError, "device = 'cuda:0': the inputs are on cpu"),
        ([X], 1, errors.ArgumentError, "device = 'cuda:1': the inputs are on cpu"),
        ([X], "wibble", errors.ArgumentError, "device = 'wibble': torch knows no such device"),
        ([X], 2.5, errors.ArgumentError, "device = 2.5: torch knows no such device"),
        ([torch.tensor(1.0)], "meta", errors.TargetError, "meta tensors hold no data"),
    ],
)
def test_a_wrong_device_is_named(
    inputs: list[torch.Tensor], device: object, error: type[errors.FuserError], words: str
):
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(inputs[0]) * 2.0)
    with pytest.raises(error, match=words):
        fd.execute(inputs, device=device)  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a device that is not there")
def test_a_device_that_is_not_there_is_named():
    with FusionDefinition() as fd:
        of_a_length(fd)
    for device in ("cuda", 0):
        with pytest.raises(errors.TargetError, match="torch sees no CUDA device"):
            fd.execute([3], device=device)


@TARGETS
def test_numbers_of_numpy_are_numbers(target: str):
    with FusionDefinition() as fd:
        s, n = fd.define_scalar(DataType.Float), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.full([n], s, DataType.Float) * n)
    (got,) = fd.execute([np.float32(0.5), np.int64(3)], target=target)  # pyright: ignore[reportArgumentType]
    assert got.tolist() == [1.5, 1.5, 1.5]


@TARGETS
def test_truth_values_of_numpy_choose(target: str):
    with FusionDefinition() as fd:
        t, s, n = fd.define_tensor(shape=[-1]), *fd.define_vector(2)
        fd.add_output(fd.ops.where(fd.ops.cast(s, DataType.Bool), t, 2.0) + n)
        s = fd.define_scalar(DataType.Bool)
        fd.add_output(fd.ops.where(s, t, 2.0))
    for chosen in (np.bool_(True), np.bool_(False), True):
        given = [torch.ones(2), [chosen, np.int64(1)], chosen]
        added, got = fd.execute(given, target=target)  # pyright: ignore[reportArgumentType]
        assert got.tolist() == [1.0 if chosen else 2.0] * 2
        assert torch.equal(added, got + 1)
