"""A graph that is called again checks inputs that lie as before once.

    part(a, b) checks     =>     graph checks a, b; run((a, b))

(`hoisting.py` compares every graph of the other tests with what it gives checked.)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from fuser import PythonProfiler, debug
from fuser.integrations import dynamo
from fuser.integrations.outer.hoisted import ATTEMPTS, MOST_SIZES, hoisted
from fuser.integrations.partitions.partition_call import PartitionCall


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions whose inputs were checked."""
    names: list[str] = []
    checked = PartitionCall.__call__

    def call(self: PartitionCall, *inputs: Any) -> Any:
        names.append(self.__name__)
        return checked(self, *inputs)

    monkeypatch.setattr(PartitionCall, "__call__", call)
    monkeypatch.setattr(dynamo, "hoisted", hoisted)
    return names


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = torch.softmax((x @ w).view(4, 2, 4).transpose(0, 1), 2).transpose(0, 1).reshape(4, 8)
    return x + 1


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="fuser", **options)


X, W = torch.randn(4, 8), torch.randn(8, 8)


def settle(run: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Calls until nothing is checked: torch watches the first for what operations do."""
    for _ in range(3):
        run(*inputs)


def test_a_call_like_two_others_checks_no_partition(called: list[str]) -> None:
    run = compiled(layers)
    for count in (3, 3, 3, 0, 0):
        called.clear()
        x, w = torch.randn(4, 8), torch.randn(8, 8)
        torch.testing.assert_close(run(x, w), layers(x, w))
        assert len(called) == count


def test_a_training_step_checks_none_either(called: list[str]) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8))
    run, optimizer = compiled(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        x = torch.randn(4, 8)
        expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        called.clear()
        optimizer.zero_grad()
        run(x).square().sum().backward()
        assert (called == []) == (step > 2)
        got = [p.grad for p in model.parameters()]
        torch.testing.assert_close(got, list(expected), rtol=1e-4, atol=1e-4)
        optimizer.step()


@pytest.mark.parametrize(
    "other",
    [
        lambda: torch.randn(8, 4).t(),
        lambda: torch.randn(33)[1:].view(4, 8),
        lambda: torch.randn(4, 8, requires_grad=True),
        lambda: torch.complex(torch.randn(4, 8), torch.randn(4, 8)).conj().imag,
    ],
    ids=["turned", "unaligned", "watched", "negated"],
)
def test_inputs_that_lie_otherwise_are_checked(other: Any, called: list[str]) -> None:
    run = compiled(layers, dynamic=False)
    settle(run, X, W)
    x = other()
    torch.testing.assert_close(run(x, W), layers(x, W))
    called.clear()
    torch.testing.assert_close(run(X, W), layers(X, W))
    assert called == []  # one other call is no new habit


def test_a_new_habit_replaces_the_old_one(called: list[str]) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return layers(x.detach(), w)

    settle(run := compiled(function), X, W)
    turned = torch.randn(8, 4).t()
    counts: list[int] = []
    with torch._dynamo.config.patch(error_on_recompile=False):
        for _ in range(4):
            called.clear()
            torch.testing.assert_close(run(turned, W), function(turned, W))
            counts.append(len(called))
    assert counts[-1] == 0


def test_inputs_that_never_lie_alike_are_recorded_no_more() -> None:
    (outer,) = outers(lambda: compiled(lambda x: (x.sin() @ W).cos())(X))
    run = hoisted(outer)
    for n in range(2 * ATTEMPTS):
        x = torch.randn(4, 8 + 4 * n)[:, :8]
        (got,) = run([x, W])
        torch.testing.assert_close(got, (x.sin() @ W).cos())
    assert [known.attempts for known in run._known.values()] == [0]
    torch.testing.assert_close(run([X, W])[0], (X.sin() @ W).cos())


def outers(compiling: Callable[[], object]) -> list[torch.fx.GraphModule]:
    """The graphs that are left of what is compiled."""
    found: list[torch.fx.GraphModule] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dynamo, "hoisted", lambda outer: found.append(outer) or outer.forward)
        compiling()
    return found


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    library = torch.library.Library("fuser_hoisting", "FRAGMENT")
    yield library
    library._destroy()


def operation(library: torch.library.Library, function: Callable[..., torch.Tensor]) -> Any:
    """An operation of torch's that no partition takes, which tracing takes for contiguous."""
    library.define("apart(Tensor x) -> Tensor")
    library.impl("apart", function, "CPU")
    library.impl("apart", lambda x: torch.empty(x.shape, device=x.device), "Meta")
    return torch.ops.fuser_hoisting.apart.default


def test_what_torch_lays_otherwise_than_before_is_laid_as_before(
    library: torch.library.Library, called: list[str]
) -> None:
    lay = [lambda x: x.clone()]
    apart = operation(library, lambda x: lay[0](x))  # noqa: PLW0108 (it is replaced)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = apart(x.sin())
        return y.cos() + apart(y.t().contiguous().view(4, 8)).view(32)[:8]

    run, expected = compiled(function), function(X)
    settle(run, X)
    called.clear()
    for lay[0] in (
        lambda x: x.t().contiguous().t(),
        lambda x: torch.cat([torch.zeros(1), x.reshape(-1)])[1:].view(x.shape),
    ):
        torch.testing.assert_close(run(X), expected)
    assert called == []


def test_what_is_returned_is_what_torch_has_made(library: torch.library.Library) -> None:
    lay: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.clone]
    apart = operation(library, lambda x: lay[0](x))  # noqa: PLW0108 (it is replaced)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = apart(x.cos())
        return y, y.sin() @ W

    run = compiled(function)
    settle(run, X)
    lay[0] = lambda x: x.t().contiguous().t()
    for got, expected in zip(run(X), function(X), strict=True):
        torch.testing.assert_close(got, expected)
    assert run(X)[0].stride() == (1, 4)


