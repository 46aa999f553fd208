"""What errors say: the argument, what was given, what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle

Define = Callable[..., object]


def message(define: Define, *shapes: list[int]) -> str:
    """The error of a definition on a Float tensor and an Int tensor."""
    with FusionDefinition() as fd:
        types = (DataType.Float, DataType.Int)
        given = [fd.define_tensor(s, dtype=t) for s, t in zip(shapes, types, strict=False)]
        with pytest.raises(errors.FuserError) as caught:
            define(fd.ops, *given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda o, x: o.sum(x, dims=[1], dim=1), "give it once, as dims or dim"),
        (lambda o, x: o.argmax(x, axes=[1], axis=1), "give it once, as axes or axis"),
        (lambda o, x: o.squeeze(x, dims=[1], dim=1), "give it once, as dims or dim"),
        (lambda o, x: o.gather(x, arg1=x, index=x, dim=0), "give it once, as arg or arg1"),
    ],
)
def test_an_argument_given_twice_is_named_as_it_was_given(define: Define, words: str):
    assert message(define, [4, 1]).endswith(words)


@pytest.mark.parametrize(
    ("operation", "given"), [("gather", ()), ("take_along_axis", ()), ("scatter", (1.0,))]
)
def test_the_dimension_of_an_index_is_not_guessed(operation: str, given: tuple[float, ...]):
    words = message(lambda o, x, i: getattr(o, operation)(x, i, *given), [4], [4])
    assert words == f"{operation}: dim = None: this argument is missing"


def test_no_data_type_is_named_as_it_was_given():
    assert "got DataType.Null" in message(lambda o, x: o.cast(x, DataType.Null), [4])


@pytest.mark.parametrize("mode", ["gather", "take_along_axis", "scatter_add"])
def test_an_index_of_another_rank(mode: str):
    def define(ops: object, x: Handle, i: Handle) -> object:
        args = (x, i, x, 1) if mode == "scatter_add" else (x, i, 1)
        return getattr(ops, mode)(*args)

    assert (
        message(define, [8, 6], [3]) == f"{mode}: index = [3]: expected 2 dimension(s), as T0 has"
    )


def test_an_index_that_does_not_broadcast():
    words = message(lambda o, x, i: o.take_along_axis(x, i, 1), [8, 6], [4, 2])
    expected = "expected the sizes of T0, [8, 6], or 1, beside dimension 1"
    assert words == f"take_along_axis: index = [4, 2]: {expected}"


def test_nothing_is_selected_from_an_empty_dimension():
    words = "select: index S1 is out of range; allowed: none, dimension 1 of T0 is empty"
    assert message(lambda o, x: o.select(x, 0, 1), [8, 0]) == words
    with FusionDefinition() as fd:
        x, at = fd.define_tensor([-1, -1]), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.select(x, at, 1) * 2.0)
    for rows in (4, 0):
        with pytest.raises(errors.IndexOutOfRangeError, match=r"select: .*dimension .*is empty"):
            fd.execute([torch.empty(rows, 0), 0])


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_has_no_largest_element(name: str):
    words = message(lambda o, x: getattr(o, name)(x, [1]), [8, 0])
    expected = f"dimension 1 of T0 is empty: there is no {name} of nothing"
    assert words == f"{name}: dims = [1]: {expected}"


def test_a_range_of_complex_numbers():
    with FusionDefinition() as fd:
        three = fd.define_scalar(3)
        phase = fd.define_scalar(DataType.ComplexFloat)
        with pytest.raises(errors.ArgumentError, match=r"start = Scalar.*S1: ComplexFloat.*a real"):
            fd.ops.iota(three, phase)


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda o, x: o.iota(3, step=0), "step = 0: expected a number that is not 0"),
        (lambda o, x: o.iota(3, 0.5, False, DataType.Float), "step = False: expected a number"),
        (lambda o, x: o.iota(3, math.inf, dtype=DataType.Float), "start = inf: expected a finite"),
        (lambda o, x: o.iota(3, 0, math.nan, DataType.Float), "step = nan: expected a finite"),
    ],
)
def test_a_range_that_is_none(define: Define, words: str):
    assert message(define, [4]).startswith(f"iota: {words}")


def test_a_scalar_may_turn_out_to_be_any_step_as_texts_of_passes_have_them():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.iota(3, fd.define_scalar(5), fd.define_scalar(0)))
    (made,) = fd.execute([])
    assert made.tolist() == [5, 5, 5]


def test_dimensions_squeezed_twice_are_named():
    words = message(lambda o, x: o.squeeze(x, [1, -2]), [4, 1, 1])
    assert words == "squeeze: dims = [1, 1]: expected each dimension at most once"


@pytest.mark.parametrize(
    "define",
    [
        lambda o, x: o.cast(x, torch.float16),
        lambda o, x: o.full([2], 1.0, torch.float16),
        lambda o, x: o.sum(x, torch.float16),
    ],
)
def test_a_type_of_torchs_is_named_as_ours(define: Define):
    words = message(define, [4])
    assert words.endswith(": dtype must be a DataType: DataType.Half, got torch.float16")


def test_the_number_of_a_tensor_is_said_to_be_its_item():
    words = message(lambda o, x: o.mul(x, torch.tensor(2.0)), [4])
    assert words.endswith("declares an input like it, for execute, and tensor.item() is its number")
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]) * fd.define_scalar(DataType.Double))
    with pytest.raises(
        errors.InputKindError, match=r"got a 0-dim tensor; its number is tensor\.it"
    ):
        fd.execute([torch.ones(2), torch.tensor(2.0)])


def test_an_array_is_named_by_its_type_and_shape():
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1, -1]) * 2.0)
    with pytest.raises(errors.InputKindError) as caught:
        fd.execute([np.zeros((3, 4))])  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == (
        "input 0 (T0): expected a strided tensor, got ndarray of shape (3, 4)"
    )


def test_an_array_in_place_of_a_size_is_named():
    with FusionDefinition() as fd:
        rows = fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.full([rows], 0.0, DataType.Float))
    with pytest.raises(errors.InputKindError) as caught:
        fd.execute([np.array([2, 3])])
    got = "expected a number for the Int scalar, got ndarray of shape (2,)"
    assert str(caught.value) == f"input 0 (S0): {got}"
    assert fd.execute([2])[0].shape == (2,)


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda o, x, i: o.full([2], 1j), "full: elements of Float cannot hold it"),
        (lambda o, x, i: o.pad(x, [1, 1], 1j), "pad: elements of Float cannot hold it"),
        (lambda o, x, i: o.scatter(x, i, 1j, 1), "scatter: elements of Float cannot hold it"),
        (lambda o, x, i: o.rand_like(i), "rand_like: computes in floating types (operand"),
        (lambda o, x, i: o.randn_like(i), "randn_like: computes in floating types (operand"),
        (lambda o, x, i: o.pad(x, [2**70, 1]), "pad: pad_widths[0] must be an int of 64 bits"),
    ],
)
def test_numbers_that_do_not_fit(define: Define, words: str):
    assert message(define, [4, 6], [4, 6]).startswith(words)


MADE_OF_OTHERS: list[tuple[str, Define]] = [
    ("view", lambda o, x, y: o.view(x, [5])),
    ("amax", lambda o, x, y: o.amax(x, [0, 0])),
    ("amin", lambda o, x, y: o.amin(x, 2)),
    ("tensor_sizes", lambda o, x, y: o.tensor_sizes(2.5)),
    ("broadcast_in_dim", lambda o, x, y: o.broadcast_in_dim(x, [4, 7], [0, 1])),
    ("broadcast_in_dim", lambda o, x, y: o.broadcast_in_dim(x, [2, 4, 7], [1, 2])),
    ("clamp", lambda o, x, y: o.clamp(x, min=y)),
    ("clamp", lambda o, x, y: o.clamp(x, max=1j)),
    ("rand_like", lambda o, x, y: o.rand_like(o.cast(x, DataType.Float8_e5m2))),
    ("randn_like", lambda o, x, y: o.randn_like(o.cast(x, DataType.Float8_e5m2))),
    ("batch_norm", lambda o, x, y: o.batch_norm(x, y, None, None, None, 0.1, 1e-5, True)),
    ("cummax", lambda o, x, y: o.cummax(o.sum(x), y)),
    ("sum", lambda o, x, y: o.sum(o.sum(x), [y])),
    ("topk", lambda o, x, y: o.topk(o.sum(x), 1, y)),
]


@pytest.mark.parametrize(("name", "define"), MADE_OF_OTHERS)
def test_an_operation_made_of_others_is_named_as_it_was_called(name: str, define: Define):
    words = message(define, [4, 6], [3, 5])
    assert words.startswith(f"{name}: ")
