"""A flip inside a definition is index arithmetic of the kernel: the oracle's numbers, no copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations
from fuser.ir.interpret import interpret
from fuser.schedule import CpuParameters
from tests.definitions import defined_by_ops
from tests.mapped_by import PAST_CACHE, map_by
from tests.random_steps import _factors

TARGETS = ("cpu", "emulator")
Define = Callable[[Operations, Handle], Handle | tuple[Handle, ...]]


def check(define: Define, x: torch.Tensor, target: str) -> None:
    """The kernels' numbers are the oracle's, and torch computes nothing."""
    fd = defined_by_ops(define, x)
    assert not fd.plan([x], target=target).externs
    pairs = zip(fd.execute([x], target=target), interpret(fd.fusion, [x]), strict=True)
    for result, expected in pairs:
        assert torch.equal(result, expected)


DEFINITIONS: list[Define] = [
    lambda o, x: o.flip(x, 1),
    lambda o, x: o.flip(x, [0, 1]),
    lambda o, x: o.flip(o.neg(x), 0) * 2.0,
    lambda o, x: o.neg(x) + o.flip(x, 1),
    # a value and its flip, both stored, by one walk over either
    lambda o, x: (o.neg(x), o.flip(o.neg(x), [0, 1])),
    lambda o, x: (o.flip(o.neg(x), 1), o.neg(x)),
    # beside views, permutes and slices
    lambda o, x: o.flip(o.permute(x, [1, 0]), 1) + 1.0,
    lambda o, x: o.permute(o.flip(o.abs(x), 1), [1, 0]),
    lambda o, x: o.flip(o.reshape(x, [-1]), 0) * 3.0,
    lambda o, x: o.reshape(o.flip(o.reshape(o.neg(x), [-1]), 0), [8, 6]) * 3.0,
    lambda o, x: o.reshape(o.flip(o.neg(x), 1), [8, 6]) + 1.0,
    lambda o, x: o.reshape(o.flip(o.permute(x, [1, 0]), 0), [6, 8]) + 1.0,
    lambda o, x: o.flip(o.slice(x, [1, 2], [4, 11], [1, 3]), [0, 1]) * 2.0,
    lambda o, x: o.slice(o.flip(o.neg(x), [0, 1]), [1, 2], [4, 11], [2, 3]),
    lambda o, x: o.reshape(o.slice(o.flip(x, 1), [0, 1], [4, 11]), [-1, 8]) * 2.0,
    lambda o, x: o.flip(o.flip(o.neg(x), 0), [1, 0]),
    lambda o, x: o.flip(x, 1) * o.iota(12, dtype=DataType.Float),
    lambda o, x: o.flip(o.iota(12, dtype=DataType.Float), 0) * x,
    lambda o, x: o.flip(o.broadcast_in_dim(o.neg(x), [4, 3, 12], [0, 2]), [1, 2]),
    lambda o, x: o.cast(o.flip(x, 1), DataType.Half),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", range(len(DEFINITIONS)))
def test_a_flip_runs_in_the_kernel(case: int, target: str) -> None:
    check(DEFINITIONS[case], torch.randn(4, 12), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_flip_is_laid_out_as_in_torch(order: tuple[int, ...], target: str) -> None:
    x = torch.randn(4, 6, 8).permute(order)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.flip(fd.from_pytorch(x), [0, 2]))
    (result,) = fd.execute([x], target=target)
    assert torch.equal(result, x.flip(0, 2))
    assert result.stride() == x.flip(0, 2).stride()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 2, 31, 64, 67, 256, 513])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64])
def test_rows_of_every_length_are_reversed(columns: int, dtype: torch.dtype, target: str) -> None:
    x = torch.arange(3 * columns).reshape(3, columns).remainder(100).to(dtype)
    check(lambda o, t: o.flip(t, 1), x, target)
    check(lambda o, t: o.flip(t, 0), x, target)
    check(lambda o, t: (o.flip(t, 1), o.flip(t, 0)), x, target)


@pytest.mark.parametrize("columns", [64, 100, 513])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_rows_stored_past_the_cache(
    columns: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_by(monkeypatch, CpuParameters(PAST_CACHE))
    x = torch.arange(30 * columns).reshape(5, 6, columns).remainder(100).to(dtype)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.flip(fd.from_pytorch(x), [1, 2]))
    assert "stream_chunk(" in fd.plan([x]).kernels[0].source
    for dims in ([0], [1], [2], [0, 2], [0, 1], [0, 1, 2]):
        check(lambda o, t, dims=dims: o.flip(t, dims), x, "cpu")
        check(lambda o, t, dims=dims: o.flip(t, dims) + t, x, "cpu")
        check(lambda o, t, dims=dims: o.flip(o.permute(t, [1, 0, 2]), dims), x, "cpu")


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_flips_of_views_of_random_sizes(target: str, data: st.DataObject) -> None:
    """Alternating views, permutes, slices and flips, whose factors need not nest."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=1, max_size=3))
    x = torch.randn(sizes)

    def define(o: Operations, t: Handle) -> Handle:
        t = o.neg(t)
        for _ in range(data.draw(st.integers(1, 3))):
            shape = t.value.shape
            elements = torch.Size(shape).numel()
            t = o.reshape(t, data.draw(_factors(elements)) or [1])
            dims = range(len(t.value.shape))
            t = o.flip(t, data.draw(st.lists(st.sampled_from(dims), unique=True, min_size=1)))
            if data.draw(st.booleans()):
                t = o.permute(t, data.draw(st.permutations(dims)))
            if data.draw(st.booleans()):
                steps = [data.draw(st.integers(1, 2)) for _ in dims]
                t = o.slice(t, [0] * len(dims), [max(s, 1) for s in t.value.shape], steps)
        return o.abs(t)

    with FusionDefinition() as fd:
        fd.add_output(define(fd.ops, fd.from_pytorch(x, static_sizes=True)))
    (result,), (expected,) = fd.execute([x], target=target), interpret(fd.fusion, [x])
    assert torch.equal(result, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_a_flip_of_one_element_is_a_tensor_of_its_own(target: str) -> None:
    x = torch.randn(1, 12)
    fd = defined_by_ops(lambda o, x: o.flip(x, 0), x)
    (result,) = fd.execute([x], target=target)
    assert torch.equal(result, x)
    assert result.data_ptr() != x.data_ptr()
