"""fd.ops: random numbers, their seeds and offsets, and what is refused."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations
from fuser.ir.interpret import interpret
from tests.definitions import Define, built, defined_by_ops

X = torch.arange(12.0).reshape(3, 4)


def defined(define: Define, x: torch.Tensor = X) -> FusionDefinition:
    return defined_by_ops(define, x)


def test_they_have_the_shape_and_range() -> None:
    fd = defined(
        lambda o, x: (
            o.uniform(2.0, 3.0, shape=[50, o.size(x, 0)], dtype=DataType.Double),
            o.normal(5.0, 0.5, [1000]),
            o.rand_like(x),
            o.randn_like(o.cast(x, DataType.BFloat16)),
        )
    )
    torch.manual_seed(0)
    uniform, normal, like, normal_like = fd.execute([X])
    assert uniform.dtype is torch.float64
    assert uniform.shape == (50, 3)
    assert 2 <= uniform.min() <= uniform.max() < 3
    assert abs(normal.mean() - 5) < 0.1
    assert like.shape == normal_like.shape == X.shape
    assert normal_like.dtype is torch.bfloat16


def test_each_operation_and_execution_has_its_own_numbers() -> None:
    fd = defined(lambda o, x: (o.rand_like(x), o.rand_like(x)))
    torch.manual_seed(4)
    numbers = [out for _ in range(2) for out in fd.execute([X])]
    assert torch.cat(numbers).unique().numel() == 4 * X.numel()
    torch.manual_seed(4)
    assert all(map(torch.equal, fd.execute([X]), numbers[:2]))


def test_one_seed_and_offset_give_one_tensor() -> None:
    fd = defined(
        lambda o, x: (
            o.rand_like(x, rng_seed=3, rng_offset=1),
            o.uniform(0, 1, [12], rng_seed=3, rng_offset=1),
            o.rand_like(x, rng_seed=3, rng_offset=2),
        )
    )
    first, flat, other = fd.execute([X])
    assert torch.equal(first.flatten(), flat)
    assert not torch.isclose(first, other).any()


def test_seed_and_offset_may_be_inputs() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X)
        seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.randn_like(x, rng_seed=seed, rng_offset=offset + 1))
    runs = [fd.execute([X, seed, 2])[0] for seed in (1, 1, -(2**63), 2**63 - 1)]
    assert torch.equal(runs[0], runs[1])
    assert len({tuple(run.flatten().tolist()) for run in runs}) == 3


def test_the_state_of_the_generator_can_be_shared_and_stored() -> None:
    def define(o: Operations, x: Handle) -> tuple[Handle, ...]:
        seed, offset = o.generator_state()
        numbers = o.rand_like(x, rng_seed=seed, rng_offset=offset)
        stored = [o.full([], word, DataType.Int) for word in (seed, offset)]
        return numbers, o.rand_like(x, rng_seed=seed, rng_offset=offset), *stored

    first, second, seed, offset = defined(define).execute([X])
    assert torch.equal(first, second)
    state = {"rng_seed": seed.item(), "rng_offset": offset.item()}
    (again,) = defined(lambda o, x: o.rand_like(x, **state)).execute([X])
    assert torch.equal(again, first)


def test_definitions_round_trip() -> None:
    fd = defined(
        lambda o, x: (
            o.randn_like(x),
            o.rand_like(x, rng_seed=3, rng_offset=1),
            o.uniform(-1, 2.5, [3], dtype=DataType.Half),
        )
    )
    assert built(repr(fd)).fusion == fd.fusion
    assert repr(fd).count("generator_state()") == 2
    torch.manual_seed(2)
    want = interpret(fd.fusion, [X])
    torch.manual_seed(2)
    for got, expected in zip(interpret(built(repr(fd)).fusion, [X]), want, strict=True):
        assert torch.equal(got, expected)


REFUSED: list[tuple[Define, type[errors.FuserError], str]] = [
    (lambda o, x: o.rand_like(x, rng_seed=1), errors.ArgumentError, "rand_like: rng_offset"),
    (lambda o, x: o.normal(0, 1, [2], rng_offset=1), errors.ArgumentError, "normal: rng_seed"),
    (
        lambda o, x: o.uniform(0, 1, [2], rng_seed=1.5, rng_offset=0),
        errors.OperandDtypeError,
        "must be Int",
    ),
    (lambda o, x: o.randn_like(x, rng_seed=x, rng_offset=0), errors.ArgumentTypeError, "rng_seed"),
    (lambda o, x: o.uniform(2, 1.5, [2]), errors.ArgumentError, "minval"),
    (lambda o, x: o.uniform(0, float("nan"), [2]), errors.ArgumentError, "minval"),
    (lambda o, x: o.normal(0, -1.0, [2]), errors.ArgumentError, "std"),
    (lambda o, x: o.uniform(x, 1.5, [2]), errors.ArgumentTypeError, "minval"),
    (lambda o, x: o.normal(0, 1j, [2]), errors.OperandDtypeError, "real"),
    (lambda o, x: o.rand_like(o.cast(x, DataType.Int)), errors.OperandDtypeError, "floating"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case: int) -> None:
    define, kind, words = REFUSED[case]
    with FusionDefinition() as fd:
        x = fd.from_pytorch(X)
        with pytest.raises(kind, match=words):
            define(fd.ops, x)
