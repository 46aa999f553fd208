"""Reductions of a few elements that lie apart are written out: the oracle's numbers and strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Fusion
from fuser.passes.dead_code import remove_dead_code
from fuser.passes.few_elements import MOST_APART, fold_few_elements
from fuser.passes.lower_reductions import lower_reductions
from tests.passes.rewriting import folds
from tests.row_functions import log_sum_of_columns
from tests.segmented import concrete

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool)


def lowered(fd: FusionDefinition, *inputs: torch.Tensor) -> tuple[Fusion, Fusion]:
    """The definition before and after the pass."""
    before = remove_dead_code(lower_reductions(concrete(fd.fusion, list(inputs))))
    return before, fold_few_elements(before)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_few_elements_are_added(dtype: torch.dtype, keepdim: bool) -> None:
    x, y = (torch.randint(-3, 3, (2, 4, 3, 5)).to(dtype) for _ in range(2))
    with FusionDefinition() as fd:
        given = fd.ops.permute(fd.from_pytorch(x), [0, 2, 1, 3])
        fd.add_output(fd.ops.sum(given, [0, 2], keepdim=keepdim))
        fd.add_output(fd.ops.mean(fd.from_pytorch(y) * 2.0, [1], keepdim=keepdim))
    before, after = lowered(fd, x, y)
    assert folds(before) == ["sum", "sum"]
    assert folds(after) == []
    for got, want in zip(interpret(after, [x, y]), interpret(before, [x, y]), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
    fd.validate([x, y])


def test_the_sum_of_negative_zeros_is_zero() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.define_tensor([2, -1], contiguity=True), [0]))
    x = torch.tensor([[-0.0, 1.0, torch.inf, torch.nan], [-0.0, -1.0, -torch.inf, 2.0]])
    (total,) = fd.execute([x])
    assert not total[:2].signbit().any()
    assert total[2:].isnan().all()


Define = Callable[[FusionDefinition, Handle], list[Handle]]


def neighbours(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [2])]


def many(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [0, 1])]


def extreme(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.max(x, [1])]


def extreme_that_is_looked_for(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Among what is computed, here or by a fusion to come."""
    return [fd.ops.max(fd.ops.exp(x) * 2.0, [1])]


def range_of_channels(fd: FusionDefinition, x: Handle) -> list[Handle]:
    """Beside one of them."""
    most, least = fd.ops.max(x, [1]), fd.ops.min(x, [1])
    first = fd.ops.squeeze(fd.ops.slice(x, [0, 0, 0], [3, 1, 6]), [1])
    return [fd.ops.eq(most, first), (most - first) / (most - least), fd.ops.prod(x, [1])]


def range_beside_two(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.max(x, [1]), fd.ops.slice(x, [0, 0, 0], [3, 2, 6])]


def read_again(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [1]), fd.ops.neg(x)]


def made_for_another(fd: FusionDefinition, x: Handle) -> list[Handle]:
    powers = fd.ops.exp(x)
    return [powers / fd.ops.sum(powers, [1], keepdim=True)]


def an_output(fd: FusionDefinition, x: Handle) -> list[Handle]:
    powers = fd.ops.exp(x)
    return [powers, fd.ops.sum(powers * 2.0, [1])]


def looked_up(fd: FusionDefinition, x: Handle) -> list[Handle]:
    index = fd.ops.iota(4, start=0, step=1, dtype=DataType.Int)
    return [fd.ops.sum(fd.ops.index_select(x, index, dim=1), [1])]


def read_twice_on_the_way(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(fd.ops.sin(x) * fd.ops.cos(x), [1])]


