"""32-bit indices are used where every offset and index fits, and only there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Tensor


def test_a_small_domain_far_into_a_large_range_takes_64_bits() -> None:
    with FusionDefinition() as fd:
        numbers = fd.ops.iota(2**33, 0, 1, DataType.Int)
        fd.add_output(fd.ops.slice(numbers, [2**32 + 5], [2**32 + 13]))
    wanted = torch.arange(2**32 + 5, 2**32 + 13)
    for target in ("cpu", "emulator"):
        assert torch.equal(fd.execute([], target=target)[0], wanted)


def test_large_meta_tensors_take_64_bits_and_small_ones_32() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(t + 1.0)
    small = fd.plan([torch.empty(2**20, device="meta")], target="cuda:sm_90").kernels[0]
    large = fd.plan([torch.empty(2**31, device="meta")], target="cuda:sm_90").kernels[0]
    assert "const int32 n0" in small.source
    assert "const int64 n0" in large.source


def total(fd: FusionDefinition, x: Tensor) -> Tensor:
    return fd.ops.sum(x, [0])


def squares(fd: FusionDefinition, x: Tensor) -> Tensor:
    return x * x


def added(fd: FusionDefinition, x: Tensor) -> Tensor:
    index = fd.define_tensor(shape=[4], contiguity=True, dtype=DataType.Int)
    return fd.ops.index_add(x, index, fd.ops.full([4], 1.0, DataType.Float), 0)


@pytest.mark.parametrize("make", [total, squares, added])
def test_rows_points_and_scatters_leave_room_for_steps_past_the_end(
    make: Callable[[FusionDefinition, Tensor], Tensor],
) -> None:
    with FusionDefinition() as fd:
        fd.add_output(make(fd, fd.define_tensor(shape=[-1], contiguity=True)))
    others = [torch.empty(4, dtype=torch.int64, device="meta")] if make is added else []

    def widths(elements: int) -> set[str]:
        plan = fd.plan([torch.empty(elements, device="meta"), *others], target="cuda:sm_90")
        return set(re.findall(r"const (int\d\d) n0", "".join(k.source for k in plan.kernels)))

    assert widths(2**31 - 2**27 - 64) == {"int32"}
    assert widths(2**31 - 2**27 + 64) == {"int64"}


def test_rows_are_counted_though_all_lie_at_one_place() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, 300], contiguity=[None, True])
        fd.add_output(fd.ops.sum(fd.ops.max(t, [1]), [0]))

    def rows_named(rows: int) -> list[str]:
        given = torch.empty(300, device="meta").expand(rows, 300)
        (kernel,) = fd.plan([given], target="cuda:sm_90").kernels
        return re.findall(r"const (int\d\d) n0", kernel.source)

    assert rows_named(2**31 - 2**27 - 64) == ["int32"]
    assert rows_named(2**31 - 2**27 + 64) == ["int64"]
    assert rows_named(2**32) == ["int64"]
