"""Parts of inputs are written where they lie, and whoever reads old values reads these."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere

from fuser.integrations import dynamo
from fuser.integrations.rewrites import updates

Function = Callable[..., object]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What updates inputs in place, of the graphs that are compiled."""
    found: list[object] = []
    update = updates.update_in_place

    def noted(graph: torch.fx.Graph) -> None:
        update(graph)
        found.extend(node.target for node in graph.nodes if node.target in updates.UPDATES)

    monkeypatch.setattr(dynamo, "update_in_place", noted)
    return found


def cache() -> torch.Tensor:
    return torch.arange(2.0 * 6 * 8).view(2, 6, 8) / 10


def key() -> torch.Tensor:
    return torch.linspace(-1, 1, 16).view(2, 1, 8)


def compared(function: Function, *given: torch.Tensor, dynamic: bool | None = None) -> None:
    """Does what eager torch does, three times, to the results and to what it is called with."""
    ours, theirs = ([torch.empty_like(x).copy_(x) for x in given] for _ in range(2))
    compiled = torch.compile(function, backend="fuser", dynamic=dynamic)
    with torch.no_grad():
        for _ in range(3):
            found, expected = compiled(*ours), function(*theirs)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(ours, theirs)
        if isinstance(found, torch.Tensor):  # what is returned is new, or the input, as in eager
            assert isinstance(expected, torch.Tensor)
            found.add_(1)
            expected.add_(1)
            torch.testing.assert_close(ours, theirs)


# -- what is written in place --------------------------------------------------------------------


