"""What runs a partition: its definition, or torch where our compiler fails."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from weakref import WeakValueDictionary

import torch
from torch.fx import Graph, GraphModule, Node

from fuser import debug
from fuser.errors import CaptureError, FuserError, GeneratorError, PartitionError
from fuser.frontend.definition import FusionDefinition
from fuser.integrations.aten import TABLE
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.fx.nodes import example, hints, is_write, meta_of, tensor_of
from fuser.integrations.partitions.repro import write_script
from fuser.ir.nodes import Fusion
from fuser.locks import in_child
from fuser.pipeline import Plan
from fuser.runtime.calls.placed import Run


class PartitionCall:
    """Executes a partition. Sizes that tracing left open are open in the definition too.

    Where defining, compiling or running it fails, and torch does not, torch runs the partition from
    then on, and a warning names a script that shows the failure. With FUSER_STRICT=1 that is a
    PartitionError. One that writes inputs is not run again: it raises what its run raised. What
    cannot be captured in a CUDA graph is run by torch there, and by its definition elsewhere. With
    `in_torch`, torch runs it in any case: it is there to be planned.
    """

    def __init__(
        self, graph: Graph, name: str, target: str | None = None, *, in_torch: bool = False
    ) -> None:
        self.graph = graph
        self.failure: str | None = None
        self.__name__ = self.__qualname__ = name
        self._target = target
        self._only_planned = in_torch
        self._options: dict[str, object] = {} if target is None else {"target": target}
        self.updated: list[int] = []
        self._device = torch.device("cpu")
        self.definition: FusionDefinition | None = None
        try:
            self._define()
        except Exception as error:  # our failure is not to be the model's
            self._fail(error, [])

    def _define(self) -> None:
        """What is known of the graph, and its definition: all of it may fail."""
        places = [node for node in self.graph.nodes if node.op == "placeholder"]
        written = [node.args[0] for node in self.graph.nodes if is_write(node)]
        self.updated = [number for number, place in enumerate(places) if place in written]
        self._device = _device(self.graph)
        if not places:
            self._options["device"] = self._device
        self.definition = _shared(define(self.graph))

    def __call__(self, *inputs: torch.Tensor | int) -> Sequence[torch.Tensor]:
        """The partition's outputs."""
        if self.definition is None or self.failure is not None or self._only_planned:
            return self._in_torch(inputs)
        try:
            return self.definition.execute_apart(inputs, **self._options)
        except (CaptureError, GeneratorError):
            if self.updated:
                raise
            return self._in_torch(inputs)
        except Exception as error:
            held = list(map(_held, inputs))
            if any(map(operator.is_not, held, inputs)) and not self.updated:
                return self(*held)
            if self.updated and self.definition.is_compiled(inputs, **self._options):
                raise  # inputs may be written already, and torch would do it again
            outputs = self._in_torch(inputs)  # raises what the user's mistakes raise in torch
            self._fail(error, inputs)
            return outputs

    def settled(self, inputs: Sequence[torch.Tensor]) -> Run | None:
        """What runs any tensors that lie as these, which a call has run, without looking at them;
        those that are `updated`, by position, must overlap no other.

        None where torch runs them, or a call depends on more.
        """
        if self.definition is None or self.failure is not None or self._only_planned:
            return None
        return self.definition.settled(inputs, **self._options)

    def plan(self, inputs: Sequence[torch.Tensor | int] | None = None) -> Plan:
        """What a call with these inputs would run; by default, inputs as they were traced.

        Raises PartitionError where there is no definition.
        """
        if self.definition is None:
            raise PartitionError(name=self.__name__, reason=self.failure, path="")
        if inputs is None:
            target = self._target or self._device.type
            return self.definition.plan(examples(self.graph), target=target)
        return self.definition.plan(inputs, target=self._target)

    @cached_property
    def module(self) -> GraphModule:
        """What torch would run."""
        root = self.graph.owning_module or torch.nn.Module()
        return GraphModule(root, self.graph, class_name=self.__name__)

    def _in_torch(self, inputs: Sequence[object]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return self.module(*inputs)

    def _fail(self, error: Exception, inputs: Sequence[object]) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        if self.definition is None:
            text = f"# No definition could be written of this:\n{self.module.code}"
        else:
            text = self.definition.repro_script_for(inputs)
        try:
            path: object = write_script(text, self.failure)
        except OSError as unwritten:  # where the temporary folder is full, or there is none
            path = f"no script, which could not be written ({unwritten}),"
        if debug.strict():
            raise PartitionError(name=self.__name__, reason=self.failure, path=path) from error
        warnings.warn(
            f"{self.__name__} is run by torch, because fuser failed: {self.failure}\n"
            f"{path} shows it",
            RuntimeWarning,
            stacklevel=3,
        )


def _held(given: torch.Tensor | int) -> torch.Tensor | int:
    """An input that holds its numbers. Gradients that the caller gives, and results of torch, may
    be lazy conjugates or negations where tracing saw none: definitions refuse them."""
    return given.resolve_conj().resolve_neg() if isinstance(given, torch.Tensor) else given


def compile_ahead(calls: Sequence[PartitionCall]) -> None:
    """Compile the kernels of partitions on the side, for inputs as they were traced.

    A call waits for those it needs. What fails here fails again at the call, and is said then.
    """
    for call in calls:
        if call.definition is not None and not any(map(debug.enabled, debug.DUMPS)):
            try:
                _pool().submit(_compile, call)
            except RuntimeError:  # the main thread has ended, and no thread begins after that
                return


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="fuser-compile")


in_child(_pool.cache_clear)  # its threads are the parent's


def _compile(call: PartitionCall) -> None:
    with contextlib.suppress(FuserError):
        for kernel in call.plan().kernels:
            if kernel.kernel_source is not None:
                kernel.compile()


def define(graph: Graph) -> FusionDefinition:
    """The definition of a partition's graph. Raises the front end's errors."""
    with FusionDefinition() as fd:
        lowering = Lowering(fd)
        for node in graph.nodes:
            _write(lowering, node)
    return fd


_definitions: WeakValueDictionary[Fusion, FusionDefinition] = WeakValueDictionary()


def _shared(definition: FusionDefinition) -> FusionDefinition:
    """The equal definition of an earlier partition, if one is in use: layers repeat, and are then
    planned once."""
    return _definitions.setdefault(definition.fusion, definition)


def _write(lowering: Lowering, node: Node) -> None:
    match node.op:
        case "placeholder":
            lowering.declare(node)
        case "output":
            lowering.outputs(node.all_input_nodes)
        case _ if node.target is torch.ops.aten.copy_.default:
            lowering.replace_input(*node.all_input_nodes)
        case _ if node.target in TABLE:
            TABLE[node.target].write(lowering, node)
        case _:
            lowering.take(node)


def examples(graph: Graph) -> list[torch.Tensor | int]:
    """Inputs as a partition's graph was traced with: tensors without data, and numbers."""
    inputs: list[torch.Tensor | int] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            value = meta_of(node)
            if isinstance(value, torch.Tensor):
                sizes, strides = hints(value.shape), hints(value.stride())
                inputs.append(torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta"))
            else:
                inputs.append(example(value))
    return inputs


def _device(graph: Graph) -> torch.device:
    (*_, last, output) = graph.nodes  # one that only writes ends with a write
    return tensor_of((*output.all_input_nodes, last)[0]).device