def test_lazy_results_of_torch_are_resolved(library: torch.library.Library) -> None:
    lay: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.clone]
    apart = operation(library, lambda x: lay[0](x))  # noqa: PLW0108 (it is replaced)
    run = compiled(lambda x: (apart(x.cos()) + 1) @ W)
    settle(run, X)
    lay[0] = lambda x: torch._neg_view(x.clone())
    torch.testing.assert_close(run(X), (1 - X.cos()) @ W)


def test_results_whose_elements_share_a_place_are_checked() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (torch.as_strided(x, (4, 8), (0, 1)).sin() @ W).cos()

    run = compiled(function, dynamic=False)
    for x in (*(torch.randn(8) for _ in range(5)), torch.randn(9)[1:]):
        torch.testing.assert_close(run(x), function(x))


def test_errors_of_operations_are_their_own(library: torch.library.Library) -> None:
    fails = [False]

    def sometimes(x: torch.Tensor) -> torch.Tensor:
        if fails[0]:
            raise KeyError("k")
        return x.clone()

    apart = operation(library, sometimes)
    run = compiled(lambda x: (apart(x.cos()) + 1) @ W)
    for calls in (2, 2, 2):
        fails[0] = False
        for _ in range(calls):
            run(X)
        fails[0] = True
        with pytest.raises(KeyError, match=r"^'k'$"):
            run(X)


def test_inputs_are_freed_as_soon_as_they_are_read(library: torch.library.Library) -> None:
    freed: list[bool] = []
    held: list[Any] = [lambda: None]

    def watch(x: torch.Tensor) -> torch.Tensor:
        freed.append(held[0]() is None)
        return x.clone()

    apart = operation(library, watch)
    (outer,) = outers(lambda: compiled(lambda x, y: apart(x.sin() + y).cos())(X, X + 1))
    run = hoisted(outer)
    freed.clear()
    for _ in range(4):
        given = [torch.randn(4, 8), torch.randn(4, 8)]
        held[0] = weakref.ref(given[0])
        run(given)
    assert freed == [True] * 4


