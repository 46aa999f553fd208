"""Target names: "cpu", "cuda", "cuda:sm_90", "emulator"."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from fuser.errors import TargetError
from fuser.runtime.cuda.driver import capacity, device_arch
from fuser.schedule import arch_number
from fuser.segmenter import GPU, PROCESSOR, Machine

_DEFAULT_ARCH = "sm_90"
_OLDEST_ARCH = 80
_NAMED_ARCH = re.compile(r"cuda:(sm_\d+a?)")


@dataclass(frozen=True, slots=True)
class TargetName:
    """What kernels are made for. `arch` is the GPU architecture of CUDA text, `multiprocessors` how
    many of them the GPU has, if it is known which."""

    kind: str
    arch: str = _DEFAULT_ARCH
    multiprocessors: int | None = None

    @property
    def machine(self) -> Machine:
        """What the segmenter decides for; the emulator stands in for a GPU."""
        return PROCESSOR if self.kind == "cpu" else GPU

    def __str__(self) -> str:
        return f"cuda:{self.arch}" if self.kind == "cuda" else self.kind


def resolve_target(name: str | None, device: torch.device) -> TargetName:
    """The target a user named, or the one that follows the inputs' device.

    Raises TargetError for a name that is none of "cpu", "cuda", "cuda:sm_NN", "emulator", where
    there is no GPU that "cuda" could be, and for an architecture before sm_80, named or found.
    """
    check_is_name(name)
    if name is None:
        name = "cuda" if device.type == "cuda" else "cpu"
    if name in ("cpu", "emulator"):
        return TargetName(name)
    if name == "cuda":
        if device.type == "cuda" and not torch.cuda.is_available():
            raise TargetError(target=str(device), reason="torch sees no CUDA device")
        if device.type == "cuda":
            return _target_of(device.index or 0)
        if torch.cuda.is_available():
            return _target_of(torch.cuda.current_device())
        reason = "there is no CUDA device to take the architecture from; name one, as cuda:sm_90"
        raise TargetError(target=name, reason=reason)
    named = _NAMED_ARCH.fullmatch(name)
    if named is None:
        raise TargetError(target=name, reason="the targets are cpu, cuda, cuda:sm_NN and emulator")
    return _gpu(named[1])


def check_is_name(name: object) -> None:
    """Raises TargetError for what is neither None nor a string; a list could not even be a key."""
    if name is not None and not isinstance(name, str):
        raise TargetError(target=name, reason="a target is named by a string, such as cuda:sm_90")


def check_runs_on(target: TargetName, device: torch.device) -> None:
    """Raises TargetError where kernels of the target cannot run on the device."""
    wanted = "cuda" if target.kind == "cuda" else "cpu"
    if device.type != wanted:
        reason = f"it runs on {wanted} tensors, and these are on {device}"
        if device.type == "meta":
            reason = "meta tensors hold no data; they can be planned, not executed"
        raise TargetError(target=str(target), reason=reason)


def _target_of(index: int) -> TargetName:
    """A CUDA device as a target."""
    return _gpu(device_arch(index), capacity(index).multiprocessors)


def _gpu(arch: str, multiprocessors: int | None = None) -> TargetName:
    """A GPU as a target, if kernels can be made for its architecture."""
    target = TargetName("cuda", arch, multiprocessors)
    if arch_number(arch) < _OLDEST_ARCH:
        raise TargetError(target=str(target), reason=f"kernels need sm_{_OLDEST_ARCH} or later")
    return target
