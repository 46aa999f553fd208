"""What programs do around a graph: updates, breaks, several models, options, failures."""

from __future__ import annotations

import math
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import fuser
from fuser.errors import BackendOptionError, PartitionError
from fuser.integrations import dynamo
from fuser.integrations.partitions import partition_call

ROOT = Path(__file__).parent.parent.parent


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="fuser", **options)


def gradients(function: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    given = [x.detach().clone().requires_grad_() for x in inputs]
    function(*given).sum().backward()
    return [x.grad for x in given]


def test_the_function_itself_is_a_backend() -> None:
    run = torch.compile(lambda x: x.exp() + 1, backend=dynamo.backend)
    x = torch.randn(5)
    torch.testing.assert_close(run(x), x.exp() + 1)
    assert [report.percent for report in dynamo.reports()] == [100.0]


def test_unsigned_integers_of_64_bits_are_moved_and_left_to_torch() -> None:
    def function(u: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = torch.cat([u.t(), u.t()], 1)
        return moved, u.to(torch.float32) * 2 + x, u & moved[:2, :2], u == u.t(), u.sum() + 1

    given = torch.tensor([[0, 2**63 + 5], [2**64 - 1, 7]], dtype=torch.uint64)
    x = torch.randn(2, 2)
    for ours, theirs in zip(compiled(function)(given, x), function(given, x), strict=True):
        torch.testing.assert_close(ours, theirs)
    (report,) = dynamo.reports()
    assert 0 < report.percent < 100
    assert "cast UInt64 to Int first" in str(report)


def test_inputs_are_updated() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        old = x.sum()
        x.mul_(2).add_(1)
        return x.sin() + old

    ours, theirs = torch.arange(4.0), torch.arange(4.0)
    torch.testing.assert_close(compiled(function)(ours), function(theirs))
    torch.testing.assert_close(ours, theirs)


def test_buffers_are_updated_in_training() -> None:
    def make() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())

    ours, theirs, x = make(), make(), torch.randn(2, 2, 6, 6)
    run = compiled(ours)
    for _ in range(2):
        run(x).square().sum().backward()
        theirs(x).square().sum().backward()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)
    assert all(report.percent == 100 for report in dynamo.reports())


@pytest.mark.parametrize("grad", [True, False])
def test_kept_statistics_are_read_in_inference(grad: bool) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    x = torch.randn(2, 2, 6, 6)
    model(x)
    model.eval()
    run, parameters = compiled(model), list(model.parameters())
    with torch.set_grad_enabled(grad):
        ours, theirs = run(x), model(x)
    torch.testing.assert_close(ours, theirs)
    if grad:
        mine, other = (torch.autograd.grad(y.square().sum(), parameters) for y in (ours, theirs))
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    assert all(report.percent == 100 for report in dynamo.reports())


def test_rows_may_be_added_at_two_indices_around_a_new_dimension() -> None:
    at = torch.tensor([1, -1])

    def function(x: torch.Tensor) -> torch.Tensor:
        return x[at, None, :, :, at] * 2

    x = torch.randn(5, 5, 4, 5)
    torch.testing.assert_close(gradients(compiled(function), x), gradients(function, x))


def test_class_weights_scale_rows_of_one_number() -> None:
    def weighted(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (torch.zeros(8, 12).scatter(1, index, 1.0) * weight).sum(1)

    index, weight = torch.arange(8).view(8, 1), torch.randn(12)
    torch.testing.assert_close(compiled(weighted)(index, weight), weighted(index, weight))


def test_a_break_in_the_graph_makes_two() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).relu()
        torch._dynamo.graph_break()
        return y.sum(-1).exp()

    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(function)(x), function(x))
    assert len(dynamo.reports()) == 2


def test_models_do_not_disturb_each_other() -> None:
    first, second = nn.Linear(4, 4), nn.LayerNorm(4)
    runs = compiled(first), compiled(second)
    x = torch.randn(3, 4)
    for _ in range(2):
        for run, model in zip(runs, (first, second), strict=True):
            torch.testing.assert_close(run(x), model(x))


def test_a_returned_copy_is_no_alias() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        whole = torch.index_select(x, 0, torch.arange(4))
        copies = x.to(torch.float32, copy=True), x.repeat(1), nn.functional.pad(x, (0, 0))
        choice = torch.where(torch.ones((), dtype=torch.bool), x, 0.0)
        return x.clone(), y, y.clone(), x * 1, whole, choice, torch.cat([x]), x.flip(()), *copies

    x = torch.randn(4)
    results = compiled(function)(x)
    torch.testing.assert_close(results, function(x))
    addresses = [t.data_ptr() for t in (x, *results)]
    assert len(set(addresses)) == len(addresses)


