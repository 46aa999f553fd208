"""Models train as in eager, and every compute node is in a partition."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fuser.integrations import dynamo
from tests.integrations.models import MODELS, bert, gpt2, step, text, without_dropout
from tests.kernels_made import kernels_made


def compiled(model: nn.Module, **options: object) -> nn.Module:
    return torch.compile(model, backend="fuser", **options)


def assert_same(got: tuple, expected: tuple, rtol: float = 1e-3, atol: float = 1e-5) -> None:
    torch.testing.assert_close(got[0], expected[0], rtol=rtol, atol=atol)
    assert got[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(
            got[1][name], gradient, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


def assert_covered(*kinds: str) -> None:
    """All graphs are covered, and there are graphs of these kinds."""
    reports = dynamo.reports()
    missing = [str(report) for report in reports if report.covered < report.compute_nodes]
    assert not missing, "\n".join(missing)
    assert not any(report.failed for report in reports)
    assert {report.graph.split()[-1] for report in reports} == set(kinds)


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_is_eagers(name: str) -> None:
    make, inputs_of = MODELS[name]
    model, inputs = without_dropout(make()), inputs_of()
    expected = step(model, model, inputs)
    assert_same(step(model, compiled(model), inputs), expected)
    assert_covered("forward", "backward")


def test_fifty_steps_follow_eagers_losses() -> None:
    start, words = without_dropout(gpt2()).state_dict(), text(4, 12)

    def losses(compile_it: bool) -> list[float]:
        model = without_dropout(gpt2())
        model.load_state_dict(start)
        run = compiled(model) if compile_it else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        found: list[float] = []
        for _ in range(50):
            found.append(step(model, run, words)[0].item())
            optimizer.step()
        return found

    theirs, ours = losses(False), losses(True)
    assert theirs[-1] < theirs[0] / 2
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_inference_is_eagers_under_no_grad() -> None:
    model, inputs = gpt2().eval(), text()
    run = compiled(model)
    with torch.no_grad():
        torch.testing.assert_close(run(**inputs).logits, model(**inputs).logits)
    assert_covered("inference")


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_another_size_compiles_no_kernel(name: str) -> None:
    make, inputs_of = MODELS[name]
    model = without_dropout(make())
    run = compiled(model, dynamic=True)
    # Of fewer elements, other things are worth a kernel: plans differ, and so does their text.
    step(model, run, inputs_of(4, 20))
    made, graphs = kernels_made(), len(dynamo.reports())
    for batch, length in ((6, 20), (4, 24)):
        inputs = inputs_of(batch, length)
        expected = step(model, model, inputs)
        assert_same(step(model, run, inputs), expected)
    assert kernels_made() == made
    assert len(dynamo.reports()) == graphs
    assert_covered("forward", "backward")


def test_autocast_is_eagers_within_bfloat16() -> None:
    model, inputs = without_dropout(bert()), text()

    def cast(run: nn.Module):
        def call(**given: torch.Tensor):
            with torch.autocast("cpu", torch.bfloat16):
                return run(**given)

        return call

    expected = step(model, cast(model), inputs)
    got = step(model, cast(compiled(model)), inputs)
    torch.testing.assert_close(got[0], expected[0], rtol=1e-2, atol=1e-2)
    for name, gradient in expected[1].items():
        assert (got[1][name] - gradient).norm() <= 0.03 * gradient.norm() + 1e-6, name
    assert_covered("forward", "backward")


def test_dropout_follows_the_seed_in_forward_and_backward() -> None:
    model, inputs = gpt2().train(), text()
    run = compiled(model)
    torch.manual_seed(3)
    first = step(model, run, inputs)
    torch.manual_seed(3)
    assert_same(step(model, run, inputs), first, rtol=0, atol=0)
    other, _ = step(model, run, inputs)
    assert not torch.equal(first[0], other)
    assert_covered("forward", "backward")
