from typing import Any

import pytest
import torch

from fuser import FusionDefinition, debug
from fuser.ir.nodes import Fusion
from fuser.planning import compile_plan
from fuser.runtime.backend import Backend, CpuBackend, CudaBackend, EmulatorBackend
from fuser.runtime.target_name import TargetName
from fuser.schedule import (
    CpuParameters,
    CpuRowParameters,
    CudaParameters,
    CudaRowParameters,
    LoopNest,
    ProcessorParameters,
)
from fuser.schedule.tree.loop_nest import Parameters
from fuser.segmenter import Segment
from tests.mapped_by import mapped_by


def backend_of(target: str, given: torch.Tensor, fusion: Fusion | None = None) -> Backend:
    if fusion is None:
        with FusionDefinition() as fd:
            x = fd.from_pytorch(given)
            fd.add_output(fd.ops.neg(fd.ops.segment_set(fd.ops.exp(x))))
        fusion = fd.fusion
    return compile_plan(fusion, [given], TargetName(target)).backend


@pytest.mark.parametrize(
    ("target", "kind"),
    [("cpu", CpuBackend), ("cuda", CudaBackend), ("emulator", EmulatorBackend)],
)
def test_each_target_has_its_backend(target: str, kind: type[Backend]):
    assert type(backend_of(target, torch.empty(64))) is kind


def test_every_segment_has_a_nest_and_a_text():
    backend = backend_of("cpu", torch.empty(64))
    assert list(backend.segments) == list(backend.nests) == list(backend.sources)
    assert len(backend.segments) == 2


def test_buffers_made_in_between_are_as_aligned_as_the_allocator_makes_them():
    misaligned = torch.empty(4097)[1:]
    first, second = backend_of("cuda", misaligned).sources.values()
    assert "load_pieces<1>(T0" in first.code
    assert "load_vector(T2, T2_in" in second.code


def test_results_of_torch_are_aligned_too():
    given = torch.empty(64, 64)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.ops.argsort(fd.from_pytorch(given), 0)))
    (source,) = backend_of("cuda", given, fd.fusion).sources.values()
    assert "load_vector(T1, T1_in" in source.code
    assert "load_part" not in source.code


def test_a_slice_of_an_aligned_buffer_is_read_as_its_offset_allows():
    given = torch.empty(4096)
    for start, wide in ((4, True), (1, False)):
        with FusionDefinition() as fd:
            part = fd.ops.slice(fd.from_pytorch(given), [start], [start + 2048])
            fd.add_output(fd.ops.neg(part))
        (source,) = backend_of("cuda", given, fd.fusion).sources.values()
        assert ("load_pieces" in source.code) != wide


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_update_is_scheduled_once(target: str, monkeypatch: pytest.MonkeyPatch):
    kind = CpuBackend if target == "cpu" else CudaBackend
    schedule, scheduled = kind.schedule, list[str]()

    def counted(backend: Any, segment: Segment) -> LoopNest:
        scheduled.append(segment.name)
        return schedule(backend, segment)

    monkeypatch.setattr(kind, "schedule", counted)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(64, 64))
        fd.add_output(fd.ops.neg(fd.ops.segment_set(fd.ops.exp(x))))
        fd.add_output(x - fd.ops.mean(x, dims=[1], keepdim=True), alias_input=x)
    backend = backend_of(target, torch.empty(64, 64), fd.fusion)
    (update,) = backend.segmented.updates
    assert update.refusal is None
    assert sorted(scheduled) == sorted(backend.nests)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_may_not_be_overwritten_is_scheduled_where_it_lies(target: str):
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.empty(64, 64))
        fd.add_output(fd.ops.permute(x, [1, 0]) + 1.0, alias_input=x)
    backend = backend_of(target, torch.empty(64, 64), fd.fusion)
    (update,) = backend.segmented.updates
    assert update.refusal == f"an element is computed from others of the old {update.into}"
    assert [nest.overwrite_refusal for nest in backend.nests.values()] == [None]


@pytest.mark.parametrize("target", ["cpu", "cuda", "emulator"])
def test_parameters_are_the_backends_own_and_can_be_overridden(target: str):
    kind = {"cpu": CpuBackend, "cuda": CudaBackend, "emulator": EmulatorBackend}[target]
    cpu = target == "cpu"
    points = (
        CpuParameters(ProcessorParameters(serial_work=1)) if cpu else CudaParameters(threads=64)
    )
    rows = CpuRowParameters(lanes=8) if cpu else CudaRowParameters(warps=2)
    x = torch.empty(64, 64, device="meta")
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        dear = fd.ops.lgamma(fd.ops.lgamma(t))  # points on every target, not a row of them
        fd.add_output(fd.ops.segment_set(dear))
        fd.add_output(fd.ops.sum(fd.ops.neg(fd.ops.segment_set(fd.ops.exp(t))), [1]))

    def chosen() -> set[Parameters]:
        backend = backend_of(target, x, fd.fusion)
        assert type(backend) is kind
        return {nest.parameters for nest in backend.nests.values()}

    usual = chosen()
    with mapped_by(points, rows):
        assert chosen() == {points, rows}
    assert chosen() == usual
    assert not usual & {points, rows}


def test_constants_are_printed_once_after_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(debug, "enabled", lambda name: name == "scheduler_params")
    backend_of("cpu", torch.empty(64))
    *chosen, constants = capsys.readouterr().out.split("=== scheduler_params: ")[1:]
    assert [each.splitlines()[1].split(",")[0] for each in chosen] == ["cpu pointwise"] * 2
    assert "Parameters(" in constants
    assert "Parameters(" not in "".join(chosen)
