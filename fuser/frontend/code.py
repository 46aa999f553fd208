"""The code and the schedules that are run, by the names nvFuser gives them.

Both generations' methods stand on plans: `fd.plan(inputs).kernels[0].source` is the same text.
"""

from __future__ import annotations

from typing import NoReturn

from fuser.errors import UnknownMemberError
from fuser.frontend.calls import explained_calls
from fuser.frontend.flattened import Inputs
from fuser.frontend.fusion import Fusion
from fuser.frontend.left_out import EXECUTOR_CACHE
from fuser.ir.printer import print_fusion
from fuser.pipeline import Plan
from fuser.runtime.calls.call import Device
from fuser.runtime.plans.plan import KernelStep


def print_kernels(plan: Plan, *, library: bool) -> str:
    """The text of every kernel: CUDA C++, or C++ for CPU tensors; with `library`, all of it.

    Steps without one have a line that says so.
    """
    parts: list[str] = []
    for step in plan.steps:
        source = step.kernel_source if isinstance(step, KernelStep) else None
        if source is None:
            operations = ", ".join(step.operations) or "nothing"
            parts.append(f"// {step.name}: no kernel; {operations} by {step.scheduler}\n")
        else:
            parts.append(source.text if library else source.kernel)
    return "\n".join(parts)


def print_schedules(plan: Plan, *, parameters: bool) -> str:
    """The loop nest of every kernel; with `parameters`, what the heuristic chose, and at the end by
    what."""
    parts: list[str] = []
    for step in plan.steps:
        head = f"# {step.name}: {step.scheduler}"
        if not isinstance(step, KernelStep):
            parts.append(f"{head}, {', '.join(step.operations)}\n")
            continue
        chosen = step.chosen if parameters else ""
        parts.append(f"{head}{', ' if chosen else ''}{chosen}\n{step.loops}")
    if parameters:
        parts += dict.fromkeys(f"# chosen by {kernel.constants}\n" for kernel in plan.kernels)
    return "\n".join(parts)


@explained_calls(prefix="fec.")
class ExecutorCache:
    """`fd.fec`, nvfuser_direct's way to the code of a definition.

    Inputs may be meta tensors where a `target` is named, such as cuda:sm_90.
    """

    def __init__(self, held: Fusion) -> None:
        self._held = held

    def __getattr__(self, name: str) -> NoReturn:
        """Raises UnknownMemberError, which is an AttributeError."""
        hint = f"; {EXECUTOR_CACHE[name]}" if name in EXECUTOR_CACHE else ""
        raise UnknownMemberError(owner="FusionDefinition.fec", name=name, hint=hint)

    def is_compiled(
        self, inputs: Inputs, device: Device = None, *, target: str | None = None
    ) -> bool:
        """Whether `execute(inputs)` would plan and compile nothing."""
        return self._held.is_compiled(inputs, target=target, device=device)

    def get_cuda_kernel(
        self,
        inputs: Inputs,
        intrinsic_code: bool = False,
        device: Device = None,
        *,
        target: str | None = None,
    ) -> str:
        """The kernels for these inputs, C++ for CPU tensors; `intrinsic_code`: and the library.

        `device` is where they are planned for without tensor inputs.
        """
        self._held.finished("fec.get_cuda_kernel")
        plan = self._held.plan(inputs, target=target, device=device)
        return print_kernels(plan, library=intrinsic_code)

    def get_scheduled_ir(
        self,
        inputs: Inputs,
        tensor_transforms: bool = False,
        device: Device = None,
        *,
        target: str | None = None,
    ) -> str:
        """The loop nests for these inputs; `tensor_transforms`: and what they were chosen by.

        `device` is as for `get_cuda_kernel`.
        """
        self._held.finished("fec.get_scheduled_ir")
        plan = self._held.plan(inputs, target=target, device=device)
        return print_schedules(plan, parameters=tensor_transforms)

    def get_most_recent_scheduled_ir(self, tensor_transforms: bool = False) -> str:
        """The loop nests of the last `execute`. Raises NothingSavedError if there was none."""
        plan = self._held.last_plan("fec.get_most_recent_scheduled_ir")
        return print_schedules(plan, parameters=tensor_transforms)


@explained_calls()
class CodeMembers:
    """The methods of older definitions that print code. There are no user schedules to override."""

    _slot: Fusion

    @property
    def fec(self) -> ExecutorCache:
        """The code of what it runs, by nvfuser_direct's names."""
        return ExecutorCache(self._slot)

    def fusion_ir(self) -> str:
        """The definition, before anything is known of its inputs."""
        return print_fusion(self._slot.ir)

    def cuda_code_for(
        self,
        inputs: Inputs,
        intrinsic_code: bool = False,
        override_user_schedule: bool = False,
        *,
        target: str | None = None,
    ) -> str:
        """The kernels for these inputs, C++ for CPU tensors; `intrinsic_code`: and the library."""
        self._slot.finished("cuda_code_for")
        return self.fec.get_cuda_kernel(inputs, intrinsic_code, target=target)

    def last_cuda_code(
        self, intrinsic_code: bool = False, override_user_schedule: bool = False
    ) -> str:
        """The kernels of the last `execute`, C++ for CPU tensors. Raises NothingSavedError."""
        plan = self._slot.last_plan("last_cuda_code")
        return print_kernels(plan, library=intrinsic_code)

    def scheduled_fusion_ir_for(
        self,
        inputs: Inputs,
        tensor_transforms: bool = False,
        override_user_schedule: bool = False,
        *,
        target: str | None = None,
    ) -> str:
        """The loop nests for these inputs; `tensor_transforms`: and what they were chosen by."""
        self._slot.finished("scheduled_fusion_ir_for")
        return self.fec.get_scheduled_ir(inputs, tensor_transforms, target=target)

    def last_scheduled_fusion_ir(
        self, tensor_transforms: bool = False, override_user_schedule: bool = False
    ) -> str:
        """The loop nests of the last `execute`. Raises NothingSavedError if there was none."""
        plan = self._slot.last_plan("last_scheduled_fusion_ir")
        return print_schedules(plan, parameters=tensor_transforms)