def test_updated_inputs_may_overlap_later() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y.flip(0))
        return (x @ W).exp()

    run = compiled(function, dynamic=False)
    for _ in range(3):
        ours, theirs = X.clone(), X.clone()
        torch.testing.assert_close(run(ours, X), function(theirs, X))
        torch.testing.assert_close(ours, theirs)
    ours, theirs = torch.arange(36.0).view(36), torch.arange(36.0).view(36)
    got = run(ours[:32].view(4, 8), ours[4:].view(4, 8))
    torch.testing.assert_close(got, function(theirs[:32].view(4, 8), theirs[4:].view(4, 8)))
    torch.testing.assert_close(ours, theirs)


def test_an_update_sees_what_overlaps_it_through_views_of_torchs() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.add_(x.view(torch.float32).flip(0))
        return y.sin() @ W

    run = compiled(function, dynamic=False)
    for _ in range(5):
        run(torch.randint(0, 9, (4, 8), dtype=torch.int32), torch.randn(4, 8))
    for start in (4, 8, 16):
        ours, theirs = torch.arange(96.0), torch.arange(96.0)
        given, expected = (
            [b[:32].view(4, 8).view(torch.int32), b[start : start + 32].view(4, 8)]
            for b in (ours, theirs)
        )
        torch.testing.assert_close(run(*given), function(*expected))
        torch.testing.assert_close(ours, theirs)


def test_a_habit_is_of_the_inputs_that_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's call comes between seeing inputs again and recording them."""
    (outer,) = outers(lambda: compiled(lambda x: (x.sin() @ W).cos(), dynamic=False)(X))
    run, narrow = hoisted(outer), torch.randn(1, 8).expand(4, 8)
    recorded = type(run)._recorded

    def after_another(self: Any, *given: Any) -> Any:
        monkeypatch.setattr(type(run), "_recorded", recorded)
        run([narrow, W])
        return recorded(self, *given)

    monkeypatch.setattr(type(run), "_recorded", after_another)
    for x in (X, X, X, narrow, narrow, narrow, X):
        torch.testing.assert_close(run([x, W])[0], (x.sin() @ W).cos())


def test_what_torch_writes_is_written(called: list[str]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.add_(x.sin()).mul_(2)

    ours, theirs = X.clone(), X.clone()
    run = compiled(function, dynamic=False)
    for _ in range(4):
        called.clear()
        torch.testing.assert_close(run(ours), function(theirs))
        torch.testing.assert_close(ours, theirs)
    assert called == []


def test_an_optimizers_step_checks_its_tensors_once(called: list[str]) -> None:
    ours, theirs = (
        [nn.Parameter(torch.arange(n * 4.0).view(n, 4)) for n in range(1, 6)] for _ in range(2)
    )
    steps: list[Callable[[], object]] = []
    for parameters in (ours, theirs):
        optimizer = torch.optim.AdamW(parameters, lr=0.1, foreach=True)
        steps.append(optimizer.step)
    step = compiled(steps[0])
    for number in range(6):
        for parameters in (ours, theirs):
            for parameter in parameters:
                parameter.grad = parameter.detach().cos() + number
        called.clear()
        step()
        steps[1]()
        torch.testing.assert_close(ours, theirs)
    assert called == []


def test_what_fails_between_its_writes_is_not_done_again(
    monkeypatch: pytest.MonkeyPatch, called: list[str]
) -> None:
    settled, fails = PartitionCall.settled, [False]

    def settled_until(self: PartitionCall, inputs: Any) -> Any:
        run = settled(self, inputs)

        def sometimes(given: Any) -> Any:
            outputs = run(given)
            if fails[0]:
                raise MemoryError
            return outputs

        return sometimes

    monkeypatch.setattr(PartitionCall, "settled", settled_until)

    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1.0)
        return x.sin()

    run = compiled(function, dynamic=False)
    x = torch.zeros(4, 8)
    for _ in range(4):
        run(x)
    called.clear()
    fails[0] = True
    with pytest.raises(MemoryError):
        run(x)
    assert called == []
    assert torch.equal(x, torch.full((4, 8), 5.0))