def sliced(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    padded = nn.functional.pad(x[:, 1:-1], (1, 2))
    left, right = x[:, : columns // 2], x[:, -(columns // 2) :]
    places = torch.arange(rows).unsqueeze(1) + torch.arange(columns)
    return padded.sum(0).mean() + torch.cat([left, right], 1) * places[:, : 2 * (columns // 2)]


def shifted(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    y = x.reshape(columns, rows)[1:].reshape(rows, columns - 1)
    return torch.index_select(y, 1, torch.arange(columns - 2)).roll(1, 0)


def masked(x: torch.Tensor) -> torch.Tensor:
    causal = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    scores = (x.unsqueeze(1) * x.unsqueeze(2)).masked_fill(~causal, float("-inf"))
    return scores.softmax(-1).cumsum(1)


def paired(x: torch.Tensor) -> torch.Tensor:
    """Of parts of open dimensions, sizes that tracing knows: 2, and 1."""
    first, second = (x * 2).narrow(1, 0, 2).unbind(1)
    even, odd = x[:4].relu().split(2)
    return (first - second).sum() * (even - odd) * x[:, :1].t().squeeze(0).amax()


@pytest.mark.parametrize("function", [sliced, shifted, masked, paired])
def test_open_sizes_are_scalars_of_the_definition(function: Any) -> None:
    run = compiled(function, dynamic=True)
    for sizes in ((4, 6), (6, 10), (5, 8)):
        x = torch.randn(sizes)
        torch.testing.assert_close(run(x), function(x))
        torch.testing.assert_close(gradients(run, x), gradients(function, x))
    assert len(dynamo.reports()) == 3  # inference, forward and backward
    assert all(report.percent == 100 for report in dynamo.reports()), dynamo.reports()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[..., ::2].exp() * x[..., 1::2],
        lambda x: x[:, 1::3].exp(),
        lambda x: x[:, :4:3].exp() * x[:, 1:2],
        lambda x: torch.stack((x[..., 0] * x[..., -1], x[..., 2].exp())),
    ],
)
def test_gradients_of_slices_are_pads(function: Any) -> None:
    x = torch.randn(4, 7, 12)
    (ours,), (theirs,) = gradients(compiled(function), x), gradients(function, x)
    torch.testing.assert_close(ours, theirs)
    (report,) = (report for report in dynamo.reports() if "backward" in report.graph)
    (partition,) = report.partitions
    (kernel,) = partition.plan().kernels
    assert "pad" in kernel.operations
    assert not {"index_select", "iota"} & set(kernel.operations)


def test_patches_of_an_image_are_a_view() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.relu().unfold(2, 4, 4).unfold(3, 4, 4).softmax(-1)

    x = torch.randn(2, 3, 8, 12)
    for ours, theirs in zip(gradients(compiled(function), x), gradients(function, x), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert [report.percent for report in dynamo.reports()] == [100.0, 100.0]


def test_loss_writes_no_probabilities() -> None:
    loss = nn.CrossEntropyLoss()
    scores, targets = torch.randn(64, 1024), torch.randint(0, 1024, (64,))
    targets[3] = -100
    (expected,) = gradients(lambda x: loss(x, targets), scores)
    (got,) = gradients(compiled(lambda x: loss(x, targets)), scores)
    torch.testing.assert_close(got, expected)
    there, back = dynamo.reports()
    assert there.percent == back.percent == 100
    assert [len(there.partitions), len(back.partitions)] == [1, 1]
    plan = there.partitions[0].plan([scores, targets])
    assert sum(step.bytes_written for step in plan.steps) < scores.nbytes / 16


# -- options and failures ------------------------------------------------------------------------


def test_options_are_read() -> None:
    x = torch.randn(4, 8)
    for partition in ("min_cut", "default"):
        torch._dynamo.reset()
        run = compiled(torch.tanh, options={"partition": partition})
        torch.testing.assert_close(gradients(run, x), gradients(torch.tanh, x))
    run = compiled(torch.exp, options={"target": "emulator"})
    torch.testing.assert_close(run(x), x.exp())
    for wrong in ({"partition": "none"}, {"fast": True}):
        with pytest.raises(Exception, match="has no option") as caught:
            compiled(torch.sin, options=wrong)(x)
        assert BackendOptionError.__name__ in repr(caught.value) + repr(caught.value.__cause__)
    with pytest.raises(Exception, match="the targets are cpu, cuda, cuda:sm_NN and emulator"):
        compiled(torch.cos, options={"target": "tpu"})(x)


def test_a_mode_is_said_to_change_nothing_once() -> None:
    x = torch.randn(4)
    with pytest.warns(RuntimeWarning, match="mode='max-autotune' changes nothing"):
        compiled(torch.sin, mode="max-autotune")(x)
    with warnings.catch_warnings(record=True) as found:
        compiled(torch.cos, mode="max-autotune")(x)
    assert not [each for each in found if "changes nothing" in str(each.message)]


def failing(*_: object, **__: object) -> None:
    raise fuser.errors.LaunchError(kernel="k", reason="made to fail")


def test_torch_takes_over_where_no_definition_can_be_written(monkeypatch, tmp_path) -> None:
    def mistaken(_: object) -> None:
        raise TypeError("a mistake")

    monkeypatch.delenv("FUSER_STRICT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuser.integrations.partitions.partition_call.define", mistaken)
    x = torch.randn(4, 8)
    with pytest.warns(RuntimeWarning, match="TypeError: a mistake"):
        torch.testing.assert_close(compiled(torch.exp)(x), x.exp())
    (report,) = dynamo.reports()
    assert len(report.failed) == 1


def test_torch_takes_over_where_a_partition_cannot_be_described(monkeypatch, tmp_path) -> None:
    """Before its definition is written; the warning comes where no script can be, too."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setattr("fuser.integrations.partitions.partition_call._device", failing)
    x = torch.randn(4, 8)
    with pytest.raises(Exception, match="inference_0 cannot be run: LaunchError"):
        compiled(lambda x: x.exp().sum(-1))(x)
    monkeypatch.delenv("FUSER_STRICT")
    with pytest.warns(RuntimeWarning, match=r"made to fail[^$]*no script, which could not"):
        torch.testing.assert_close(compiled(lambda x: x.exp().sum(0))(x), x.exp().sum(0))
    (report,) = dynamo.reports()
    assert "made to fail" in str(report)
    (call,) = report.failed
    assert call.definition is None


def test_torch_takes_over_where_the_compiler_fails(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("FUSER_STRICT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuser.pipeline.Executor.execute", failing)
    x = torch.randn(4, 8)
    run = compiled(lambda x: x.exp().sum(-1))
    with pytest.warns(RuntimeWarning, match="made to fail") as caught:
        results = [run(x), run(x + 1)]
    torch.testing.assert_close(results, [x.exp().sum(-1), (x + 1).exp().sum(-1)])
    (warning,) = [w for w in caught if w.category is RuntimeWarning]
    (script,) = tmp_path.glob("*.py")
    assert str(script) in str(warning.message)
    (report,) = dynamo.reports()
    assert len(report.failed) == 1
    assert "made to fail" in str(report)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "made to fail" in script.read_text()


def test_strict_raises_instead(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuser.pipeline.Executor.execute", failing)
    with pytest.raises(PartitionError, match="made to fail"):
        compiled(lambda x: x.exp().sum(-1))(torch.randn(4, 8))


def test_a_definition_that_cannot_be_written_is_run_by_torch(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("FUSER_STRICT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(partition_call, "define", failing)
    x = torch.randn(4)
    with pytest.warns(RuntimeWarning, match="made to fail"):
        torch.testing.assert_close(compiled(torch.exp)(x), x.exp())


def test_the_users_mistakes_are_torchs_errors() -> None:
    run = compiled(lambda x, at: torch.index_select(x, 0, at) + 1)
    x = torch.randn(4, 2)
    assert run(x, torch.tensor([3])).shape == (1, 2)
    with pytest.raises(IndexError, match="out of range"):
        run(x, torch.tensor([4]))
    torch.testing.assert_close(run(x, torch.tensor([0])), x[:1] + 1)  # and nothing has failed
    assert not any(report.failed for report in dynamo.reports())


def test_the_installed_package_names_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (value,) = project["entry-points"]["torch_dynamo_backends"].values()
    entry = EntryPoint("fuser", value, "torch_dynamo_backends")
    assert entry.load() is dynamo.backend


def test_importing_the_package_does_not_import_dynamo() -> None:
    script = "import sys, fuser; sys.exit('torch._dynamo' in sys.modules)"
    environment = {"PYTHONPATH": str(ROOT)}
    assert (
        subprocess.run([sys.executable, "-c", script], check=False, env=environment).returncode == 0
    )


def test_elements_of_no_dimensions_are_gathered_and_their_gradients_scattered() -> None:
    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        read = x.exp().gather(0, torch.tensor(2)) + total.sin().gather(0, torch.tensor([0, 0]))
        return read.sum() * total.scatter_add(0, torch.tensor(0), x.mean())

    inputs = torch.randn(5), torch.randn(())
    torch.testing.assert_close(gradients(compiled(function), *inputs), gradients(function, *inputs))
    assert [report.percent for report in dynamo.reports()] == [100.0, 100.0]


EXTREMES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "amax of a row": lambda x: x.amax(1),
    "amin of columns": lambda x: x.amin(0),
    "max": lambda x: x.max(),
    "infinity norm": lambda x: torch.linalg.vector_norm(x, math.inf, dim=1),
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", ["gelu", "tanh", "softmax", "mish", "layer_norm"])
def test_gradients_go_to_what_equals_an_extreme(name: str, extreme: str) -> None:
    """Were it made otherwise in the backward, nothing would, and they would be 0 / 0."""
    options = {"softmax": {"dim": -1}, "layer_norm": {"normalized_shape": (300,)}}.get(name, {})

    def function(x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        return EXTREMES[extreme](getattr(nn.functional, name)(x, **options) + added)

    x, added = (torch.randn(32, 300, requires_grad=True) for _ in range(2))
    found = compiled(function)(x, added)
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    torch.testing.assert_close(added.grad.abs().sum(), torch.tensor(float(found.numel())))


@pytest.mark.parametrize("extreme", ["amax", "amin"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_gradients_go_to_what_equals_an_extreme_of_its_place(extreme: str, by_rows: bool) -> None:
    """As where the nodes of each graph of a batch are pooled."""
    rows = torch.arange(32) // 7

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(x * weight + weight)
        empty = y.new_zeros(6, 300)
        if by_rows:
            return empty.index_reduce(0, rows, y, extreme, include_self=False)
        places = rows[:, None].expand_as(y)
        return empty.scatter_reduce(0, places, y, extreme, include_self=False)

    inputs = torch.randn(32, 300), torch.randn(300)
    torch.testing.assert_close(gradients(compiled(function), *inputs), gradients(function, *inputs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_what_is_compared_in_16_bits_is_rounded_as_eager_does(dtype: torch.dtype) -> None:
    """By a gradient's formula, which makes the absolute values again, and across a graph break."""

    def norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x * scale, math.inf, dim=-1)

    def equal(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        largest = (x * scale).abs().amax(-1, keepdim=True)
        torch._dynamo.graph_break()
        return ((x * scale).abs() == largest).sum(-1)

    x, scale = torch.randn(64, 96).to(dtype), torch.randn(96).to(dtype)
    for ours, theirs in zip(
        gradients(compiled(norm), x, scale), gradients(norm, x, scale), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    assert torch.equal(compiled(equal)(x, scale), equal(x, scale))


def test_draws_that_are_repeated_from_a_checkpoint_are_torchs() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        dropped = partial(torch.nn.functional.dropout, p=0.5)
        return checkpoint(lambda x: dropped(x.sin()), x.cos(), use_reentrant=False) * 2

    dynamo.clear_reports()
    x = torch.randn(8, 16, requires_grad=True)
    y = torch.compile(step, backend="fuser")(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    expected = torch.autograd.grad(x.cos().sin().sum(), x)[0] * (y != 0) * 4
    torch.testing.assert_close(grad, expected)
    left = [entry for report in dynamo.reports() for entry in report.uncovered]
    assert [entry.overload for entry in left] == ["run_and_save_rng_state", "run_with_rng_state"]
    assert {entry.reason for entry in left} == {
        "it calls other operations, which torch runs as they are"
    }


def test_results_of_no_elements_have_gradients_of_their_own() -> None:
    def normalized(x: torch.Tensor) -> Any:  # only the first of three has one
        return torch.ops.aten.native_layer_norm(x, [4], None, None, 1e-5)

    x = torch.randn(0, 4, requires_grad=True)
    results = torch.compile(normalized, backend="fuser")(x)
    assert [y.requires_grad for y in results] == [y.requires_grad for y in normalized(x)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_next_number_is_the_next_of_its_type(dtype: torch.dtype) -> None:
    x, y = torch.tensor([1.0, torch.inf, 0.0]).to(dtype), torch.tensor([2.0, 0.0, -1.0]).to(dtype)
    found = torch.compile(lambda x, y: torch.nextafter(x * 2, y) + 0, backend="fuser")(x, y)
    torch.testing.assert_close(found, torch.nextafter(x * 2, y), rtol=0, atol=0)
