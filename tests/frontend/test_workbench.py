"""`validate` and `profile`, on both objects that can be executed."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import fuser
from fuser import DataType, Fusion, FusionDefinition, errors
from fuser.runtime.calls.executor import Runner
from tests.kernels_made import kernels_made


@pytest.fixture(autouse=True)
def _oracle() -> None:
    """These run the real thing."""


def layernorm(x: torch.Tensor) -> tuple[Fusion, FusionDefinition]:
    fs = Fusion()
    with FusionDefinition(fs) as fd:
        t = fd.from_pytorch(x)
        var, mean = fd.ops.var_mean(t, [1], keepdim=True)
        normed = (t - mean) * fd.ops.rsqrt(var + 1e-5)
        fd.add_output(fd.ops.reshape(normed, [-1]))
        fd.add_output(fd.ops.topk(normed, 3, 1, sorted=True)[0])
    return fs, fd


def broken(monkeypatch: pytest.MonkeyPatch, change: float) -> None:
    """Executions whose first result is off by `change` in its last element."""
    run = Runner.run.func

    def wrong(self: Runner, inputs: list[torch.Tensor | float]) -> list[torch.Tensor]:
        results = run(self)(inputs)
        results[0].view(-1)[-1] += change
        return results

    monkeypatch.setattr(Runner, "run", wrong)


# -- validate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_outputs_are_those_of_execute(target: str):
    x = torch.randn(6, 33)
    for held in layernorm(x):
        got = held.validate([x], target=target)
        for a, b in zip(got, held.execute([x], target=target), strict=True):
            assert torch.equal(a, b)


def test_a_wrong_result_is_named(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(6, 33)
    fs, fd = layernorm(x)
    broken(monkeypatch, 0.25)
    for held in (fs, fd):
        with pytest.raises(errors.OutputDifferenceError) as caught:
            held.validate([x])
        assert caught.value.fields["index"] == [6 * 33 - 1]
        assert caught.value.fields["count"] == 1
        assert "output 0 (T" in str(caught.value)


def test_references_take_the_oracles_place():
    x = torch.randn(6, 33)
    _, fd = layernorm(x)
    normed = torch.nn.functional.layer_norm(x, (33,), eps=1e-5) * (32 / 33) ** 0.5
    references = [normed.reshape(-1), normed.topk(3, 1)[0]]
    fd.validate([x], references)
    references[1] = references[1] + 1e-3
    with pytest.raises(errors.OutputDifferenceError, match=r"output 1 .*the reference holds"):
        fd.validate([x], references)
    with pytest.raises(errors.ReferenceOutputError, match="expected 2 tensor"):
        fd.validate([x], references[:1])


def test_random_numbers_are_those_of_the_execution():
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        fd.add_output(t + fd.ops.rand_like(t))
    x = torch.zeros(50)
    torch.manual_seed(7)
    (got,) = fd.validate([x])
    after = torch.rand(3)
    torch.manual_seed(7)
    (want,) = fd.execute([x])
    assert torch.equal(got, want)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_what_else_draws_meanwhile_changes_no_validation(
    target: str, monkeypatch: pytest.MonkeyPatch
):
    run = Runner.run.func

    def disturbed(self: Runner, inputs: list[torch.Tensor | float]) -> list[torch.Tensor]:
        torch.rand(3)
        results = run(self)(inputs)
        torch.rand(3)
        return results

    x = torch.randn(37, 5)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(t * fd.ops.randn_like(t), dims=[0]))
        fd.add_output(fd.ops.uniform(0.0, 1.0, [4], dtype=DataType.Half))
        fd.add_output(fd.ops.rand_like(t), alias_input=t)
    monkeypatch.setattr(Runner, "run", disturbed)
    for _ in range(3):
        fd.validate([x], target=target)


def test_several_threads_may_validate_what_is_drawn():
    x = torch.randn(37, 53)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(t + fd.ops.rand_like(t))
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(lambda _: fd.validate([x]), range(40)))) == 40


def doubling() -> FusionDefinition:
    """Doubles its input in place, and returns what it was, negated."""
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(fd.ops.neg(t))
        fd.add_output(t * 2.0, alias_input=t)
    return fd


def test_an_updated_input_is_compared_with_what_it_should_become(monkeypatch: pytest.MonkeyPatch):
    x = torch.arange(4.0)
    (out,) = doubling().validate([x])
    assert out.tolist() == [0, -1, -2, -3]
    assert x.tolist() == [0, 2, 4, 6]
    run = Runner.run.func

    def without_the_update(runner: Runner, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return run(runner)([inputs[0].clone()])

    monkeypatch.setattr(Runner, "run", without_the_update)
    with pytest.raises(errors.OutputDifferenceError, match="output 1 "):
        doubling().validate([x])


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_an_updated_input_that_is_returned_is_what_it_should_become(target: str):
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(t * 2.0, alias_input=t)
        fd.add_output(t)
    x = torch.arange(4.0)
    (out,) = fd.validate([x], target=target)
    assert out.tolist() == [0, 2, 4, 6]
    (out,) = fd.validate([x], [torch.arange(4.0) * 4], target=target)
    assert out.tolist() == [0, 4, 8, 12]


def test_what_lies_in_an_updated_input_is_compared_as_it_was():
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        other = fd.define_tensor(shape=[-1, -1])
        fd.add_output(t + other, alias_input=t)
    x = torch.arange(9.0).view(3, 3)
    fd.validate([x, x.t()])
    assert x.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]


def test_a_scalar_that_decides_a_size():
    with FusionDefinition() as fd:
        n = fd.define_vector(2)
        fd.add_output(fd.ops.full(n, 0.5, DataType.Half) * 3.0)
    assert fd.validate([[2, 3]])[0].shape == (2, 3)


def test_options_and_mistakes_are_those_of_execute():
    _, fd = layernorm(torch.randn(2, 3))
    fd.validate([torch.randn(2, 3)], save_repro_inputs=True)
    assert "(2, 3)" in fd.last_repro_script()
    with pytest.raises(errors.InputRankError):
        fd.validate([torch.randn(3)])
    with pytest.raises(errors.InputCountError):
        fd.validate([])
    with pytest.raises(errors.CallError, match="wibble"):
        fd.validate([torch.randn(2, 3)], wibble=1)


# -- profile -------------------------------------------------------------------------------------


def test_a_call_without_inputs_says_how_it_is_called():
    for bench in layernorm(torch.randn(4, 8)):
        with pytest.raises(errors.CallError, match=r"missing .* 'inputs'; it is called as execute"):
            bench.execute()


def test_every_step_of_the_plan_is_timed():
    x = torch.randn(64, 256)
    for held in layernorm(x):
        profile, plan = held.profile([x], runs=3), held.plan([x])
        assert [step.kind for step in profile.steps] == [step.kind for step in plan.steps]
        assert [step.name for step in profile.steps] == [step.name for step in plan.steps]
        assert [step.input_bytes for step in profile.steps] == [s.bytes_read for s in plan.steps]
        assert len(plan.kernels) == len(plan.externs) == 1
        assert profile.segments == len(profile.kernel_profiles) == 2
        assert profile.fusion_id == held.id()
        assert profile.input_bytes + profile.output_bytes == plan.bytes_moved
        assert profile.kernel_time_ms == sum(step.time_ms for step in profile.steps)
        for step in (s for s in profile.steps if s.kind != "alias"):
            assert step.time_ms > 0
            assert step.copy_time_ms is not None
            assert step.fraction_of_copy == step.copy_time_ms / step.time_ms
            moved = step.input_bytes + step.output_bytes
            assert step.effective_bandwidth_gbs == pytest.approx(moved / step.time_ms / 1e6)
        assert [s.fraction_of_copy for s in profile.steps if s.kind == "alias"] == [None]


def test_profiles_are_frozen():
    x = torch.randn(4, 8)
    profile = layernorm(x)[1].profile([x], runs=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.runs = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_compiling_is_timed_once_and_kept():
    x = torch.randn(4, 8)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sin(fd.from_pytorch(x)) * 0.7312)
    fd.execute([x])
    first, second = (fd.profile([x], runs=1).compile_time_ms for _ in range(2))
    assert first == second > 0


def test_the_table_names_steps_and_says_what_caches_hold():
    x = torch.randn(64, 256)
    _, fd = layernorm(x)
    text = str(fd.profile([x], runs=1))
    first, head, _, *rows, total = text.splitlines()
    assert first == "profile for cpu on cpu: one run, caches as the run before left them"
    assert head.split() == [
        *("step", "name", "scheduler", "time", "read", "written", "GB/s", "of", "copy", "compile"),
    ]
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    assert "topk (extern)" in text
    assert "host" in total
    assert "caches flushed before each" in str(fd.profile([x], runs=1, cold=True))


def test_profiling_runs_what_execute_runs():
    x = torch.randn(4, 8)
    _, fd = layernorm(x)
    fd.execute([x])
    before, made = fuser.stats(), kernels_made()
    fd.profile([x], runs=4)
    after = fuser.stats()
    assert after["kernels_launched"] - before["kernels_launched"] == 5
    assert kernels_made() == made
    assert after["plans_built"] == before["plans_built"]


def test_the_emulator_and_what_torch_runs_can_be_profiled():
    x = torch.randn(4, 8)
    assert layernorm(x)[1].profile([x], target="emulator", runs=1).target == "emulator"
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], dtype=DataType.ComplexFloat)
        fd.add_output(fd.ops.prod(t))
    (step,) = fd.profile([torch.randn(5, dtype=torch.complex64)], runs=1).steps
    assert (step.kind, step.scheduler) == ("kernel", "torch")


def test_nothing_to_do_takes_no_steps():
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]))
    profile = fd.profile([torch.randn(3)], runs=1)
    assert profile.kernel_time_ms >= 0.0
    assert profile.effective_bandwidth_gbs == 0.0
    assert str(profile)


def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(4, 8)
    _, fd = layernorm(x)
    with pytest.raises(errors.ArgumentError, match="runs = 0"):
        fd.profile([x], runs=0)
    with pytest.raises(errors.ArgumentTypeError, match="runs must be an int, got str"):
        fd.profile([x], runs="3")  # pyright: ignore[reportArgumentType]
    for name in ("execute", "validate", "plan", "is_compiled"):
        words = rf"^{name}: inputs must be a list of .*NoneType"
        with pytest.raises(errors.ArgumentTypeError, match=words):
            getattr(fd, name)(None)
    for name in ("execute", "validate", "plan", "profile"):
        with pytest.raises(errors.ArgumentError, match=f"^{name}: device = 'meta': the inputs are"):
            getattr(fd, name)([x], device="meta")
    with pytest.raises(errors.ArgumentError, match=r"^fec.get_cuda_kernel: device = 'meta'"):
        fd.fec.get_cuda_kernel([x], device="meta")
    with pytest.raises(errors.InputKindError):
        fd.profile([1.0])
    with pytest.raises(errors.EmptyDefinitionError):
        Fusion().profile([x])
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    with pytest.raises(errors.TargetError, match="without a C"):
        fd.profile([x])


def test_profiling_updates_no_input():
    x = torch.randn(8, 5)[:, ::2]
    before = x.clone()
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(t * 2.0, t)
    fd.profile([x], runs=3)
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda x: x.to("meta"), "got one of layout torch.strided on meta"),
        (lambda x: x.to_sparse(), "expected one of layout torch.strided on cpu"),
    ],
)
def test_a_reference_that_cannot_be_compared_is_named(made: Any, words: str) -> None:
    x = torch.randn(3, 4)
    with FusionDefinition() as fd:
        fd.add_output(fd.from_pytorch(x) * 2.0)
    with pytest.raises(errors.ReferenceOutputError, match=words):
        fd.validate([x], [made(x * 2)])


def test_arguments_that_are_no_lists_are_named() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor(shape=[-1]) * 2.0)
    x: Any = torch.ones(3)
    with pytest.raises(errors.ArgumentTypeError, match="reference_outputs must be a list or tuple"):
        fd.validate([x], x)
    for call in (fd.repro_script_for, lambda given: fd.execute(given, save_repro_inputs=True)):
        with pytest.raises(errors.ArgumentTypeError, match="inputs must be a list of tensors"):
            call(3)
    with pytest.raises(errors.ArgumentTypeError, match="numbers must be a bool, got 2"):
        fd.repro_script_for([x], numbers=2)


@pytest.mark.filterwarnings("ignore:.*fusions run unfused")
def test_what_ran_unfused_has_no_code_for_want_of_a_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("fuser.pipeline", "fuser.frontend.workbench"):
        monkeypatch.setattr(f"{module}.find_compiler", lambda: None)
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]) * 2.0)
    fd.execute([torch.ones(3)])
    with pytest.raises(errors.NothingSavedError, match=r"unfused in torch\); plan\(inputs\) tells"):
        fd.last_cuda_code()
