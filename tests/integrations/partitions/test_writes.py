"""Writes into inputs of a graph: by partitions, where nothing else needs the old value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from fuser import debug
from fuser.integrations import dynamo
from fuser.integrations.outer.hoisted import hoisted

Function = Callable[..., object]
X, Y = torch.randn(6, 40), torch.randn(6, 40)


def compared(function: Function, *given: torch.Tensor, dynamic: bool = False) -> list[str]:
    """What plans of the compiled function say of updates; it does what eager torch does, twice."""
    ours, theirs = ([tensor.clone() for tensor in given] for _ in range(2))
    torch.compiler.reset()
    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser", dynamic=dynamic)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*ours), function(*theirs))
            torch.testing.assert_close(ours, theirs)
    (report,) = dynamo.reports()
    return [line for call in report.partitions for line in call.plan().updates]


def test_parameters_and_moments_are_written_where_they_lie() -> None:
    def step(x: torch.Tensor, gradient: torch.Tensor, moment: torch.Tensor) -> None:
        moment.mul_(0.9).add_(gradient, alpha=0.1)
        x.sub_(moment / (gradient.abs() + 1.0))

    found = compared(step, X, Y, torch.zeros(6, 40))
    assert len(found) == 2
    assert all("in place" in line for line in found)


def test_a_step_of_an_optimizer_copies_nothing() -> None:
    values = [torch.randn(8, 3, requires_grad=True), torch.randn(5, requires_grad=True)]
    for value in values:
        value.grad = torch.randn_like(value)
    optimizer = torch.optim.AdamW(values, lr=0.01, foreach=True)
    versions = [value._version for value in values]
    dynamo.clear_reports()
    torch.compile(optimizer.step, backend="fuser")()
    (report,) = dynamo.reports()
    plans = [call.plan() for call in report.partitions]
    assert sum(len(plan.updates) for plan in plans) == 8
    assert sum(plan.bytes_copied for plan in plans) == 0
    assert all(v._version > before for v, before in zip(values, versions, strict=True))


def test_what_is_also_returned_is_copied_into_the_input() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y)
        return x * 1.0

    compared(function, X, Y)


def test_an_old_value_that_torch_reads_is_written_after_that() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        old = x.sort(1).values
        x.copy_(y.sin())
        return old

    assert compared(function, X, Y) == []


def test_an_old_value_that_another_partition_reads_is_written_after_that() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = (y @ w).relu() * x
        x.copy_(y.sin())
        return made

    compared(function, X, Y, torch.randn(40, 40))


def test_a_view_of_an_old_value_that_torch_reads() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        old = x.view(40, 6).sort(1).values
        x.mul_(2.0).add_(y)
        return old

    assert compared(function, X, Y) == []


def test_a_view_that_torch_makes_of_an_old_value() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = x.unfold(0, 2, 1).clone() * (y @ w).sort().values.sum()
        x.mul_(2.0)
        return made

    compared(function, X, Y, torch.randn(40, 40))


def test_a_lazy_conjugate_of_an_old_value() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = x.clone() * (x @ w).abs().sort().values.sum()
        x.mul_(2.0)
        return made

    x = torch.randn(6, 6, dtype=torch.complex64)
    for lazily in (torch.clone, lambda given: given.clone().conj()):
        ours, theirs = lazily(x), lazily(x)
        compiled = torch.compile(function, backend="fuser")
        torch.testing.assert_close(compiled(ours, x), function(theirs, x))
        torch.testing.assert_close(ours, theirs)


def swap(x: torch.Tensor, y: torch.Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def pass_on(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x.view(40, 6).view(6, 40))
    x.sin_()


def select_into(x: torch.Tensor, y: torch.Tensor) -> None:
    old = torch.index_select(x, 0, torch.arange(6))
    x.mul_(2.0)
    y.copy_(old)


@pytest.mark.parametrize("function", [swap, pass_on, select_into])
def test_an_old_value_that_another_input_is_given(function: Function) -> None:
    compared(function, X, Y)
    compared(lambda x, y: function(y, x), X, Y)


@pytest.mark.parametrize("part", [lambda x: x[1], lambda x: x.chunk(2)[1]], ids=["row", "chunk"])
def test_a_view_of_a_new_value_that_the_backward_is_given(part: Function) -> None:
    """Made again from the input, it would be of what is written there by then."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y.detach())
        return y[:1] * part(x)

    given = [Y[:4].clone().requires_grad_() for _ in range(2)]
    values = [X[:4].clone() for _ in range(2)]
    runs = torch.compile(function, backend="fuser"), function
    for run, value, y in zip(runs, values, given, strict=True):
        run(value, y).sum().backward()
    torch.testing.assert_close(given[0].grad, given[1].grad)
    torch.testing.assert_close(*values)


