"""The first call of a definition in a fresh process: prints the seconds it took.

    python benchmarks/first_call.py fuser|cubin|torch.compile

`fuser` and `torch.compile` end with a result, `cubin` with machine code for sm_90. The import of
torch and fuser is not counted; what a candidate imports later is. `FUSER_CACHE_DIR` and
`TORCHINDUCTOR_CACHE_DIR` say whether there are kernels from earlier processes.
"""

from __future__ import annotations

import sys
import time

import torch
from cases import SMALL_GELU
from pointwise_cases import define_plain_gelu
from torch_calls import compiled

from fuser import FusionDefinition


def defined() -> FusionDefinition:
    """The definition as a user writes it: that of a `Case` looks at meta tensors before."""
    with FusionDefinition() as fd:
        given = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(define_plain_gelu(fd, given))
    return fd


def first_result(x: torch.Tensor) -> None:
    defined().execute([x])


def first_cubin(x: torch.Tensor) -> None:
    for kernel in defined().plan([x], target="cuda:sm_90").kernels:
        kernel.compile()


def first_compiled(x: torch.Tensor) -> None:
    compiled(SMALL_GELU.kind.written)(x)


CANDIDATES = {"fuser": first_result, "cubin": first_cubin, "torch.compile": first_compiled}


def main() -> None:
    (x,) = SMALL_GELU.inputs()
    x.exp()  # torch's own start-up
    start = time.perf_counter()
    CANDIDATES[sys.argv[1]](x)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
