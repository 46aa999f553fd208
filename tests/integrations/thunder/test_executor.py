"""Lightning Thunder's executor: what is fused, what is kept, what stays torch's."""

from __future__ import annotations

import copy
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

try:
    from fuser.integrations import thunder as integration
except ImportError as error:
    if error.name != "thunder":
        raise
    pytest.skip(str(error), allow_module_level=True)

from fuser.errors import LaunchError, PartitionError, TargetError
from fuser.integrations.partitions.partition_call import PartitionCall, examples
from fuser.integrations.thunder import executor, fuser_ex
from fuser.integrations.thunder.library import extend, ltorch, named_tensors, prims
from fuser.integrations.thunder.library import load as load_thunder
from fuser.integrations.thunder.table import ROWS
from fuser.ir.interpret import interpret
from tests.integrations.thunder.cases import GROUPS

ROOT = Path(__file__).parent.parent.parent
thunder: Any = load_thunder("thunder")
passes: Any = load_thunder("thunder.executors.passes")
ids: Any = prims.PrimIDs
ALWAYS: Any = extend.get_always_executors()
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_reports() -> None:
    integration.clear_reports()
    fuser_ex.set_fuel(extend.FUEL_LEVEL.UNLIMITED)


@pytest.fixture
def by_oracle(monkeypatch) -> None:
    """Definitions are interpreted: nothing is compiled."""
    monkeypatch.setattr(PartitionCall, "__call__", interpreted)
    monkeypatch.setattr(executor, "compile_ahead", lambda _: None)


def interpreted(call: PartitionCall, *inputs: Any) -> list[torch.Tensor]:
    return interpret(call.definition.fusion, inputs, CPU)


def jit(function: Any, **options: Any) -> Any:
    return thunder.jit(function, executors=[fuser_ex], **options)


def fusions(trace: Any) -> list[Any]:
    """The fusions of a trace."""
    return [bsym for bsym in trace.bound_symbols if bsym.sym.is_fusion]


def calls(trace: Any) -> list[PartitionCall]:
    return [call for bsym in fusions(trace) for call in bsym._call_ctx.values()]


def traces(jitted: Any) -> tuple[Any, Any]:
    """The last traces of forward and backward."""
    return thunder.last_traces(jitted)[-1], thunder.last_backward_traces(jitted)[-1]


def saved(jitted: Any) -> list[tuple[int, ...]]:
    """Sizes of the tensors that the forward keeps for the backward, largest first."""
    (_, (tensors, _)) = traces(jitted)[0].bound_symbols[-1].args
    return sorted((tuple(tensor.shape) for tensor in tensors), reverse=True)


