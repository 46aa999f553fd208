"""Dimensions that repeat one element are squeezed if that is asked for; others never are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations
from fuser.pipeline import Executor
from tests.definitions import built

ROW = torch.randn(1, 4)
REPEATED = ROW.expand(3, 4)

EXPANDED: list[Callable[[Operations, Handle], Handle]] = [
    lambda o, x: x,
    lambda o, x: o.exp(x),
    lambda o, x: o.add(o.cast(x, DataType.Double), o.full([3, 1], 2, DataType.Double)),
    lambda o, x: o.permute(o.permute(x, [1, 0]), [1, 0]),
    lambda o, x: o.stride_order(x, [0, 1]),
    lambda o, x: o.squeeze(o.broadcast(x, [False, True, False]), [1]),
    lambda o, x: o.slice(x, [1, 0], [3, 4]),
    lambda o, x: o.mul(x, o.expand(o.sum(x, 0, True), [3, 4])),
    lambda o, x: o.expand(o.broadcast(o.sum(x, 0), [True, False]), [o.size(x, 0), -1]),
]
OTHERS: list[Callable[[Operations, Handle], Handle]] = [
    lambda o, x: o.add(x, o.broadcast(o.iota(3), [False, True])),
    lambda o, x: o.permute(o.reshape(x, [4, 3]), [1, 0]),
    lambda o, x: o.cumsum(x, 0),
]


@pytest.mark.parametrize("case", range(len(EXPANDED)))
def test_the_first_of_what_is_repeated_stays(case: int) -> None:
    with FusionDefinition() as fd:
        repeated = EXPANDED[case](fd.ops, fd.from_pytorch(REPEATED))
        fd.add_output(fd.ops.squeeze(repeated, dims=[0], squeeze_expanded=True))
        fd.add_output(repeated)
    assert built(repr(fd)).fusion == fd.fusion
    for execute in (fd.execute, Executor(fd.fusion).execute):
        squeezed, repeated = execute([REPEATED])
        assert squeezed.shape == (4,)
        torch.testing.assert_close(squeezed, repeated[0])


@pytest.mark.parametrize("case", range(len(OTHERS)))
def test_what_is_not_expanded_is_refused(case: int) -> None:
    with FusionDefinition() as fd:
        x = OTHERS[case](fd.ops, fd.from_pytorch(REPEATED, static_sizes=True))
        with pytest.raises(errors.ArgumentError, match="has size 3, not 1"):
            fd.ops.squeeze(x, [0], True)
        with pytest.raises(errors.ArgumentError, match="has size 3, not 1"):
            fd.ops.squeeze(fd.from_pytorch(REPEATED, static_sizes=True), [0])


def test_what_is_not_expanded_must_be_of_size_1() -> None:
    with FusionDefinition() as fd:
        sums = fd.ops.cumsum(fd.from_pytorch(torch.randn(3, 4)), 0)
        fd.add_output(fd.ops.squeeze(sums, [0], True))
    executor = Executor(fd.fusion)
    assert torch.equal(executor.execute([ROW])[0], ROW[0])
    with pytest.raises(errors.ArgumentError, match="has size 3, not 1"):
        executor.execute([torch.randn(3, 4)])


def test_expanded_dimensions_beside_others() -> None:
    given = torch.randn(2, 1, 5, 1).expand(2, 3, 5, 1)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given)
        fd.add_output(fd.ops.squeeze(x, [1, -1], True))
        fd.add_output(fd.ops.squeeze(fd.ops.full([2, 3], 7, DataType.Int), [0, 1], True))
    first, second = Executor(fd.fusion).execute([given])
    assert torch.equal(first, given[:, 0, :, 0])
    assert torch.equal(second, torch.tensor(7))


def test_the_first_of_an_input_is_no_copy() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(REPEATED)
        fd.add_output(fd.ops.squeeze(x, [0], squeeze_expanded=1))
    (out,) = Executor(fd.fusion).execute([REPEATED])
    assert out.data_ptr() == REPEATED.data_ptr()
