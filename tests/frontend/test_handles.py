"""Handles: operators with handles and literals, introspection, and what they refuse."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, Scalar, Tensor, TensorView, errors

BINARY = [
    (operator.add, "add"),
    (operator.sub, "sub"),
    (operator.mul, "mul"),
    (operator.truediv, "truediv"),
    (operator.floordiv, "floor_divide"),
    (operator.mod, "remainder"),
    (operator.pow, "pow"),
    (operator.eq, "eq"),
    (operator.ne, "ne"),
    (operator.lt, "lt"),
    (operator.le, "le"),
    (operator.gt, "gt"),
    (operator.ge, "ge"),
]
BITWISE = [
    (operator.and_, "bitwise_and"),
    (operator.or_, "bitwise_or"),
    (operator.xor, "bitwise_xor"),
    (operator.lshift, "bitwise_left_shift"),
    (operator.rshift, "bitwise_right_shift"),
]


@pytest.mark.parametrize(("apply", "name"), [*BINARY, *BITWISE])
@pytest.mark.parametrize("form", ["handles", "right literal", "left literal"])
def test_operators_mean_what_torch_means(
    apply: Callable[[object, object], object], name: str, form: str
) -> None:
    x, y = torch.tensor([1, 2, 5, 7]), torch.tensor([3, 2, 1, 4])
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        left, right = (a, b) if form == "handles" else (a, 3) if "right" in form else (3, a)
        fd.add_output(apply(left, right))  # pyright: ignore[reportArgumentType]
    left, right = (x, y) if form == "handles" else (x, 3) if "right" in form else (3, x)
    (out,) = fd.execute([x, y])
    torch.testing.assert_close(out, apply(left, right))
    if form == "handles":
        assert f"fd.ops.{name}(T0, T1)" in repr(fd)


def test_unary_operators() -> None:
    x = torch.tensor([1, -2, 3])
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        for out in (-a, abs(a), ~a):
            fd.add_output(out)
    for out, expected in zip(fd.execute([x]), (-x, abs(x), ~x), strict=True):
        assert torch.equal(out, expected)


def test_division_of_integers_is_true_division() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1], dtype=DataType.Int)
        assert (a / 2).dtype() is DataType.Float
        assert fd.ops.div(a, 2).dtype() is DataType.Int


def test_scalars_make_scalars_and_tensors_make_tensors() -> None:
    with FusionDefinition() as fd:
        s, t = fd.define_scalar(), fd.define_tensor(shape=[-1, 3])
        assert repr(s * 2 + s) == "Scalar(S4: Double)"
        assert repr(s * t) == "Tensor(T5: Float[-1, 3])"
        assert (t.name, s.name) == ("T1", "S0")


def test_numpy_scalars_on_the_left_defer() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        assert repr(np.float64(2.0) * t) == "Tensor(T2: Float[-1])"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.complex64(2j), 2j),
    ],
)
def test_numbers_of_numpy_are_literals(given: Any, meant: complex) -> None:
    def defined(number: Any) -> str:
        with FusionDefinition() as fd:
            t = fd.define_tensor(shape=[-1], dtype=DataType.ComplexFloat)
            fd.add_output(fd.ops.where(np.bool_(True), t * number, number * t))
            fd.add_output(t + fd.define_scalar(number))
        return repr(fd)

    assert defined(given) == defined(meant)


@pytest.mark.parametrize("given", [np.float32("inf"), np.float64("nan")])
def test_ranges_have_numbers_of_numpy_that_are_finite(given: Any) -> None:
    with pytest.raises(errors.ArgumentError, match="a finite number"), FusionDefinition() as fd:
        fd.ops.iota(3, given, dtype=DataType.Float)


def test_introspection() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, 3], dtype=DataType.Half)
        assert t.ndim == 2
        assert t.dtype() is DataType.Half
        sizes = t.shape()
        last = t.size(-1)
        assert [size.dtype() for size in (*sizes, last)] == [DataType.Int] * 3
        with pytest.raises(errors.DimensionError):
            t.size(2)
        with pytest.raises(errors.ArgumentTypeError, match="a tensor"):
            last.size(0)
        with pytest.raises(errors.ArgumentTypeError):
            t.size("0")  # pyright: ignore[reportArgumentType]
        assert fd.define_scalar().ndim == 0
        assert t.is_tensor()
        assert not last.is_tensor()
    assert "S3 = fd.ops.size(T0, dim=1)" in repr(fd)


def test_only_constants_are_not_symbolic() -> None:
    with FusionDefinition() as fd:
        t, s = fd.define_tensor(shape=[4]), fd.define_scalar()
        for handle in (t, s, s + 1, t.size(0), fd.define_vector(1)[0], fd.ops.mul(t, 2.0)):
            assert handle.is_symbolic()
        for constant in (fd.define_scalar(0), fd.define_constant(False), fd.define_vector([3])[0]):
            assert not constant.is_symbolic()
        fd.add_output(t)
    assert fd.inputs()[0].is_symbolic()


def test_handles_have_classes_for_annotations() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[])
        assert isinstance(t, Tensor)
        assert TensorView is Tensor
        assert isinstance(fd.ops.neg(t), TensorView)
        assert isinstance(fd.define_scalar(2.0), Scalar)
        assert not isinstance(t, Scalar)


def test_handles_have_no_truth_value() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        with pytest.raises(errors.HandleTruthError, match="T1 has no value"):
            _ = 1 if t == t else 0
        with pytest.raises(TypeError):
            _ = t in [fd.define_scalar()]
        with pytest.raises(errors.HandleTruthError):
            list(t)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownArgumentType]
        with pytest.raises(errors.HandleTruthError, match=r"indexed .*; use .*fd\.ops\.select"):
            _ = t[0]
        with pytest.raises(errors.HandleTruthError):
            _ = 1 in t  # pyright: ignore[reportOperatorIssue]


def test_tensors_of_torch_are_not_operands() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        for call in (lambda: t + torch.ones(3), lambda: fd.ops.sum(torch.ones(3), [0])):  # pyright: ignore[reportArgumentType, reportOperatorIssue]
            with pytest.raises(errors.ArgumentTypeError, match=r"torch\.Tensor; fd\.from_pytorch"):
                call()


@pytest.mark.parametrize("convert", [len, int, float, complex, range, operator.index])
def test_handles_are_no_numbers(convert: Callable[[Any], object]) -> None:
    with FusionDefinition() as fd:
        size = fd.define_tensor(shape=[-1]).size(0)
        with pytest.raises(errors.HandleTruthError, match=r"made a number .* define_tensor"):
            convert(size)


def test_operators_of_one_operand_and_of_matrices() -> None:
    x = torch.randn(3, 3) * 3
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        assert +t is t
        fd.add_output(round(t))
        with pytest.raises(errors.HandleOperatorError, match=r"@ is no .*fd\.ops\.matmul\(a, b\)"):
            _ = t @ t
        with pytest.raises(errors.HandleOperatorError):
            _ = x @ t
    assert torch.equal(fd.execute([x])[0], x.round())


def test_handles_are_hashable_by_identity() -> None:
    with FusionDefinition() as fd:
        t, u = fd.define_tensor(shape=[-1]), fd.define_tensor(shape=[-1])
        assert {t: 1, u: 2}[u] == 2


@pytest.mark.parametrize("wrong", ["a", None, [1], torch.ones(1), object()])
def test_operands_of_other_types_are_refused(wrong: object) -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        with pytest.raises(TypeError):
            _ = t + wrong  # pyright: ignore[reportOperatorIssue]
        with pytest.raises(errors.ArgumentTypeError, match="operand 1"):
            _ = t == wrong


def test_functions_of_torch_say_where_operations_are() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        with pytest.raises(errors.HandleInTorchError, match=r"torch's exp .*: fd\.ops\.exp$"):
            torch.exp(t)  # pyright: ignore
        with pytest.raises(errors.HandleInTorchError, match=r"torch's cat .* in fd\.ops$"):
            torch.cat([t, t])  # pyright: ignore
        for apply in (lambda x: x + t, lambda x: t + x, lambda x: x < t):
            with pytest.raises(errors.ArgumentTypeError, match=r"operand \d must be a tensor"):
                apply(torch.ones(3))
        assert isinstance(np.float32(1) + t, Tensor)
