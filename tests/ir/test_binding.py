"""check_inputs: every mistake an input can be, and what is let through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from fuser import DataType, errors
from fuser.ir.binding import check_inputs
from fuser.ir.nodes import Fusion, Value
from fuser.ir.types import Layout, ScalarType, TensorType, ValueType, compute_tensor_descriptor


def fusion(*types: ValueType) -> Fusion:
    return Fusion(tuple(Value(i, type_) for i, type_ in enumerate(types)))


def tensor(
    *shape: int,
    dtype: DataType = DataType.Float,
    layout: Layout | None = None,
    is_cpu: bool = False,
) -> TensorType:
    return TensorType(dtype, shape, layout, is_cpu)


def refusal(types: Sequence[ValueType], inputs: Sequence[object]) -> str:
    with pytest.raises(errors.FuserError) as caught:
        check_inputs(fusion(*types), inputs)  # pyright: ignore[reportArgumentType]
    return f"{type(caught.value).__name__}: {caught.value}"


def accepted(types: Sequence[ValueType], inputs: Sequence[object]) -> None:
    check_inputs(fusion(*types), inputs)  # pyright: ignore[reportArgumentType]


X = torch.ones(3, 4)


def test_count() -> None:
    words = "InputCountError: the definition has 2 input(s), but 1 were given; it takes T0, S1"
    assert refusal([tensor(-1), ScalarType(DataType.Int)], [torch.ones(1)]) == words
    assert "takes none" in refusal([], [X])


def test_kind() -> None:
    scalar = ScalarType(DataType.Double)
    assert refusal([tensor(-1)], [2.0]).startswith(
        "InputKindError: input 0 (T0): expected a strided"
    )
    assert refusal([tensor(-1)], [[1.0]]).endswith("got list [1.0]")
    got = refusal([tensor(-1), scalar], [torch.ones(1), torch.ones(())])
    assert got.startswith("InputKindError: input 1 (S1): expected a number for the Double scalar")
    assert "InputKindError" in refusal([scalar], ["2"])
    assert "InputKindError" in refusal([scalar], [None])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.nested.nested_tensor([torch.eye(3), torch.eye(2)]), "nested"),
        (torch.ones(3, 3, dtype=torch.complex64).conj(), "resolve_conj"),
        (torch._neg_view(torch.ones(3, 3)), "resolve_neg"),
    ],
)
def test_tensors_that_do_not_hold_their_numbers(given: torch.Tensor, words: str) -> None:
    message = refusal([tensor(-1, -1)], [given])
    assert message.startswith("InputKindError")
    assert words in message


def test_dtype() -> None:
    message = refusal([tensor(-1)], [torch.ones(1, dtype=torch.float16)])
    assert message.startswith("InputDtypeError: input 0 (T0): expected dtype Float, got Half;")
    odd = torch.ones(1).to(torch.float8_e4m3fnuz)
    assert "got torch.float8_e4m3fnuz" in refusal([tensor(-1)], [odd])


def test_rank_and_sizes() -> None:
    message = refusal([tensor(-1)], [X])
    assert message == (
        "InputRankError: input 0 (T0): expected 1 dimension(s), got 2 (sizes [3, 4])"
    )
    message = refusal([tensor(-1, 5)], [X])
    assert message.startswith(
        "InputSizeError: input 0 (T0): dimension 1 was defined with size 5, got 4"
    )
    assert "InputSizeError" in refusal([tensor(1, -1)], [X])
    assert "InputSizeError" in refusal([tensor(0, -1)], [X])
    accepted([tensor(-1, 4)], [X])
    accepted([tensor(-1, -1)], [torch.ones(0, 1)])


CONTIGUOUS = Layout((True, True), (1, 0))
TRANSPOSED = Layout((True, True), (0, 1))


@pytest.mark.parametrize(
    ("layout", "given"),
    [
        (CONTIGUOUS, X),
        (TRANSPOSED, X.t()),
        (Layout((False, False), (1, 0)), X.t()),
        (Layout((False, True), (1, 0)), torch.ones(3, 8)[:, :4]),
        (Layout((True, False), (1, 0)), torch.ones(3, 8)[:, ::2]),
        (Layout((None, True), (1, 0)), torch.ones(1, 4).expand(3, 4)),
        (Layout((True, None), (1, 0)), torch.ones(3, 1).expand(3, 4)),
        (Layout((True, None), (1, 0)), torch.ones(3, 1)),
        (CONTIGUOUS, torch.ones(1, 4).expand(1, 4)),
        (CONTIGUOUS, torch.ones(8, 4)[::2][:1]),
        (CONTIGUOUS, torch.ones(0, 8)[:, ::2]),
        (CONTIGUOUS, torch.ones(3, 4, device="meta")),
    ],
)
def test_layouts_that_fit(layout: Layout, given: torch.Tensor) -> None:
    accepted([tensor(-1, -1, layout=layout)], [given])


@pytest.mark.parametrize(
    ("layout", "given"),
    [
        (CONTIGUOUS, X.t()),
        (TRANSPOSED, X),
        (CONTIGUOUS, torch.ones(3, 8)[:, ::2]),
        (CONTIGUOUS, torch.ones(3, 8)[:, :4]),
        (CONTIGUOUS, torch.ones(1, 4).expand(3, 4)),
        (Layout((None, True), (1, 0)), X),
        (Layout((False, None), (1, 0)), X),
    ],
)
def test_layouts_that_do_not_fit(layout: Layout, given: torch.Tensor) -> None:
    message = refusal([tensor(-1, -1, layout=layout)], [given])
    assert message.startswith("InputContiguityError: input 0 (T0): defined with contiguity [")
    assert f"strides {list(given.stride())}: dimension" in message


def test_described_tensors_fit_their_description() -> None:
    base = torch.ones(2, 3, 4, 5)
    for given in (base, base.permute(2, 0, 3, 1), base[:, ::2], base[:1].expand(6, 3, 4, 5)):
        layout = Layout(*compute_tensor_descriptor(given.shape, given.stride()))
        accepted([tensor(*given.shape, layout=layout)], [given])


def test_devices() -> None:
    pair = [tensor(-1), tensor(-1)]
    message = refusal(pair, [torch.ones(1), torch.ones(1, device="meta")])
    assert message == ("InputDeviceError: input 1 (T1): expected device cpu, as input 0, got meta")
    accepted([tensor(), tensor(-1)], [torch.ones(()), torch.ones(1, device="meta")])
    message = refusal([tensor(is_cpu=True)], [torch.ones((), device="meta")])
    assert message == "InputDeviceError: input 0 (T0): expected device cpu, got meta"


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        (DataType.Double, 2),
        (DataType.Double, True),
        (DataType.Float, float("nan")),
        (DataType.Int, 1 << 40),
        (DataType.Int, True),
        (DataType.Int, np.int64(3)),
        (DataType.Float, np.float32(3)),
        (DataType.Bool, False),
        (DataType.Bool, np.bool_(True)),
        (DataType.Int, np.bool_(True)),
        (DataType.ComplexDouble, 2.0),
        (DataType.ComplexFloat, 1j),
    ],
)
def test_scalars_that_fit(dtype: DataType, given: object) -> None:
    accepted([ScalarType(dtype)], [given])


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        (DataType.Double, 1j),
        (DataType.Double, 10**400),
        (DataType.ComplexFloat, -(10**400)),
        (DataType.Int, 2.0),
        (DataType.Int, 1 << 63),
        (DataType.Int32, 1 << 31),
        (DataType.Bool, 1),
    ],
)
def test_scalars_that_do_not_fit(dtype: DataType, given: object) -> None:
    message = refusal([ScalarType(dtype)], [given])
    assert message == (
        f"ScalarInputError: input 0 (S0): {given!r} does not fit the scalar type {dtype.name}"
    )
