"""What runs a partition: its definition, or torch where our compiler fails."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import cast

import torch
from torch.fx import GraphModule, Node

from fuser.errors import FuserError, PartitionError
from fuser.frontend.definition import FusionDefinition
from fuser.integrations.aten import TABLE
from fuser.integrations.fx_types import hint, hints, meta_of, tensor_of
from fuser.integrations.lowering import Lowering
from fuser.integrations.repro import script_for, write_script
from fuser.pipeline import Plan


class PartitionCall:
    """Executes a partition. Sizes that tracing left open are open in the definition too.

    Where defining, compiling or running it fails, and torch does not, torch runs the partition from
    then on, and a warning names a script that shows the failure. With FUSER_STRICT=1 that is a
    PartitionError.
    """

    def __init__(self, module: GraphModule, name: str, target: str | None = None) -> None:
        self.module = module
        self.failure: str | None = None
        self.__name__ = self.__qualname__ = name
        self._target = target
        self._options: dict[str, object] = {} if target is None else {"target": target}
        self._device = _device(module)
        if not any(n.op == "placeholder" for n in module.graph.nodes):
            self._options["device"] = self._device
        self.definition: FusionDefinition | None = None
        try:
            self.definition = define(module)
        except FuserError as error:
            self._fail(error, [])

    def __call__(self, *inputs: torch.Tensor | int) -> Sequence[torch.Tensor]:
        """The partition's outputs."""
        if self.definition is None or self.failure is not None:
            return self._in_torch(inputs)
        try:
            outputs = self.definition.execute(inputs, **self._options)
        except Exception as error:  # our compiler's failure is not to be the model's
            outputs = self._in_torch(inputs)  # raises what the user's mistakes raise in torch
            self._fail(error, inputs)
            return outputs
        return outputs if len(outputs) == 1 else _apart(outputs)

    def plan(self, inputs: Sequence[torch.Tensor | int] | None = None) -> Plan:
        """What a call with these inputs would run; by default, inputs as they were traced.

        Raises PartitionError where there is no definition.
        """
        if self.definition is None:
            raise PartitionError(name=self.__name__, reason=self.failure, path="")
        if inputs is not None:
            return self.definition.plan(inputs, target=self._target)
        target = self._target or self._device.type
        return self.definition.plan(examples(self.module), target=target)

    def _in_torch(self, inputs: Sequence[object]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return self.module(*inputs)

    def _fail(self, error: Exception, inputs: Sequence[object]) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        text = self.module.code if self.definition is None else ""
        if self.definition is not None:
            text = script_for(self.definition, inputs, self.failure)
        path = write_script(text)
        if os.environ.get("FUSER_STRICT") == "1":
            raise PartitionError(name=self.__name__, reason=self.failure, path=path) from error
        warnings.warn(
            f"{self.__name__} is run by torch, because fuser failed: {self.failure}\n"
            f"{path} shows it",
            RuntimeWarning,
            stacklevel=3,
        )


def define(module: GraphModule) -> FusionDefinition:
    """The definition of a partition's graph. Raises the front end's errors."""
    with FusionDefinition() as fd:
        lowering = Lowering(fd)
        for node in module.graph.nodes:
            _write(lowering, node)
    return fd


def _write(lowering: Lowering, node: Node) -> None:
    match node.op:
        case "placeholder":
            lowering.declare(node)
        case "output":
            lowering.outputs(node.all_input_nodes)
        case _ if node.target in TABLE:
            TABLE[node.target].write(lowering, node)
        case _:
            lowering.take(node)


def examples(module: GraphModule) -> list[torch.Tensor | int]:
    """Inputs as a partition's graph was traced with: tensors without data, and numbers."""
    inputs: list[torch.Tensor | int] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            value = cast("torch.Tensor | int | torch.SymInt", meta_of(node))
            if isinstance(value, torch.Tensor):
                sizes, strides = hints(value.shape), hints(value.stride())
                inputs.append(torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta"))
            else:
                inputs.append(hint(value))
    return inputs


def _device(module: GraphModule) -> torch.device:
    (*_, output) = module.graph.nodes
    return tensor_of(output.all_input_nodes[0]).device


def _apart(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs that share no memory: equal ones may have come as one."""
    seen = set[int]()
    for at, output in enumerate(outputs):
        address = output.data_ptr()
        if address in seen and address:
            outputs[at] = output.clone(memory_format=torch.preserve_format)
        seen.add(address)
    return outputs