def test_memory_that_an_input_is_set_to() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        old = x.clone()
        x.data = y * 2.0
        return x + old.exp()

    compared(function, X, Y)


def test_a_partition_that_others_wait_for_writes_too() -> None:
    """Statistics of a layer in use are written by the partition whose result torch multiplies."""
    layer = torch.nn.BatchNorm1d(40)

    def function(x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> object:
        normed = torch.nn.functional.batch_norm(x, mean, var, training=True)
        return normed @ w

    compared(function, X, torch.randn(40, 8), layer.running_mean, layer.running_var)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32], ids=str)
def test_every_dtype_is_written_as_it_is(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        x.mul_(2).add_(y)

    assert len(compared(function, X.mul(9).to(dtype), Y.mul(9).to(dtype))) == 1


def test_other_layouts_open_sizes_and_wider_values() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y * 2.0)

    turned = torch.randn(40, 6).t()
    assert len(compared(function, turned, Y)) == 1
    assert len(compared(function, X[:, ::2].clone(), Y[:, 1::2])) == 1
    assert compared(function, X, Y, dynamic=True) == []
    assert len(compared(function, X, Y[:1])) == 1
    assert len(compared(function, X.bfloat16(), Y)) == 1


def test_inputs_that_share_memory() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        x.copy_(y.flip(0) * 2.0)

    dynamo.clear_reports()
    compiled = torch.compile(function, backend="fuser")
    for shift in (0, 0, 3, 0):
        ours, theirs = torch.arange(24.0), torch.arange(24.0)
        for run, memory in ((compiled, ours), (function, theirs)):
            with torch.no_grad():
                run(memory[3:13], memory[13 - shift : 23 - shift])
        torch.testing.assert_close(ours, theirs)


def test_what_a_failing_kernel_would_have_written_is_written_by_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        x.mul_(y)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.delenv("FUSER_STRICT")
    debug.reload()
    monkeypatch.setattr("fuser.pipeline.Executor.execute", fail)
    with pytest.warns(RuntimeWarning, match="is run by torch"):
        compared(function, X, Y)


@pytest.mark.parametrize("writes", [True, False])
def test_inputs_that_may_be_written_already_are_not_written_again(
    writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that fails between its kernels, as where memory ends."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = y.sin()
        if writes:
            x.add_(1.0)
        return z

    monkeypatch.delenv("FUSER_STRICT")
    debug.reload()
    monkeypatch.setattr(dynamo, "hoisted", hoisted)  # a graph is called once
    x, y = X.clone(), Y.clone()
    torch.compiler.reset()
    compiled = torch.compile(function, backend="fuser")
    with torch.no_grad():
        compiled(x, y)
        (call,) = dynamo.reports()[-1].partitions
        executor = call.definition._slot._executor
        prepared = executor._recent

        def fails(inputs: object) -> object:
            prepared.apart(inputs)
            raise MemoryError

        monkeypatch.setattr(executor, "_recent", dataclasses.replace(prepared, apart=fails))
        if writes:
            with pytest.raises(MemoryError):
                compiled(x, y)
            torch.testing.assert_close(x, X + 2.0)
        else:
            with pytest.warns(RuntimeWarning, match="run by torch"):
                torch.testing.assert_close(compiled(x, y), Y.sin())
