import pytest
import torch

from fuser.errors import TargetError
from fuser.runtime.cuda.occupancy import Capacity
from fuser.runtime.target_name import TargetName, resolve_target

CPU, CUDA, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")


def pretend_a_gpu(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One device of an architecture, with 114 multiprocessors."""
    monkeypatch.setattr("fuser.runtime.target_name.device_arch", lambda index: arch)
    capacity = Capacity(multiprocessors=114, threads=2048, shared_bytes=228 << 10)
    monkeypatch.setattr("fuser.runtime.target_name.capacity", lambda index: capacity)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


def test_the_target_follows_the_inputs(monkeypatch: pytest.MonkeyPatch):
    pretend_a_gpu("sm_90", monkeypatch)
    assert resolve_target(None, CPU) == TargetName("cpu")
    assert resolve_target(None, META) == TargetName("cpu")
    assert resolve_target(None, CUDA) == TargetName("cuda", "sm_90", multiprocessors=114)
    assert resolve_target("cuda", CUDA) == TargetName("cuda", "sm_90", multiprocessors=114)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_an_architecture_can_be_named(arch: str):
    assert resolve_target(f"cuda:{arch}", CPU) == TargetName("cuda", arch)


@pytest.mark.parametrize("arch", ["sm_1", "sm_70", "sm_75"])
def test_older_architectures_are_refused(arch: str):
    with pytest.raises(TargetError, match=f"'cuda:{arch}': kernels need sm_80 or later"):
        resolve_target(f"cuda:{arch}", CPU)


@pytest.mark.parametrize(("name", "device"), [(None, CUDA), ("cuda", CUDA), ("cuda", CPU)])
def test_older_gpus_are_refused(
    name: str | None, device: torch.device, monkeypatch: pytest.MonkeyPatch
):
    pretend_a_gpu("sm_75", monkeypatch)
    with pytest.raises(TargetError, match="'cuda:sm_75': kernels need sm_80 or later"):
        resolve_target(name, device)


def test_cpu_and_emulator_need_no_architecture():
    assert resolve_target("cpu", CPU).kind == "cpu"
    assert resolve_target("emulator", CPU).kind == "emulator"


def test_cuda_without_a_device_asks_for_an_architecture(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TargetError, match="cuda:sm_90"):
        resolve_target("cuda", CPU)
    with pytest.raises(TargetError, match="'cuda:0': torch sees no CUDA device"):
        resolve_target(None, CUDA)


@pytest.mark.parametrize("name", ["gpu", "cuda:90", "cuda:sm_", "cuda:0", "", "CPU", "cuda:sm_90 "])
def test_other_names_are_refused_with_the_valid_ones(name: str):
    with pytest.raises(TargetError, match="the targets are cpu, cuda, cuda:sm_NN and emulator"):
        resolve_target(name, CPU)


def test_targets_print_as_they_are_named():
    for name in ("cpu", "emulator", "cuda:sm_100"):
        assert str(resolve_target(name, CPU)) == name
