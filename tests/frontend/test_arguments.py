"""Arguments of the front end, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.errors import ArgumentTypeError
from tests.definitions import built


def test_numbers_of_numpy_stand_wherever_pythons_do() -> None:
    n, x = np.int64, torch.randn(6, 8)
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[n(-1), n(8)], contiguity=[True, np.bool_(True)])
        turned = fd.ops.permute(a, np.array([1, 0]))
        cut = fd.ops.slice(turned, [n(0), n(1)], range(8, 4, -2))
        fd.add_output(fd.ops.sum(cut, dims=[n(1)], keepdim=np.bool_(True)))
        fd.add_output(fd.ops.reshape(a, np.array([8, 6])))
        fd.add_output(fd.ops.mul(fd.ops.full((n(8),), np.float32(2), DataType.Float), a))
        fd.add_output(fd.ops.cat([a, a], n(-1)))
    outs = fd.execute([x])
    wanted = [x.t()[:, 1:6].sum(1, keepdim=True), x.view(8, 6), 2 * x, torch.cat([x, x], -1)]
    for got, want in zip(outs, wanted, strict=True):
        torch.testing.assert_close(got, want)
    assert repr(built(repr(fd))) == repr(fd)


@pytest.mark.parametrize(
    "given", ["01", b"01", np.array(0), np.array([[0], [1]]), {0, 1}, np.array([0.0, 1.0])]
)
def test_what_is_no_list_of_ints_is_refused(given: Any) -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1, -1])
        with pytest.raises(ArgumentTypeError, match=r"^permute: dims(\[0\])? must be "):
            fd.ops.permute(a, given)
        fd.add_output(a)


def test_ints_of_more_than_64_bits_are_of_a_wrong_type() -> None:
    with FusionDefinition() as fd:
        with pytest.raises(ArgumentTypeError, match=r"shape\[1\] must be an int of 64 bits"):
            fd.define_tensor(shape=[2, 2**63])
        fd.add_output(fd.define_tensor(shape=[2, 2**63 - 1]))