def dead_beside(fd: FusionDefinition, x: Handle) -> list[Handle]:
    fd.ops.neg(x)
    return [fd.ops.sum(x, [1])]


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (neighbours, True),
        (many, True),
        (extreme, False),
        (extreme_that_is_looked_for, True),
        (range_of_channels, False),
        (range_beside_two, True),
        (read_again, True),
        (made_for_another, True),
        (an_output, True),
        (looked_up, True),
        (dead_beside, False),
        (read_twice_on_the_way, False),
    ],
)
def test_what_is_left_to_kernels_of_rows(make: Define, left: bool) -> None:
    x = torch.randn(3, 4, 6)
    assert x.shape[0] * x.shape[1] > MOST_APART
    with FusionDefinition() as fd:
        for out in make(fd, fd.from_pytorch(x)):
            fd.add_output(out)
    _, after = lowered(fd, x)
    assert bool(folds(after)) == left
    fd.validate([x])


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("heads", [2, 4])
def test_gradients_of_shared_heads_are_points(heads: int, target: str) -> None:
    """Turned as they are read, and stored in another order."""
    x, y = torch.randn(2 * 3 * heads, 16, 40), torch.randn(2, 3, 40, 16)
    with FusionDefinition() as fd:
        grads, more = fd.from_pytorch(x), fd.from_pytorch(y)
        turned = fd.ops.permute(fd.ops.reshape(grads, [2, 3, heads, 16, 40]), [0, 1, 2, 4, 3])
        total = fd.ops.sum(turned, [2]) + more
        fd.add_output(fd.ops.stride_order(fd.ops.permute(total, [0, 2, 1, 3]), [3, 2, 1, 0]))
    (kernel,) = fd.plan([x, y]).kernels
    assert kernel.scheduler == "pointwise"
    fd.validate([x, y], target=target)


def test_rows_of_the_rest_are_along_another_dimension() -> None:
    """Sums over a batch, stored with the rows of another sum turned."""
    x = torch.randn(4, 48, 320)
    with FusionDefinition() as fd:
        total = fd.ops.sum(fd.from_pytorch(x), [0])
        turned = fd.ops.permute(total, [1, 0])
        fd.add_output(fd.ops.stride_order(turned, [1, 0]))
        fd.add_output(fd.ops.sum(turned, [0]))
    (kernel,) = fd.plan([x]).kernels
    assert kernel.scheduler == "rows"
    fd.validate([x])


# -- what was put side by side -------------------------------------------------------------------


Fold = Callable[[FusionDefinition, Handle], Handle]
STACKED: dict[str, Fold] = {
    "sum": lambda fd, x: fd.ops.sum(x, [0]),
    "of values": lambda fd, x: fd.ops.sum(fd.ops.exp(x) * 2.0, [0], keepdim=True),
    "product": lambda fd, x: fd.ops.prod(x, [0]),
    "extreme": lambda fd, x: fd.ops.neg(fd.ops.max(x, [0])),
    "smallest": lambda fd, x: fd.ops.neg(fd.ops.min(x, [0], keepdim=True)),
    "logarithm of powers": log_sum_of_columns,
}


def stack(fd: FusionDefinition, parts: list[torch.Tensor], dim: int) -> Handle:
    """Of handles of two dimensions, with a dimension in front or behind."""
    new = [True, False, False] if dim == 0 else [False, False, True]
    return fd.ops.cat([fd.ops.broadcast(fd.from_pytorch(part), new) for part in parts], dim)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("name", STACKED)
def test_folds_of_what_was_stacked_are_points(name: str, target: str) -> None:
    parts = [torch.randn(6, 10) for _ in range(3)]
    parts[1][2, 3] = torch.nan
    with FusionDefinition() as fd:
        fd.add_output(STACKED[name](fd, stack(fd, parts, 0)))
    (kernel,) = fd.plan(parts).kernels
    assert kernel.scheduler == "pointwise"
    fd.validate(parts, target=target)


def test_so_are_they_along_the_last_dimension() -> None:
    parts = [torch.randn(6, 10) for _ in range(5)]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(stack(fd, parts, 2) * 2.0, [2]))
    (kernel,) = fd.plan(parts).kernels
    assert kernel.scheduler == "pointwise"
    fd.validate(parts)


def whole_extreme(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.max(x, [0])]


def looked_for(fd: FusionDefinition, x: Handle) -> list[Handle]:
    largest = fd.ops.max(x, [0], keepdim=True)
    return [fd.ops.cast(fd.ops.eq(x, largest), DataType.Float)]


def weights(fd: FusionDefinition, x: Handle) -> list[Handle]:
    powers = fd.ops.exp(x)
    return [powers / fd.ops.sum(powers, [0], keepdim=True)]


def of_both(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [0, 2])]


@pytest.mark.parametrize("make", [whole_extreme, looked_for, weights, of_both])
def test_what_was_stacked_is_left_to_kernels_of_rows(make: Define) -> None:
    """Extremes that may be looked for; what others read, too; and other dimensions."""
    parts = [torch.randn(6, 40) for _ in range(3)]
    with FusionDefinition() as fd:
        for out in make(fd, stack(fd, parts, 0)):
            fd.add_output(out)
    _, after = lowered(fd, *parts)
    assert folds(after)
    fd.validate(parts)
