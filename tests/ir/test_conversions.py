"""Casts of the oracle."""

from __future__ import annotations

import torch

from fuser.ir.conversions import converted
from fuser.ir.dtypes import DataType


def test_a_real_part_is_a_tensor_of_its_own() -> None:
    given = torch.ones(3, 2, dtype=torch.complex64).t()
    made = converted(given, DataType.Float)
    assert made.data_ptr() != given.data_ptr()
    assert made.stride() == given.stride()
