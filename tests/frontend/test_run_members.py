"""What a definition hands on to the Fusion it fills."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, Fusion, FusionDefinition
from fuser.frontend.run_members import RunMembers

HANDED_ON = [name for name, member in vars(RunMembers).items() if isinstance(member, property)]
X = torch.randn(4)


def doubled(fusion: Fusion) -> FusionDefinition:
    with FusionDefinition(fusion) as fd:
        fd.add_output(fd.define_tensor([-1], dtype=DataType.Float) * 2.0)
    return fd


@pytest.mark.parametrize("name", HANDED_ON)
def test_a_member_is_that_of_the_fusion(name: str) -> None:
    fusion = Fusion()
    fd = doubled(fusion)
    assert getattr(fd, name) == getattr(fusion, name)
    assert getattr(fd, name) != getattr(doubled(Fusion()), name)
    getter = vars(RunMembers)[name].fget
    assert getter.__doc__.startswith(f"`Fusion.{name}`")


def test_what_one_of_them_executes_the_other_knows() -> None:
    fusion = Fusion()
    fd = doubled(fusion)
    (y,) = fd.execute([X], save_repro_inputs=True)
    assert torch.equal(y, X * 2)
    assert fusion.last_repro_script() == fd.last_repro_script()
    assert torch.equal(fusion.validate([X])[0], X * 2)
