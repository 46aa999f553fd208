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


def test_a_plan_names_values_as_the_definition_does():
    # a pass replaces T2, the mean, by a value of its own, and drops T5, which nobody reads
    x = torch.ones(32, 64)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        _, mean = fd.ops.var_mean(a, dims=[1], correction=0, keepdim=True)
        away = fd.ops.sub(a, mean)
        fd.add_output(mean)
        fd.add_output(fd.ops.exp(away))
        fd.ops.neg(away)
    plan = fd.plan([x])
    defined = plan.definition.definitions().keys()
    made = plan.segmented.fusion.definitions().keys()
    assert plan.kernels[0].leaves == ("T2 is an output", "T4 is an output")
    assert "T5" not in map(str, made)
    assert {str(value) for value in made - defined} == {"T6", "S7"}
