"""Every kind of kernel, on the targets that need no GPU."""

from __future__ import annotations

import pytest
import torch

from tests.kernel_families import DTYPES, FAMILIES, Family, check


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_families_are_what_torch_computes(family: Family, dtype: torch.dtype, target: str) -> None:
    check(family, dtype, "cpu", target)
