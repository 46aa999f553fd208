"""`torch.compile(model, backend="fuser")`.

    torch.compile(model, backend="fuser", options={"partition": "min_cut"})

AOTAutograd traces forward and backward; each graph is divided into partitions, which become
definitions, and torch runs what is between them. `reports()` says what was covered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import (
    _BACKENDS,  # pyright: ignore[reportPrivateUsage]
    register_backend,
)
from torch._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)
from torch.fx import GraphModule

from fuser import debug
from fuser.errors import BackendOptionError
from fuser.integrations.decompositions.resizing import separate_resizes
from fuser.integrations.decompositions.table import decompositions
from fuser.integrations.outer.graph import outer_module
from fuser.integrations.outer.hoisted import hoisted
from fuser.integrations.outer.product_rows import align_rows
from fuser.integrations.partitions.coverage import Coverage, Reports, coverage
from fuser.integrations.partitions.joined import joined
from fuser.integrations.partitions.partition import Partition, partitions
from fuser.integrations.partitions.partition_call import PartitionCall, compile_ahead
from fuser.integrations.partitions.support import support
from fuser.integrations.partitions.writes import with_writes
from fuser.integrations.rewrites.compared import save_compared
from fuser.integrations.rewrites.joint import name_conjugates, rewrite_graph
from fuser.integrations.rewrites.kept_states import describe_kept_states
from fuser.integrations.rewrites.mask_writes import choose_by_masks
from fuser.integrations.rewrites.old_values import save_old_values
from fuser.integrations.rewrites.repeated import merge_repeated
from fuser.integrations.rewrites.updates import update_in_place
from fuser.runtime.target_name import resolve_target
from fuser.warned import warn_user

_PARTITIONS: Mapping[str, Callable[..., Any]] = {
    "min_cut": min_cut_rematerialization_partition,
    "default": default_partition,
}
_reports = Reports()
_ids = itertools.count()


@dataclass(frozen=True, slots=True)
class Options:
    """`torch.compile(..., options={...})`.

    partition: how AOTAutograd divides the joint graph: "min_cut" saves the fewest bytes for the
    backward, "default" computes nothing twice. products: what computes matrix products, "torch", or
    "fastest": oneDNN where that was measured to be faster than what torch asks. target: as of
    `FusionDefinition.execute`.
    """

    partition: str = "min_cut"
    products: str = "fastest"
    target: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises BackendOptionError and TargetError."""
        choices = {"partition": tuple(_PARTITIONS), "products": ("fastest", "torch")}
        listed = (f"{name} ({', '.join(values)})" for name, values in choices.items())
        valid = ", ".join((*listed, "target (a target's name)"))
        for name, value in given.items():
            known = name in {field.name for field in fields(cls)}
            if not known or (name in choices and value not in choices[name]):
                raise BackendOptionError(name=name, value=value, valid=valid)
        options = cls(**given)
        if options.target is not None:
            resolve_target(options.target, torch.device("meta"))
        return options


def backend(module: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """The function torch.compile calls with each graph that Dynamo traces.

    `options` are as in `Options`; `mode` changes nothing, and a warning says so.
    """
    debug.check()
    if "mode" in kwargs:
        _warn_of_mode(kwargs["mode"])
    options = Options.of(kwargs.get("options") or {})
    return compile_module(module, example_inputs, Compilation(options, next(_ids), _reports.add))


@cache
def _warn_of_mode(mode: str) -> None:
    """Say once of each mode that it is another backend's."""
    valid = ", ".join(field.name for field in fields(Options))
    warn_user(
        f"mode={mode!r} changes nothing: modes of torch.compile are inductor's; the fuser backend "
        f"takes options={{...}}: {valid}"
    )


@dataclass(frozen=True, slots=True)
class Compilation:
    """How one of Dynamo's graphs is compiled.

    `record` is given the coverage of its forward and backward. Where kernels are not `run`, they
    are planned only, and torch runs the partitions.
    """

    options: Options
    number: int
    record: Callable[[Coverage], None]
    run: bool = True


def compile_module(module: GraphModule, example_inputs: Sequence[Any], how: Compilation) -> Any:
    """The function that runs a graph that Dynamo has traced."""
    separate_resizes(module)
    choose_by_masks(module)
    divide = _PARTITIONS[how.options.partition]

    # Of each graph's results, those whose writes torch is to notice: no gradients are.
    seen: dict[str, int] = {"backward": 0}

    def compiler(kind: str) -> Callable[[GraphModule, Sequence[Any]], Any]:
        name = f"graph {how.number} {kind}"
        return lambda graph, inputs: compile_graph(graph, name, how, seen.get(kind))

    def partition(joint: GraphModule, inputs: Any, **given: Any) -> Any:
        seen["forward"] = given["num_fwd_outputs"]
        rewrite_graph(joint.graph)
        save_compared(joint.graph)
        save_old_values(joint.graph, seen["forward"])
        return divide(joint, inputs, **given)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )(module, example_inputs)


def compile_graph(
    module: GraphModule, name: str, how: Compilation, seen: int | None
) -> Callable[[list[Any]], Any]:
    """An ATen graph as a function of a list of inputs, which it empties. The caller of the module
    sees the first `seen` of its results; None: all of them."""
    graph = module.graph
    rewrite_graph(graph)
    merge_repeated(graph)
    update_in_place(graph)
    name_conjugates(graph)
    describe_kept_states(graph)
    onednn = how.options.products == "fastest"
    align_rows(graph, onednn=onednn)
    roles = support(graph)
    prefix = name.replace(" ", "_")
    divided = joined(graph, with_writes(graph, partitions(graph, roles)))
    parts = {part: _call(part, f"{prefix}_{n}", how) for n, part in enumerate(divided)}
    if how.run:
        compile_ahead(list(parts.values()))
    how.record(coverage(name, roles, parts))
    forward = hoisted(outer_module(module, parts, roles, onednn=onednn, seen=seen))

    def run(inputs: list[Any]) -> Any:
        return forward(inputs)

    run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return run


def _call(part: Partition, name: str, how: Compilation) -> PartitionCall:
    return PartitionCall(part.graph(), name, how.options.target, in_torch=not how.run)


def watching_reports(watcher: Callable[[Coverage], None]) -> AbstractContextManager[None]:
    """Meanwhile `watcher` is told of each graph that is compiled, from any thread."""
    return _reports.watchers.watching(watcher)


def reports() -> tuple[Coverage, ...]:
    """The coverage of the graphs compiled last, oldest first."""
    return _reports.all()


def clear_reports() -> None:
    """Forget the reports so far."""
    _reports.clear()


if "fuser" not in _BACKENDS:  # the entry point, where the package is installed, registers it later
    register_backend(backend, name="fuser")