def test_scatters_are_deterministic_where_that_is_wanted_later(called: list[str]) -> None:
    at = torch.tensor([0, 0, 1, 1])
    run = compiled(lambda x: torch.zeros(2, 8).index_add(0, at, x.sin()))
    settle(run, X)
    called.clear()
    torch.use_deterministic_algorithms(True)
    try:
        run(X)
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(called) == 1


def test_random_numbers_are_those_of_checked_calls() -> None:
    run = compiled(lambda x: torch.dropout(x.sin() @ W, 0.5, True).cos())
    results: list[torch.Tensor] = []
    for _ in range(4):
        torch.manual_seed(3)
        results += [run(X), run(X)]
    assert not torch.equal(results[0], results[1])
    for n in range(2, 8):
        assert torch.equal(results[n], results[n % 2])


def test_an_index_out_of_range_is_torchs_error_every_time(called: list[str]) -> None:
    table = torch.randn(5, 8)
    run = compiled(lambda at: (torch.embedding(table, at).sin() @ W).cos())
    at = torch.tensor([0, 4])
    settle(run, at)
    called.clear()
    run(at)
    assert called == []
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            run(torch.tensor([0, 5]))
    called.clear()
    torch.testing.assert_close(run(at), (table[at].sin() @ W).cos())
    assert called == []


def test_a_partition_that_fails_later_is_torchs_from_then_on(
    monkeypatch: pytest.MonkeyPatch, called: list[str]
) -> None:
    monkeypatch.delenv("FUSER_STRICT")
    debug.reload()
    function = lambda x: (x.sin() @ W).t().cos()  # noqa: E731
    fails = [False]
    settled = PartitionCall.settled

    def settled_until(self: PartitionCall, inputs: Any) -> Any:
        run = settled(self, inputs)

        def sometimes(given: Any) -> Any:
            if fails[0]:
                raise MemoryError
            return run(given)

        return sometimes

    def execute(self: Any, *args: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(PartitionCall, "settled", settled_until)
    run = compiled(function)
    settle(run, X)
    run(X)
    fails[0] = True
    monkeypatch.setattr("fuser.pipeline.Executor.execute", execute)
    with pytest.warns(RuntimeWarning, match="is run by torch"):
        torch.testing.assert_close(run(X), function(X))
    called.clear()
    torch.testing.assert_close(run(X), function(X))
    assert len(called) == 2


def test_a_profiler_times_all_partitions(called: list[str]) -> None:
    run = compiled(layers)
    settle(run, X, W)
    run(X, W)
    called.clear()
    with PythonProfiler() as profiler:
        run(X, W)
    assert len(called) == 3
    assert "softmax" in str(profiler) or "exp" in str(profiler)
    called.clear()
    run(X, W)
    assert called == []


def test_open_sizes_are_checked_until_they_come_again(called: list[str]) -> None:
    run = compiled(layers_of_any, dynamic=True)
    run(torch.randn(3, 8), W)
    for rows, checked in ((4, 2), (5, 2), (4, 2), (4, 0), (5, 2), (5, 0), (4, 0), (6, 2)):
        called.clear()
        x = torch.randn(rows, 8)
        torch.testing.assert_close(run(x, W), layers_of_any(x, W))
        assert len(called) == checked


def test_of_very_many_sizes_the_first_are_remembered(called: list[str]) -> None:
    run = compiled(layers_of_any, dynamic=True)
    for rows in (*range(2, MOST_SIZES + 20), *range(2, MOST_SIZES + 20)):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(run(x, W), layers_of_any(x, W))
    for rows, checked in ((10, 0), (MOST_SIZES + 10, 2)):
        called.clear()
        run(torch.randn(rows, 8), W)
        assert len(called) == checked


def layers_of_any(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, 1).sin() @ w + 1


def test_threads_share_a_graph() -> None:
    run, wrong = compiled(layers), list[int]()
    settle(run, X, W)

    def work(number: int) -> None:
        torch.manual_seed(number)
        for _ in range(50):
            x = torch.randn(4, 8)
            if not torch.allclose(run(x, W), layers(x, W), atol=1e-6):
                wrong.append(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert wrong == []