def results(function: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of floating inputs and of parameters."""
    taken = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = function(*taken)
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape) if out.dim() else 1.0
    (out.float() * weights).sum().backward()
    found = [out.detach(), *(x.grad for x in taken if x.is_floating_point())]
    if isinstance(function, nn.Module):
        found += [p.grad for p in function.parameters()]
        function.zero_grad()
    return found


def check(function: Any, *inputs: torch.Tensor, **bounds: float) -> Any:
    """The jitted function, whose results and gradients are eager's."""
    eager = copy.deepcopy(function) if isinstance(function, nn.Module) else function
    jitted = jit(function)
    torch.testing.assert_close(results(jitted, *inputs), results(eager, *inputs), **bounds)
    return jitted


# -- what is fused -------------------------------------------------------------------------------


def test_arithmetic_and_a_reduction_are_one_kernel() -> None:
    def function(x: Any, y: Any) -> Any:
        return (torch.tanh(x) * y + 1).sum(-1)

    x, y = torch.randn(8, 10), torch.randn(8, 10)
    run = thunder.jit(function, executors=["fuser"])
    torch.testing.assert_close(run(x, y), function(x, y))
    trace = thunder.last_traces(run)[-1]
    (call,) = calls(trace)
    assert len(call.plan().kernels) == 1
    assert "[t4] = fuserFusion0(x, y)" in str(trace)
    assert "# t0 = prims.tanh(x)" in str(trace)
    (report,) = integration.reports()
    assert (report.covered, report.compute_nodes) == (4, 4)
    assert extend.get_executor("fuser") is fuser_ex


def test_layernorm_is_a_kernel_each_way_and_keeps_row_values() -> None:
    run = check(nn.LayerNorm(64), torch.randn(32, 64), rtol=1e-4, atol=1e-4)
    forward, backward = traces(run)
    assert [len(call.plan().kernels) for call in calls(forward)] == [1]
    assert [len(call.plan().kernels) for call in calls(backward)] == [1]
    assert saved(run) == [(64,), (32, 64), (32, 1), (32,)]  # weight, input, and of each row two


@pytest.mark.parametrize(
    "options",
    [{}, {"reduction": "sum"}, {"weight": torch.rand(50)}, {"ignore_index": 3}],
    ids=["mean", "sum", "weight", "ignore"],
)
def test_cross_entropy_is_a_kernel_each_way(options: dict[str, Any], by_oracle: None) -> None:
    target = torch.randint(0, 50, (16,))
    target[:3] = 3
    run = check(nn.CrossEntropyLoss(**options), torch.randn(16, 50), target)
    for trace in traces(run):
        assert [len(call.plan().kernels) for call in calls(trace)] == [1]
    assert saved(run).count((16, 50)) == 1  # the input: log-probabilities are not written
    (forward,) = calls(traces(run)[0])
    assert forward.plan().kernels[0].bytes_written < 16 * 50


def test_cross_entropy_is_a_kernel_each_way_on_cuda(by_oracle: None) -> None:
    run = jit(nn.CrossEntropyLoss())
    run(torch.randn(512, 4096, requires_grad=True), torch.randint(0, 4096, (512,)))
    for trace in traces(run):
        (call,) = calls(trace)
        inputs = examples(call.graph)
        assert len(call.definition.plan(inputs, target="cuda:sm_90").kernels) == 1


def test_cross_entropy_of_images(by_oracle: None) -> None:
    check(nn.CrossEntropyLoss(), torch.randn(2, 5, 3, 4), torch.randint(0, 5, (2, 3, 4)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("sizes", [(4,), (4, 2, 3)], ids=["sequences", "volumes"])
def test_cross_entropy_of_what_has_more_or_fewer_dimensions_than_images(
    sizes: tuple[int, ...], reduction: str, by_oracle: None
) -> None:
    loss = nn.CrossEntropyLoss(ignore_index=2, reduction=reduction)
    check(loss, torch.randn(2, 5, *sizes), torch.randint(0, 5, (2, *sizes)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_cross_entropy_of_targets_of_any_integers(dtype: torch.dtype, by_oracle: None) -> None:
    x, target = torch.randn(6, 10), torch.randint(0, 10, (6,))
    got = results(jit(nn.CrossEntropyLoss()), x, target.to(dtype))
    torch.testing.assert_close(got, results(nn.CrossEntropyLoss(), x, target))


def test_thunder_may_have_a_region_fused_again() -> None:
    x = torch.randn(3)
    run = jit(lambda x: (x.exp() * 2, x.sum()))
    run(x)
    again = passes.update_fusion_call_ctx(thunder.last_traces(run)[-1])
    (before,), (after,) = calls(thunder.last_traces(run)[-1]), calls(again)
    assert after is not before
    torch.testing.assert_close(again.python_callable()(x), (x.exp() * 2, x.sum()))


def test_the_target_is_an_option() -> None:
    x = torch.randn(4, 8)
    run = jit(lambda x: (x * x).sum(-1), fuser_target="emulator")
    torch.testing.assert_close(run(x), (x * x).sum(-1))
    assert "emulator" in str(calls(thunder.last_traces(run)[-1])[0].plan())
    with pytest.raises(TargetError, match="the targets are"):
        jit(lambda x: x + 1, fuser_target="tpu")(torch.randn(3))


def test_primitives_mean_what_they_mean_in_thunder(by_oracle: None) -> None:
    inputs = [make() for _, make in GROUPS.values()]

    def function(*tensors: Any) -> Any:
        outs, place = [], 0
        for (group, _), own in zip(GROUPS.values(), inputs, strict=True):
            outs.extend(group(*tensors[place : place + len(own)]))
            place += len(own)
        return tuple(outs)

    tensors = [tensor for own in inputs for tensor in own]
    trace = thunder.trace()(function, *tensors)
    ours = passes.transform_for_execution(trace, [fuser_ex, *ALWAYS])
    theirs = passes.transform_for_execution(trace, [*extend.get_default_executors(), *ALWAYS])
    got, expected = (made.python_callable()(*tensors) for made in (ours, theirs))
    torch.testing.assert_close(got, expected)
    (report,) = integration.reports()
    assert report.percent == 100, str(report)
    seen = {sub.sym.id for bsym in ours.bound_symbols for sub in bsym.subsymbols}
    elsewhere = {ids.UNIFORM, ids.RANDN, ids.LERP, ltorch.nll_loss_backward.id}
    assert set(ROWS) - seen == elsewhere


def test_lerp_and_random_numbers(by_oracle: None) -> None:
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    lerp = jit(lambda x, y: prims.lerp(x, y, x))(x, y)
    torch.testing.assert_close(lerp, torch.lerp(x, y, x))
    uniform = jit(lambda x: torch.rand_like(x) * 2 - 1)(x)
    assert -1 <= uniform.min() < -0.9 < 0.9 < uniform.max() < 1
    normal = jit(lambda x: x * 0 + torch.randn(64, 64))(x)
    assert abs(normal.mean()) < 0.1
    assert 0.9 < normal.std() < 1.1
    assert all(report.percent == 100 for report in integration.reports())


def test_dropout_masks_forward_and_backward_alike(by_oracle: None) -> None:
    x = torch.rand(64, 64) + 1
    x.requires_grad_()
    y = jit(lambda x: nn.functional.dropout(x, 0.25) * 3)(x)
    y.sum().backward()
    torch.testing.assert_close(y / x, x.grad)
    assert 0.2 < (y == 0).float().mean() < 0.3


def test_16_bit_floats() -> None:
    module = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)).bfloat16()
    run = check(module, torch.randn(8, 32, dtype=torch.bfloat16), rtol=5e-2, atol=5e-2)
    assert all(len(fusions(trace)) for trace in traces(run))


def test_mixed_types(by_oracle: None) -> None:
    def function(x: Any, y: Any, i: Any) -> Any:
        return (x * y.float()).sum(-1) + i.double().mean(-1) + (y > 0).sum(-1)

    x, y, i = torch.randn(4, 8), torch.randn(4, 8, dtype=torch.bfloat16), torch.arange(32)
    inputs = (x, y, i.reshape(4, 8))
    torch.testing.assert_close(jit(function)(*inputs), function(*inputs))


# -- models --------------------------------------------------------------------------------------


class Block(nn.Module):
    """A block of a small GPT-2 between an embedding and a loss."""

    def __init__(self, words: int = 61, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(16, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act = nn.GELU(approximate="tanh")
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, text: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        count, length = text.shape
        x = self.embed(text) + self.place(torch.arange(length))
        parts = self.qkv(self.first(x)).split(x.shape[-1], -1)
        q, k, v = (p.view(count, length, self.heads, -1).transpose(1, 2) for p in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        x = x + self.down(self.act(self.up(self.second(x))))
        scores = self.head(x)
        return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


def test_a_block_learns_as_in_eager_torch() -> None:
    torch.manual_seed(0)
    ours = Block()
    theirs = copy.deepcopy(ours)
    text, target = torch.randint(0, 61, (2, 4, 16))
    run, losses = jit(ours), []
    for _ in range(4):
        losses.append([])
        for model, call in ((ours, run), (theirs, theirs)):
            loss = call(text, target)
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.5 * weight.grad
            model.zero_grad()
            losses[-1].append(loss.detach())
    torch.testing.assert_close(*map(torch.stack, zip(*losses, strict=True)))
    assert losses[-1][0] < losses[0][0] - 0.1
    (report,) = integration.reports()
    assert report.percent == 100, str(report)
    assert report.products > 10


def test_what_torch_reads_again_is_kept_and_the_rest_is_not(by_oracle: None) -> None:
    module = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    run = check(module, torch.randn(4, 8))
    # Both operands of the products, and of the gelu its input: nothing in between.
    assert [sizes for sizes in saved(run) if sizes[0] == 4] == [(4, 32), (4, 32), (4, 8)]


def test_buffers_are_updated(by_oracle: None) -> None:
    ours = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    theirs, run, x = copy.deepcopy(ours), jit(ours), torch.randn(2, 2, 6, 6)
    for _ in range(2):
        torch.testing.assert_close(results(run, x), results(theirs, x), rtol=1e-3, atol=1e-3)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)


def test_inputs_are_updated(by_oracle: None) -> None:
    def function(x: Any) -> Any:
        old = x.exp()
        x.mul_(2).add_(1)
        return x.sin() + old

    ours, theirs = torch.arange(4.0), torch.arange(4.0)
    torch.testing.assert_close(jit(function)(ours), function(theirs))
    torch.testing.assert_close(ours, theirs)


def test_the_backward_is_not_given_what_was_written_over(by_oracle: None) -> None:
    def function(x: Any, running: Any) -> Any:
        y = x * running.exp()
        running.add_(1)
        return y

    x, found = torch.randn(8, 8), []
    for run in (jit(function), function):
        taken, running = x.clone().requires_grad_(), x.clone()
        run(taken, running).sum().backward()
        found.append([taken.grad, running])
    torch.testing.assert_close(*found)


def test_the_forward_does_not_wait_for_gradients(by_oracle: None) -> None:
    def function(x: Any, y: Any) -> Any:
        # The gradient of y needs nothing of torch's; what follows the order reads x as well.
        first = y.exp() * x
        return first, (torch.argsort(first, -1) * x).sin()

    found = []
    for run in (jit(function), function):
        torch.manual_seed(0)
        x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        first, second = run(x, y)
        (first.sum() + second.sum()).backward()
        found.append([first.detach(), second.detach(), x.grad, y.grad])
    torch.testing.assert_close(*found)


# -- what stays torch's --------------------------------------------------------------------------


def test_what_has_no_row_stays_torchs_and_is_named(by_oracle: None) -> None:
    def function(x: Any) -> Any:
        return torch.sort(x * 2, -1)[0].exp()

    x = torch.randn(4, 8)
    run = jit(function)
    torch.testing.assert_close(run(x), function(x))
    assert len(fusions(thunder.last_traces(run)[-1])) == 2
    (report,) = integration.reports()
    assert [(entry.overload, entry.reason) for entry in report.uncovered] == [
        ("sort", "fuser has no definition for it")
    ]


def test_partitions_do_not_depend_on_each_other_in_a_circle(by_oracle: None) -> None:
    def function(x: Any, w: Any) -> Any:
        a = x.exp()
        b = torch.sort(a, -1)[0]
        c = a * b  # reads a, and a through torch
        d = c @ w
        return c + d.sin() * a, torch.sort(c + d, -1)[0] * b

    x, w = torch.randn(6, 6), torch.randn(6, 6)
    torch.testing.assert_close(jit(function)(x, w), function(x, w))


def test_sizes_known_at_the_call_only_are_torchs(by_oracle: None) -> None:
    run = jit(lambda x: x.exp() * 2, cache="symbolic values")
    for size in (3, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(run(x), x.exp() * 2)
    assert "a size is known at the call only" in str(integration.reports()[0])


def test_without_fuel_nothing_more_is_fused(by_oracle: None) -> None:
    fuser_ex.set_fuel(1)
    x = torch.randn(4, 4)

    def function(x: Any) -> Any:
        return ((x * 2) @ x).exp()

    run = jit(function)
    torch.testing.assert_close(run(x), function(x))
    assert len(fusions(thunder.last_traces(run)[-1])) == 1
    with pytest.raises(ValueError, match="non-negative"):
        fuser_ex.set_fuel(-1)


# -- failures ------------------------------------------------------------------------------------


def failing(*_: object, **__: object) -> None:
    raise LaunchError(kernel="k", reason="made to fail")


def test_torch_takes_over_where_the_compiler_fails(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("FUSER_STRICT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuser.pipeline.Executor.execute", failing)
    x = torch.randn(4, 8)
    run = jit(lambda x: x.exp().sum(-1))
    with pytest.warns(RuntimeWarning, match="made to fail") as caught:
        outs = [run(x), run(x + 1)]
    torch.testing.assert_close(outs, [x.exp().sum(-1), (x + 1).exp().sum(-1)])
    (warning,) = [w for w in caught if w.category is RuntimeWarning]
    (script,) = tmp_path.iterdir()
    assert str(script) in str(warning.message)
    (report,) = integration.reports()
    assert len(report.failed) == 1


def test_strict_raises_instead(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuser.pipeline.Executor.execute", failing)
    with pytest.raises(PartitionError, match="made to fail"):
        jit(lambda x: x.exp().sum(-1))(torch.randn(4, 8))


def test_the_users_mistakes_are_torchs_errors() -> None:
    run = jit(lambda x, at: torch.index_select(x, 0, at) + 1)
    x = torch.randn(4, 2)
    assert run(x, torch.tensor([3])).shape == (1, 2)
    with pytest.raises(IndexError, match="out of range"):
        run(x, torch.tensor([4]))
    torch.testing.assert_close(run(x, torch.tensor([0])), x[:1] + 1)


# -- imports -------------------------------------------------------------------------------------


def python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.stdout + done.stderr


def test_thunder_is_imported_when_it_is_asked_for_and_missed_by_name() -> None:
    shown = python(
        "import sys, fuser, fuser.integrations; print('thunder' in sys.modules);"
        "sys.modules['thunder'] = None; import fuser.integrations.thunder"
    )
    assert shown.startswith("False")
    assert shown.strip().endswith("pip install 'fuser[thunder]'")


@pytest.mark.parametrize("error", [AttributeError, ImportError])
def test_a_torch_that_thunder_cannot_be_imported_beside_is_named(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise error(f"{name} lacks it")

    monkeypatch.setattr(importlib, "import_module", missing)
    beside = re.escape(f"beside torch {torch.__version__}: thunder lacks it")
    with pytest.raises(ImportError, match=beside) as at:
        load_thunder("thunder")
    assert at.value.name == "thunder"


def test_torch_is_left_as_it_was() -> None:
    names = ("align_as", "align_to", "has_names", "refine_names", "rename")
    before = [name for name in names if hasattr(torch.Tensor, name)]
    with named_tensors():
        assert all(hasattr(torch.Tensor, name) for name in names)
    assert [name for name in names if hasattr(torch.Tensor, name)] == before


# -- random programs -----------------------------------------------------------------------------

Op = Callable[[list[torch.Tensor], int, int], torch.Tensor]
OPS: Sequence[Op] = (
    lambda v, i, j: v[i] + v[j],
    lambda v, i, j: v[i] * v[j].sigmoid(),
    lambda v, i, j: torch.where(v[i] > v[j], v[i], v[j] * 0.5),
    lambda v, i, j: v[i].tanh(),
    lambda v, i, j: v[i] - v[j].mean(-1, keepdim=True),
    lambda v, i, j: v[i].softmax(-1) + v[j],
    lambda v, i, j: v[i].amax(0) * v[j],
    lambda v, i, j: v[i].transpose(0, 1) - v[j],
    lambda v, i, j: torch.cat([v[i][:2], v[j][2:]], 0),
    lambda v, i, j: (v[i] * 0.3) @ v[j].tanh(),  # torch's
    lambda v, i, j: torch.sort(v[i], -1)[0] + v[j],  # torch's
    lambda v, i, j: v[i].reshape(2, 8)[:, 1:5].reshape(2, 4).repeat(2, 1) + v[j],
    lambda v, i, j: v[i].to(torch.bfloat16).to(torch.float32) + v[j],
)
STEPS = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=7
)


def program(steps: Sequence[tuple[Op, int, int]]) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        values = [x, y]
        for op, i, j in steps:
            values.append(op(values, i % len(values), j % len(values)))
        return values[-1] + values[-2]

    return run


@settings(max_examples=8, deadline=None)
@given(STEPS)
def test_random_programs(steps: Sequence[tuple[Op, int, int]]) -> None:
    function = program(steps)
    torch.manual_seed(1)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(PartitionCall, "__call__", interpreted)
        patched.setattr(executor, "compile_ahead", lambda _: None)
        got = results(jit(function), x, y)
    torch.testing.assert_close(got, results(function, x, y), rtol=1e-2, atol=1e-2)
