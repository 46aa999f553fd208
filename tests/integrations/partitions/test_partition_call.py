"""A partition's results lie as tracing says; its kernels are compiled ahead; it has a plan."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import fuser
from fuser import FusionDefinition
from fuser.errors import CaptureError, FuserError, GeneratorError, PartitionError
from fuser.integrations.fx.nodes import hints, tensors_of
from fuser.integrations.partitions import partition_call
from fuser.integrations.partitions.partition_call import PartitionCall, compile_ahead
from fuser.integrations.partitions.support import Role, support
from tests.integrations.aten.cases import CASES
from tests.integrations.graphs import eager, module_of, tensors_in
from tests.kernels_made import kernels_made

aten: Any = torch.ops.aten
CONTIGUOUS = torch.contiguous_format
TURNED = torch.randn(3, 4, 5).permute(2, 0, 1)
IMAGE = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
ONE = torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last)
ONE_PLACE = torch.randn(1, 3, 1, 1).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        (aten.exp.default, [TURNED], {}),
        (aten.add.Tensor, [IMAGE, torch.randn(3, 1, 1)], {}),
        (aten.add.Tensor, [torch.randn(4).expand(3, 4), 1], {}),
        (aten.clone.default, [TURNED], {}),
        (aten.clone.default, [TURNED], {"memory_format": CONTIGUOUS}),
        (aten.clone.default, [torch.randn(2, 3, 4, 4)], {"memory_format": torch.channels_last}),
        (aten.clone.default, [torch.randn(6, 8)[::2, 1:]], {}),
        (aten._to_copy.default, [TURNED], {"dtype": torch.float64}),
        (aten.cat.default, [[IMAGE, IMAGE], 1], {}),
        (aten.sum.dim_IntList, [TURNED, [1], True], {}),
        (aten.constant_pad_nd.default, [TURNED, [1, 1]], {}),
        (aten.index_select.default, [TURNED, 0, torch.tensor([1, 1])], {}),
        (aten.flip.default, [TURNED, [0]], {}),
        (aten.full_like.default, [TURNED, 2.0], {}),
        (aten.cumsum.default, [TURNED, 0], {}),
        # Where dimensions of one element lie is how torch knows that channels are last.
        (aten.cat.default, [[ONE, ONE], 1], {}),
        (aten.cat.default, [[ONE_PLACE, ONE_PLACE], 1], {}),
        (aten.constant_pad_nd.default, [ONE, [1, 1, 0, 2]], {}),
        (aten.flip.default, [ONE, [2]], {}),
        (aten.full_like.default, [ONE, 2.0], {}),
        (aten.full_like.default, [torch.randn(1, 2, 6, 4).permute(1, 3, 0, 2), 2.0], {}),
        (aten.clone.default, [torch.randn(1, 3, 4, 4)], {"memory_format": torch.channels_last}),
        (aten.clone.default, [ONE], {"memory_format": CONTIGUOUS}),
        # Nothing is expanded that the caller may write to.
        (aten.repeat.default, [torch.randn(3, 1), [1, 4]], {}),
        (aten.copy.default, [TURNED, torch.randn(5, 1, 1)], {}),
    ],
    ids=lambda given: str(given) if isinstance(given, torch._ops.OpOverload) else "",
)
def test_results_lie_as_tracing_says(target: Any, args: Any, kwargs: Any) -> None:
    module = module_of(target, *args, **kwargs)
    got = PartitionCall(module.graph, "part")(*tensors_in(args, kwargs))
    expected = eager(target, *args, **kwargs)
    torch.testing.assert_close(list(got), expected)
    for ours, traced in zip(got, module.graph.output_node().all_input_nodes, strict=True):
        assert ours.stride() == traced.meta["val"].stride()


@pytest.mark.parametrize(
    ("target", "args", "kwargs"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)]
)
def test_what_is_made_of_turned_tensors_lies_as_tracing_says(
    target: Any, args: Any, kwargs: Any
) -> None:
    """Copies of a row's results that keep their order, and copies that do not."""
    leaves, form = pytree.tree_flatten((args, kwargs))
    given = [turned(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def copies(*tensors: torch.Tensor) -> list[torch.Tensor]:
        left = iter(tensors)
        filled = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        with_args, with_kwargs = pytree.tree_unflatten(filled, form)
        made = tensors_of(target(*with_args, **with_kwargs))
        return [m.clone(memory_format=f) for m in made for f in (CONTIGUOUS, torch.preserve_format)]

    try:
        graph = make_fx(copies, tracing_mode="symbolic")(*given).graph
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"torch does not trace it: {error}")
    refused = [found.reason for found in support(graph).values() if found.role is Role.TORCH]
    if refused:
        pytest.skip(f"torch computes it: {refused[0]}")
    call = PartitionCall(graph, "part")
    plan = call.plan(given)
    fusion, memory = plan.segmented.fusion, plan.segmented.memory
    for value, node in zip(fusion.output_values, graph.output_node().all_input_nodes, strict=True):
        sizes, strides = hints(node.meta["val"].shape), hints(node.meta["val"].stride())
        steps = zip(sizes, memory[value].strides, strides, strict=True)
        assert 0 in sizes or all(size == 1 or ours == traced for size, ours, traced in steps)


def turned(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor with its last dimension outermost in memory."""
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def test_kernels_are_compiled_before_the_call(monkeypatch) -> None:
    pool = ThreadPoolExecutor(2)
    monkeypatch.setattr(partition_call, "_pool", lambda: pool)
    x = torch.randn(37, 11)
    call = PartitionCall(module_of(aten.logical_xor.default, x, x).graph, "ahead")
    compile_ahead([call])
    pool.shutdown(wait=True)
    plans, made = fuser.stats()["plans_built"], kernels_made()
    assert not call(x, x)[0].any()
    assert kernels_made() == made
    assert fuser.stats()["plans_built"] == plans


def test_where_no_thread_begins_kernels_are_compiled_at_the_call(monkeypatch) -> None:
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(partition_call, "_pool", lambda: ended)
    x = torch.randn(3, 17)
    call = PartitionCall(module_of(aten.cosh.default, x).graph, "later")
    compile_ahead([call])
    torch.testing.assert_close(call(x)[0], x.cosh())


def test_a_partition_has_a_plan_without_inputs() -> None:
    x = torch.randn(8, 8)
    call = PartitionCall(module_of(aten.exp.default, x).graph, "part")
    assert str(call.plan()) == str(call.plan([x]))
    broken = PartitionCall(module_of(aten.exp.default, x).graph, "part")
    broken.definition = None
    with pytest.raises(PartitionError, match="part cannot be run"):
        broken.plan()


def test_partitions_of_equal_layers_are_planned_once() -> None:
    x = torch.randn(31, 7)
    calls = [PartitionCall(module_of(aten.atan.default, x).graph, f"layer_{n}") for n in range(3)]
    before = fuser.stats()["plans_built"]
    results = [call(x + n)[0] for n, call in enumerate(calls)]
    assert fuser.stats()["plans_built"] == before + 1
    for n, result in enumerate(results):
        torch.testing.assert_close(result, torch.atan(x + n))


@pytest.mark.parametrize(
    "error", [CaptureError(reason="it loads kernels"), GeneratorError()], ids=type
)
def test_what_cannot_be_captured_is_torchs_there_and_ours_elsewhere(
    error: FuserError, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(29, 3)
    call = PartitionCall(module_of(aten.asinh.default, x).graph, "captured")
    with monkeypatch.context() as capturing:
        capturing.setattr(FusionDefinition, "execute_apart", mock.Mock(side_effect=error))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (result,) = call(x)
    assert torch.equal(result, torch.asinh(x))
    assert call.failure is None
    before = fuser.stats()["kernels_launched"]
    torch.testing.assert_close(call(x)[0], torch.asinh(x))
    assert fuser.stats()["kernels_launched"] == before + 1


def test_what_is_not_captured_is_not_written_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x: torch.Tensor) -> None:
        x.copy_(x * 2)

    x = torch.randn(29, 3)
    call = PartitionCall(make_fx(doubled)(x).graph, "written")
    monkeypatch.setattr(FusionDefinition, "execute_apart", mock.Mock(side_effect=GeneratorError()))
    kept = x.clone()
    with pytest.raises(GeneratorError):
        call(x)
    assert torch.equal(x, kept)


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1.0, 2.0)])
def test_partitions_with_other_constants_are_their_own(one: float, other: float) -> None:
    x = torch.rand(5) + 1
    numbers = (one, other)
    calls = [PartitionCall(module_of(aten.mul.Tensor, x, n).graph, "part") for n in numbers]
    for call, number in zip(calls, numbers, strict=True):
        (result,) = call(x)
        torch.testing.assert_close(result, x * number, rtol=0, atol=0)
        assert torch.equal(result.signbit(), (x * number).signbit())
