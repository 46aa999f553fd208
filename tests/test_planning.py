"""Planning says which pass has made a fusion that is none."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fuser import FusionDefinition
from fuser.errors import VerifyError
from fuser.ir.nodes import Fusion


def plan() -> None:
    x = torch.ones(4)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.from_pytorch(x)))
    fd.plan([x])


def same(fusion: Fusion) -> Fusion:
    return dataclasses.replace(fusion)


def cut(fusion: Fusion) -> Fusion:
    return dataclasses.replace(fusion, statements=())


def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.planning.PASSES", (same, cut, same))
    with pytest.raises(VerifyError, match="after cut"):
        plan()
    monkeypatch.setattr("fuser.planning.PASSES", (same,))
    plan()
