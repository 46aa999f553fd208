"""32-bit indices are used where every offset and index fits, and only there."""

from __future__ import annotations

import torch

from fuser import DataType, FusionDefinition


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
