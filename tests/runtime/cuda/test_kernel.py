"""How often NVRTC is asked for one kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuser import FusionDefinition
from fuser.frontend.handles import Handle
from fuser.runtime.cuda.cubin import Cubin
from fuser.runtime.cuda.kernel import compile_cuda
from fuser.runtime.kernels.compile_cache import CompileCache
from fuser.runtime.kernels.resources import Resources

Define = Callable[[FusionDefinition, Handle], Handle]


def point(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.exp(x) + 3.0


def dear(fd: FusionDefinition, x: Handle) -> Handle:
    return fd.ops.lgamma(fd.ops.lgamma(x))


def row(fd: FusionDefinition, x: Handle) -> Handle:
    return x - fd.ops.max(x, [1], keepdim=True)


@pytest.mark.parametrize(
    ("define", "columns", "bounds"),
    [
        (dear, 1024, ["(128)"]),
        (point, 1024, [f"(256, {blocks})" for blocks in (8, 6, 5, 4, 3, 2, 1)]),
        (row, 1024, [f"(128, {blocks})" for blocks in (16, 12, 10, 8, 6, 4, 1)]),
        (row, 98304, [f"(512, {blocks})" for blocks in (4, 3, 2, 1)]),
        (row, 262144, ["(1024, 2)", "(1024, 1)"]),
    ],
)
def test_a_kernel_that_spills_is_compiled_again_for_fewer_blocks_at_once(
    define: Define, columns: int, bounds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FusionDefinition() as fd:
        fd.add_output(define(fd, fd.define_tensor([-1, -1], contiguity=True)))
    x = torch.empty(8192, columns, device="meta")
    source = fd.plan([x], target="cuda:sm_90").kernels[0].kernel_source
    assert source is not None
    compiled: list[str] = []

    def spilling(code: str, kernel: str, arch: str, options: tuple[str, ...]) -> Cubin:
        compiled.append(code)
        log = f"Compiling entry function '{kernel}'\n8 bytes spill stores"
        return Cubin(b"", kernel, Resources(spill_bytes=8), log)

    monkeypatch.setattr("fuser.runtime.cuda.kernel.compile_cubin", spilling)
    monkeypatch.setattr("fuser.runtime.cuda.kernel.kept_kernel", lambda key, make, use: use(make()))
    monkeypatch.setattr("fuser.runtime.cuda.kernel._CUBINS", CompileCache())
    assert compile_cuda(source, "sm_90").resources.spill_bytes == 8
    assert len(compiled) == len(bounds)
    for code, bound in zip(compiled, bounds, strict=True):
        assert f"__launch_bounds__{bound}" in code
