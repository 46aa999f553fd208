"""Profiles of one call, and what is printed during one."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch

import fuser
from fuser import Fusion, FusionDefinition, PythonProfiler, debug, errors
from fuser.runtime.plans.profile_totals import step_totals


@pytest.fixture(autouse=True)
def _oracle() -> None:
    """These run the real thing."""


X = torch.randn(6, 8)


def doubling(fs: Fusion | None = None) -> FusionDefinition:
    """Doubles its input in place, and returns what it was, negated."""
    with FusionDefinition(fs) as fd:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.neg(t))
        fd.add_output(t * 2.0, alias_input=t)
    return fd


@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_the_profile_is_of_the_call_itself(target: str) -> None:
    fs = Fusion()
    fd, x = doubling(fs), X.clone()
    with pytest.raises(ValueError, match="no execution was timed"):
        fd.profile()
    fd.execute([x], target=target)
    before = fuser.stats()["kernels_launched"]
    (out,) = fd.execute([x], profile=True, target=target)
    kernels = fuser.stats()["kernels_launched"] - before
    assert torch.equal(x, 4 * X)
    assert torch.equal(out, -2 * X)
    profile = fd.profile()
    assert fs.profile() is profile
    assert profile.runs == 1
    assert profile.segments == kernels
    assert profile.fusion_id == fd.id()
    assert profile.kernel_profiles[0].time_ms > 0
    assert profile.input_bytes == fd.plan([x]).kernels[0].bytes_read
    assert "one run, caches as the run before left them" in str(profile)
    fd.execute([x])
    assert fd.profile() is profile
    assert fd.profile([x], runs=2).runs == 2


def test_a_call_that_is_timed_is_the_last_one() -> None:
    fd = doubling()
    fd.execute([X.clone()], profile=True)
    assert fd.last_cuda_code() == fd.cuda_code_for([X])


def test_random_numbers_are_drawn_once() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        fd.add_output(t + fd.ops.rand_like(t))
    results: list[torch.Tensor] = []
    for timed in (False, True):
        torch.manual_seed(3)
        results += [*fd.execute([torch.zeros(9)], profile=timed), torch.rand(2)]
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])


def test_a_profiler_keeps_the_last_of_its_block() -> None:
    fd, other = doubling(), doubling()
    fd.execute([X.clone()])
    with PythonProfiler(auto_scheduled=True) as prof:
        with pytest.raises(errors.NothingSavedError, match="inside of its block"):
            _ = prof.profile
        fd.execute([X.clone()])
        assert prof.profile is fd.profile()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(other.execute, [X.clone()]).result()
    assert prof.profile is other.profile()
    fd.execute([X.clone()])
    assert prof.profile is other.profile()
    with pytest.raises(errors.ArgumentError, match="auto_scheduled"):
        PythonProfiler(auto_scheduled=False)


def test_a_profiler_prints_the_steps_of_all_executions_together() -> None:
    fd, other = doubling(), doubling()
    with PythonProfiler() as prof:
        assert prof.profiles == ()
        for _ in range(3):
            fd.execute([X.clone()])
        other.execute([torch.ones(300, 400)])
    assert [profile.fusion_id for profile in prof.profiles] == [fd.id()] * 3 + [other.id()]
    totals = step_totals(prof.profiles)
    assert {total.fusion_id: len(total.times) for total in totals} == {fd.id(): 3, other.id(): 1}
    assert [t.total_time_ms for t in totals] == sorted(t.total_time_ms for t in totals)[::-1]
    steps = [step for profile in prof.profiles for step in profile.steps]
    assert sum(t.bytes_moved for t in totals) == sum(s.input_bytes + s.output_bytes for s in steps)
    head, _, _, *lines, end = str(prof).splitlines()
    assert head.startswith("4 execution(s)")
    assert {line.split()[0] for line in lines} == {str(fd.id()), str(other.id())}
    assert end.startswith("steps ")
    assert str(PythonProfiler()).startswith("0 execution(s)")


def test_partitions_of_a_compiled_model_are_timed() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softmax(x * 2, -1)

    compiled = torch.compile(double, backend="fuser")
    compiled(X)
    with PythonProfiler() as prof:
        assert torch.allclose(compiled(X), double(X))
    assert [total.step.kind for total in step_totals(prof.profiles)] == ["kernel"]


def test_nothing_is_timed_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    with pytest.raises(errors.TargetError, match="timed"):
        doubling().execute([X.clone()], profile=True)


@pytest.mark.filterwarnings("ignore:.*fusions run unfused")
def test_a_profiler_changes_nothing_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuser.pipeline.find_compiler", lambda: None)
    x = X.clone()
    with PythonProfiler() as prof:
        (result,) = doubling().execute([x])
    assert torch.equal(result, -X)
    assert prof.profiles == ()


def test_what_is_printed_during_a_call_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debug, "enabled", lambda name: name == "cpu_kernel")
    fd = doubling()
    assert fd.debug_output() is None
    fd.execute([X.clone()], capture_debug_output=True)
    assert capsys.readouterr().out == ""
    assert (fd.debug_output() or "").startswith("=== cpu_kernel")
    fd.execute([X.clone()], capture_debug_output=True)
    assert fd.debug_output() == ""
    with pytest.raises(errors.InputCountError):
        fd.execute([], capture_debug_output=True)


def test_threads_keep_their_own_dumps_and_print_what_they_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debug, "enabled", lambda name: name == "fusion_ir_original")
    both, stdout = threading.Barrier(2), sys.stdout
    kept: dict[float, str] = {}

    def work(factor: float) -> None:
        with FusionDefinition() as fd:
            fd.add_output(fd.define_tensor([-1]) * factor)
        both.wait(60)
        for size in (3, 4):
            fd.execute([torch.ones(size)], capture_debug_output=True)
            kept[factor] = fd.debug_output() or ""
            print(f"printed {factor}")

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2.5, 3.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is stdout
    assert capsys.readouterr().out.count("printed") == 4
    for own, other in ((2.5, 3.5), (3.5, 2.5)):
        assert f"{own}" in kept[own]
        assert f"{other}" not in kept[own]


def test_a_failed_call_keeps_its_dumps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "enabled", lambda name: name == "fusion_ir_original")
    monkeypatch.setattr("fuser.planning.concretize_for", mock.Mock(side_effect=ValueError))
    fd = doubling()
    with pytest.raises(ValueError):  # noqa: PT011
        fd.execute([X.clone()], capture_debug_output=True)
    assert (fd.debug_output() or "").startswith("=== fusion_ir_original")


def test_inputs_and_outputs_are_handles() -> None:
    fd = doubling()
    assert [value.name for value in fd.inputs()] == ["T0"]
    assert [value.name for value in fd.outputs()] == ["T1", "T3"]
    assert FusionDefinition(fd.id()).outputs()[0].dtype() is fuser.DataType.Float
    assert FusionDefinition().inputs() == []
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1])
        (held,) = fd.inputs()
        fd.add_output(held + t)
    assert torch.equal(fd.execute([torch.ones(2)])[0], torch.full((2,), 2.0))
