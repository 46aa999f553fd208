"""A transposition between views: one kernel with vector accesses, and no byte for the views.

nvFuser made two kernels of it, 50 us on an A100, where eager's one takes 40.
"""

from __future__ import annotations

import torch
from common import check, define, options, report, scaled

from fuser import Fusion, FusionDefinition, DataType  # noqa: F401


# fmt: off
def nvfuser_fusion_id0(fd : FusionDefinition) -> None :
    T0 = fd.define_tensor(symbolic_sizes=[-1, -1, -1], contiguous=[True, True, True], dtype=DataType.Float)
    T1 = fd.ops.view(T0, original_shape=[768, 128, 64], new_shape=[64, 12, 128, 64])
    T2 = fd.ops.permute(T1, dims=[0, 2, 1, 3])
    T3 = fd.ops.set(T2)
    T4 = fd.ops.view(T3, original_shape=[64, 128, 12, 64], new_shape=[64, 128, 768])
    T5 = fd.ops.view(T4, original_shape=[64, 128, 768], new_shape=[8192, 768])
    fd.add_output(T5)
# fmt: on


def eager(x: torch.Tensor) -> torch.Tensor:
    """The definition, operation by operation."""
    return x.view(-1, 12, 128, 64).permute(0, 2, 1, 3).contiguous().view(-1, 768)


def main() -> None:
    given = options(__doc__ or "", full=8192, small=256, unit=128)
    batch = given.rows // 128
    # The published batch is 64; so are the 64 columns of a head, which stay.
    sizes = {"[768,": f"[{batch * 12},", "[64, 12,": f"[{batch}, 12,", "[64, 128": f"[{batch}, 128"}
    fs = define(scaled(nvfuser_fusion_id0, {**sizes, "8192": given.rows}))
    inputs = [torch.randn(batch * 12, 128, 64, device=given.device)]
    out = fs.execute(inputs, target=given.target)
    print(fs.plan(inputs, target=given.target))
    check(out, [eager(*inputs)])
    candidates = {
        "fuser": lambda: fs.execute(inputs, target=given.target),
        "eager": lambda: eager(*inputs),
    }
    report(candidates, given.device, given.rounds)


if __name__ == "__main__":
    main()
