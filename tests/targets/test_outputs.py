"""Outputs that are inputs, that are each other, and that share memory with either."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, agrees, defined

TARGETS = pytest.mark.parametrize("target", ["cpu", "emulator"])


def shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def run(define: Define, *inputs: torch.Tensor, target: str) -> list[torch.Tensor]:
    return agrees(defined(define, *inputs), inputs, target)


INPUTS = {
    "contiguous": torch.randn(4, 6),
    "permuted": torch.randn(6, 4).t(),
    "with gaps": torch.randn(4, 9)[:, ::2],
    "no dimensions": torch.tensor(3.0),
    "empty": torch.randn(0, 3),
    "expanded": torch.randn(1, 6).expand(4, 6),
    "integer": torch.arange(6),
    "needing a gradient": torch.randn(3, requires_grad=True),
}


@TARGETS
@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_is_handed_out_as_it_lies(kind: str, target: str):
    x = INPUTS[kind]
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x))
    (got,) = fd.execute([x], target=target)
    assert torch.equal(got, x)
    assert shares(got, x)
    assert got.stride() == x.stride()
    assert not got.requires_grad


@TARGETS
def test_inputs_beside_what_is_computed(target: str):
    x, y = torch.randn(4, 6), torch.arange(3)
    first, second, third = run(lambda fd, a, b: [b, fd.ops.exp(a), a], x, y, target=target)
    assert shares(first, y)
    assert shares(third, x)
    assert not shares(second, x)


@TARGETS
def test_one_value_twice(target: str):
    x = torch.randn(4, 6)

    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        y = fd.ops.exp(t)
        return [y, t, y, t, fd.ops.sum(y), y]

    results = run(build, x, target=target)
    assert len(results) == 6
    assert shares(results[0], results[2])


@TARGETS
def test_aliases_of_inputs_and_of_outputs(target: str):
    x = torch.randn(4, 6)

    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        y = fd.ops.exp(t)
        flat = fd.ops.reshape(y, [24])
        return [
            fd.ops.permute(t, [1, 0]),
            fd.ops.reshape(t, [2, 12]),
            y,
            flat,
            fd.ops.permute(y, [1, 0]),
            fd.ops.reshape(flat, [3, 8]),
            fd.ops.broadcast(t, [False, True, False]),
        ]

    turned, seen, made, flat, back, again, more = run(build, x, target=target)
    assert all(shares(alias, x) for alias in (turned, seen, more))
    assert all(shares(alias, made) for alias in (flat, back, again))


@TARGETS
def test_an_alias_without_the_output_it_is_of(target: str):
    x = torch.randn(4, 6)

    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        y = fd.ops.exp(t)
        return [fd.ops.reshape(y, [24]), fd.ops.permute(y, [1, 0])]

    run(build, x, target=target)


@TARGETS
def test_an_alias_of_an_output_that_is_read_on(target: str):
    x = torch.randn(4, 6)

    def build(fd: FusionDefinition, t: Handle) -> list[Handle]:
        y = fd.ops.sum(fd.ops.exp(t), [0])
        seen = fd.ops.reshape(y, [2, 3])
        return [seen, fd.ops.reshape(fd.ops.exp(seen), [6]), y, fd.ops.cumsum(y, 0)]

    run(build, x, target=target)


@TARGETS
def test_equal_values_under_two_names(target: str):
    x = torch.randn(4, 6)
    run(lambda fd, t: [fd.ops.exp(t), fd.ops.exp(t), fd.ops.set(t)], x, target=target)


@TARGETS
def test_a_copy_of_an_input_is_no_alias(target: str):
    x = torch.randn(4, 6)
    copied, seen = run(
        lambda fd, t: [fd.ops.set(t), fd.ops.set(fd.ops.permute(t, [1, 0]))], x, target=target
    )
    assert torch.equal(seen.t(), copied)


@TARGETS
def test_an_input_that_is_updated_is_returned_as_it_is_then(target: str):
    x = torch.arange(4.0)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        doubled = t * 2.0
        fd.add_output(doubled, alias_input=t)
        fd.add_output(doubled)
        fd.add_output(t)
    new, given = fd.execute([x], target=target)
    assert x.tolist() == [0, 2, 4, 6]
    assert new.data_ptr() == given.data_ptr() == x.data_ptr()


@TARGETS
def test_constants_are_outputs(target: str):
    with FusionDefinition() as fd:
        fd.define_tensor(shape=[-1])
        ones = fd.ops.full([2, 3], 1, DataType.Int)
        fd.add_output(ones)
        fd.add_output(fd.ops.expand(fd.ops.full([1], 2.0, DataType.Half), [5]))
        fd.add_output(ones)
    agrees(fd, [torch.randn(3)], target)


@TARGETS
@pytest.mark.parametrize("place", [2, -1])
def test_what_is_made_of_a_selected_place_lies_as_in_torch(place: int, target: str):
    x = torch.randn(5, 6, 7).permute(2, 1, 0)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        picked = fd.ops.select(t, fd.define_scalar(None, dtype=DataType.Int), dim=1)
        fd.add_output(fd.ops.mul(picked, 2.0))
        fd.add_output(fd.ops.mul(fd.ops.permute(picked, dims=[1, 0]), 2.0))
    there = x.select(1, place)
    for got, expected in zip(
        agrees(fd, [x, place], target), [there * 2, there.t() * 2], strict=True
    ):
        assert got.stride() == expected.stride()


@TARGETS
def test_many_outputs_of_which_some_are_the_same_for_all_points(target: str):
    x, *rows = (torch.randn(length) for length in (4, *[1] * 9))

    def build(fd: FusionDefinition, t: Handle, *given: Handle) -> list[Handle]:
        same = (fd.ops.set(fd.ops.expand(fd.ops.sigmoid(one), [4])) for one in given)
        return [fd.ops.exp(t), *same]

    run(build, x, *rows, target=target)
