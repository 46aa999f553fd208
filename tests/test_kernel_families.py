"""Every kind of kernel, on the targets that need no GPU."""

from __future__ import annotations

import pytest
import torch

from fuser.codegen import Workspace
from tests.kernel_families import DTYPES, FAMILIES, Family, check


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_families_are_what_torch_computes(family: Family, dtype: torch.dtype, target: str) -> None:
    check(family, dtype, "cpu", target)


def test_threads_exchange_through_pointers_that_compilers_take_for_shared() -> None:
    """Of one that is `__restrict__`, NVRTC moves stores past barriers, for which no other thread
    then sees them."""
    exchanged: list[str] = []
    for family in FAMILIES:
        inputs = family.inputs()
        plan = family.defined_like(inputs).plan(inputs, target="cuda:sm_90")
        sources = [kernel.kernel_source for kernel in plan.kernels]
        for source in filter(None, sources):
            head = source.code.partition('extern "C"')[2].partition(") {")[0]
            declared = {each.split()[-1]: each for each in head.split(", ")}
            rooms = [each.name for each in source.arguments if isinstance(each, Workspace)]
            assert not [name for name in rooms if "restrict" in declared[name]], source.name
            exchanged += rooms
    assert {"finished", "shares"} <= set(exchanged)
