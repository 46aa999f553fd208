"""Without a compiler, outputs are those of kernels, and lie as theirs do."""

from __future__ import annotations

import pytest
import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from tests.definitions import Define, defined

TURNED = torch.randn(2, 5, 4, 6).to(memory_format=torch.channels_last)


def joined(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.cat([x, x], 1), fd.ops.set(fd.ops.cat([x, x], 1))]


def reduced(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.sum(x, [0]), fd.ops.max(x, [1], keepdim=True), fd.ops.cumsum(x, 2)]


def padded(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.pad(x, [1, 1]), fd.ops.index_select(x, fd.ops.iota(2, 0, 1), 3)]


def viewed(fd: FusionDefinition, x: Handle) -> list[Handle]:
    twice = fd.ops.cat([x, x], 1)
    row = fd.ops.sum(x, [1], keepdim=True)
    return [fd.ops.reshape(twice, [2, 10, 24]), fd.ops.expand(row, [2, 5, 4, 6])]


def repeated(fd: FusionDefinition, x: Handle) -> list[Handle]:
    heads = fd.ops.broadcast(x, [False, False, True, False, False])
    return [fd.ops.set(fd.ops.expand(heads, [2, 5, 3, 4, 6]))]


def turn(fd: FusionDefinition, x: Handle) -> list[Handle]:
    return [fd.ops.permute(x, [1, 0])]


@pytest.mark.parametrize("define", [joined, reduced, padded, viewed, repeated])
def test_outputs_lie_as_those_of_kernels(define: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = defined(define, TURNED).execute([TURNED])
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    results = defined(define, TURNED).execute([TURNED])
    assert [r.stride() for r in results] == [e.stride() for e in expected]
    torch.testing.assert_close(results, expected)


def test_outputs_follow_how_the_inputs_of_each_call_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [TURNED.contiguous(), TURNED, torch.randn(3, 5, 4, 6), TURNED.contiguous()]
    expected = [_of_any_strides().execute([x])[0] for x in calls]
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    fd = _of_any_strides()
    results = [fd.execute([x])[0] for x in calls]
    assert [r.stride() for r in results] == [e.stride() for e in expected]
    torch.testing.assert_close(results, expected)


def _of_any_strides() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1] * 4, contiguity=[False] * 4, dtype=DataType.Float)
        for out in joined(fd, x):
            fd.add_output(out)
    return fd


def test_outputs_share_memory_as_those_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    monkeypatch.setattr("fuser.pipeline.warn_without_compiler", lambda: None)
    x = torch.randn(6, 8)
    (turned,) = defined(turn, x).execute([x])
    assert turned.data_ptr() == x.data_ptr()
