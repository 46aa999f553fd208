"""Outputs written into inputs: every reader sees the old value, whatever the order."""

from __future__ import annotations

import torch

from fuser import FusionDefinition


def test_an_updated_input_holds_the_result_and_is_not_handed_back() -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(p + 1.0, alias_input=p)
        fd.add_output(p * 2.0)
    x = torch.arange(6.0)
    (doubled,) = fd.execute([x])
    assert torch.equal(x, torch.arange(6.0) + 1)
    assert torch.equal(doubled, torch.arange(6.0) * 2)


def test_two_inputs_can_be_swapped() -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1], contiguity=True)
        q = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(p, alias_input=q)
        fd.add_output(q, alias_input=p)
    x, y = torch.arange(5.0), -torch.arange(5.0)
    assert fd.execute([x, y]) == []
    assert torch.equal(x, -torch.arange(5.0))
    assert torch.equal(y, torch.arange(5.0))


def test_an_input_can_be_replaced_by_its_own_transpose() -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.permute(p, dims=[1, 0]), alias_input=p)
    x = torch.randn(4, 4)
    wanted = x.t().clone()
    fd.execute([x])
    assert torch.equal(x, wanted)


def test_a_view_of_an_updated_input_keeps_the_old_values() -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(p + 1.0, alias_input=p)
        fd.add_output(fd.ops.reshape(p, new_shape=[2, 2]))
    x = torch.arange(4.0)
    (viewed,) = fd.execute([x])
    assert torch.equal(viewed, torch.arange(4.0).reshape(2, 2))
    assert torch.equal(x, torch.arange(4.0) + 1)


def test_an_updated_result_can_also_be_handed_back() -> None:
    with FusionDefinition() as fd:
        p = fd.define_tensor(shape=[-1], contiguity=True)
        result = fd.ops.exp(p)
        fd.add_output(result, alias_input=p)
        fd.add_output(result)
    x = torch.zeros(3)
    (handed,) = fd.execute([x])
    assert torch.equal(handed, torch.ones(3))
    assert torch.equal(x, torch.ones(3))