def at_places(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.index_copy_(1, torch.tensor([2]), y * 0.5)
    return x.softmax(1) + 1


def at_an_index(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, torch.tensor([4])] = y.sin()
    return x.transpose(1, 2) @ x


def of_a_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y * 2
    return x[:, :5] * 2


def of_one_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[1, -1] = y[0, 0]
    return x.sum(1)


def of_some(x: torch.Tensor, y: torch.Tensor) -> None:
    x[:, 1::2, ::3] *= y[:, :, ::3]


def of_itself(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[0, 2:4] = x[0, 3:5] * y[0] + x[1].mean()
    return y + 1


def of_two_parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, :1] = y + 1
    x[:, 4:5] = y.exp()
    return x.relu()


def of_parts_that_overlap(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 2:4] = y
    x[:, 3:5] = y * 2
    return x - 1


def of_another_type(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 2] = y.double()[:, 0] * 3
    return x * 2


def of_one_number(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[0, :2] = 7
    return x + y


def scattered(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.scatter_(1, torch.full((2, 1, 8), 5), y)
    return x.cos()


def of_a_diagonal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, :, 1:].diagonal(1, 1, 2).mul_(2)
    return x + y


def added_at_an_index(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.index_add_(1, torch.tensor([4]), y * 2)
    return x.sin()


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.scatter_add_(1, torch.full((2, 1, 8), 5), y + x[:, :1])
    return x.cos()


IN_PLACE = [
    *(of_a_diagonal, added_at_an_index, added),
    *(at_places, at_an_index, of_a_slice, of_one_place, of_some, of_itself, of_two_parts),
    *(of_parts_that_overlap, of_another_type, of_one_number, scattered),
]


@pytest.mark.parametrize("laid", ["rows", "turned"])
@pytest.mark.parametrize("function", IN_PLACE)
def test_parts_are_written_in_place(function: Function, laid: str, made: list[object]) -> None:
    x = cache() if laid == "rows" else cache().permute(2, 0, 1).contiguous().permute(1, 2, 0)
    compared(function, x, key())
    assert len(made) == 1


def test_what_is_added_at_an_index_is_added_by_torchs_operation_of_that(
    made: list[object],
) -> None:
    """Not by the `index_put` that torch's decomposition makes of it."""
    compared(added_at_an_index, cache(), key())
    assert made == [torch.ops.aten.index_add_.default]


@pytest.mark.parametrize("function", [at_places, of_a_slice, of_two_parts])
def test_of_open_sizes(function: Function, made: list[object]) -> None:
    compared(function, cache(), key(), dynamic=True)
    assert len(made) == 1


def test_places_may_be_known_at_the_call_only(made: list[object]) -> None:
    def step(x: torch.Tensor, y: torch.Tensor, at: int) -> torch.Tensor:
        x[:, at : at + 1] = y * 2
        return F.softmax(x[:, : at + 1], 1)

    ours, theirs = cache(), cache()
    compiled = torch.compile(step, backend="fuser", dynamic=True)
    for at in (1, 2, 3, 4):
        torch.testing.assert_close(compiled(ours, key(), at), step(theirs, key(), at))
        torch.testing.assert_close(ours, theirs)
    assert made


def test_a_number_may_be_known_at_the_call_only(made: list[object]) -> None:
    def step(x: torch.Tensor, number: float) -> torch.Tensor:
        x.scatter_(1, torch.full((2, 1, 8), 5), number)
        return x * 2

    ours, theirs = cache(), cache()
    compiled = torch.compile(step, backend="fuser", dynamic=True)
    for number in (0.5, 1.5, 2.5):
        torch.testing.assert_close(compiled(ours, number), step(theirs, number))
        torch.testing.assert_close(ours, theirs)
    assert made


def test_attention_reads_the_cache_itself(made: list[object]) -> None:
    def decode(k: torch.Tensor, v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        k[:, :, 3:4], v[:, :, 3:4] = x * 2, x + 1
        return F.scaled_dot_product_attention(x.sin(), k, v)

    compared(decode, torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 4), torch.randn(1, 2, 1, 4))
    assert len(made) == 2


def test_an_index_that_is_out_of_range_is_an_error() -> None:
    def write(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> None:
        x[:, at] = y

    with pytest.raises(IndexError, match="out of"):
        torch.compile(write, backend="fuser")(cache(), torch.tensor([9]), key())


# -- what is not ---------------------------------------------------------------------------------


def that_is_read_later(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x * 2
    x[:, 3:4] = y
    return old.sum(1) + x.sum(1)


def whose_view_is_read_later(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x[:, 2:5].clone()
    x[:, 3:4] = y * 2
    return old.flip(1) + x[:, 2:5]


def that_torch_reads(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x.sort(1).values
    x[:, 3:4] = y
    return old + x.sort(1).values


def that_is_moved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 1:] = x[:, :-1].clone()
    return x * y


def that_is_read_in_between(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y
    between = x.cumsum(1)
    x[:, 4:5] = y * 2
    return between + x


def that_is_read_in_between_and_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y
    x[:, 4:5] = x.mean(1, keepdim=True)
    return x + 1


def that_is_copied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y
    return x.clone()


def that_is_returned_before(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x.clone()
    x[:, 3:4] = y
    return old


def that_is_returned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y
    return x


def of_which_a_view_is_returned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 3:4] = y
    return x[:, 1:].transpose(1, 2)


def most_of_it(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, torch.tensor([4, 1, 2, 3])] = y.expand(2, 4, 8) * 2
    return x + 1


COPIED = [
    *(that_is_read_later, whose_view_is_read_later, that_torch_reads, that_is_moved),
    *(that_is_read_in_between, that_is_read_in_between_and_written, that_is_copied),
    *(that_is_returned_before, that_is_returned, of_which_a_view_is_returned, most_of_it),
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", COPIED)
def test_old_values_are_read_before(function: Function, dynamic: bool | None) -> None:
    compared(function, cache(), key(), dynamic=dynamic)


def test_inputs_that_share_memory() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[1:3] = y[:2] * 2
        return x + y

    results: list[torch.Tensor] = []
    for run in (torch.compile(write, backend="fuser"), write):
        memory = torch.arange(10.0)
        results += [run(memory[:6], memory[4:]), memory]
    torch.testing.assert_close(results[:2], results[2:])


def test_a_buffer_that_training_updates() -> None:
    class Recent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.register_buffer("seen", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x).tanh()
            with torch.no_grad():
                self.seen[1:2] = y.mean(0, keepdim=True)
            return y * self.seen.sum(0)

    torch.manual_seed(0)
    ours = Recent()
    theirs = Recent()
    theirs.load_state_dict(ours.state_dict())
    compiled, x = torch.compile(ours, backend="fuser"), torch.randn(5, 8)
    for _ in range(3):
        for model, run in ((ours, compiled), (theirs, theirs)):
            model.zero_grad()
            run(x).square().sum().backward()
        torch.testing.assert_close(ours.seen, theirs.seen)
        torch.testing.assert_close(ours.linear.weight.grad, theirs.linear.weight.grad)
