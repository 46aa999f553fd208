"""`fuser.explain`: what becomes of a model, a function or a definition, and why."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, cast

import torch
from torch.autograd import (
    _get_sequence_nr as _next_number,  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
)
from torch.autograd.graph import GradientEdge
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from fuser.errors import ArgumentTypeError, CallError
from fuser.explanation.dynamo_state import compiled_apart, untouched_dynamo
from fuser.explanation.model_state import untouched
from fuser.explanation.recorder import Recorder, definition_graph
from fuser.explanation.report import Report, page_path
from fuser.frontend.definition import FusionDefinition
from fuser.frontend.fusion import Fusion
from fuser.integrations import dynamo


def explain(
    model: Callable[..., Any] | Fusion | FusionDefinition,
    *args: Any,
    html: str | Path | None = None,
    backward: bool = True,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Report:
    """What `torch.compile(model, backend="fuser")` makes of `model(*args, **kwargs)`, and why.

    The model, a module or a function, is compiled anew and run once, and so is the backward of its
    result if that requires a gradient: of the `loss` among its outputs, or else of their sum.
    Without `backward` it is compiled as under `torch.no_grad()`. Torch computes what partitions
    would: kernels are planned, not compiled. For a Fusion or FusionDefinition, `args` are its
    inputs, or one list of them, and nothing is run.

    Nothing stays changed: what the model holds and what Dynamo has compiled before are as they
    were, for which every tensor that the model holds is copied while it runs. Not put back is what
    it changes elsewhere, such as the state of an optimizer.

    `target` is as of `FusionDefinition.execute`; "cuda:sm_90" needs no GPU. `options` are those of
    the backend. `html` is where a page is written that shows the same. A model's own argument of
    one of these names can be passed by `explain(lambda: model(target=...))`.

    Raises ArgumentTypeError for what cannot be called, BackendOptionError, TargetError, what the
    model raises, and PageError, before anything is run, where there is no folder for the page.
    """
    page = None if html is None else page_path(html)
    if isinstance(model, Fusion | FusionDefinition):
        for name in kwargs:
            reason = f"got an unexpected keyword argument {name!r}, which no definition takes"
            raise CallError(operation="explain", reason=reason, signature=_OF_DEFINITION)
        report = _of_definition(model, args, target)
    elif isinstance(model, type):
        raise _no_model(f"the class {model.__name__}")
    elif callable(model):
        named = {} if target is None else {"target": target}
        chosen = dynamo.Options.of({**(options or {}), **named})
        report = _of_model(model, args, kwargs, backward, chosen)
    else:
        raise _no_model(type(model).__name__)
    if page is not None:
        report.write(page)
    return report


def _no_model(got: str) -> ArgumentTypeError:
    expected = "a module, a function, a Fusion or a FusionDefinition"
    return ArgumentTypeError("explain", "model", got, expected)


_OF_DEFINITION = "(definition, *inputs, html=None, target=None)"


def _of_definition(
    definition: Fusion | FusionDefinition, args: Sequence[Any], target: str | None
) -> Report:
    listed = len(args) == 1 and isinstance(args[0], list | tuple)
    inputs = cast("Sequence[Any]", args[0]) if listed else args
    plan = definition.plan(inputs, target=target)
    fusion = definition.ir if isinstance(definition, Fusion) else definition.fusion
    return Report("FusionDefinition", (definition_graph("definition", fusion, [plan]),))


def _of_model(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    backward: bool,
    options: dynamo.Options,
) -> Report:
    model = _uncompiled(model)
    recorder, numbers = Recorder(), itertools.count()

    def backend(module: GraphModule, inputs: Sequence[Any]) -> Any:
        how = dynamo.Compilation(options, next(numbers), recorder.add_graph, run=False)
        return dynamo.compile_module(module, inputs, how)

    backend.__name__ = "fuser"  # as torch names it where the model fails
    notes: list[str] = []
    with untouched(model, args, kwargs), untouched_dynamo():
        try:
            run = _as_written(model)
            with torch.set_grad_enabled(backward and torch.is_grad_enabled()):
                first = _next_number()
                result = compiled_apart(run, backend)(*args, **kwargs)
                notes += _run_backward(result, first) if torch.is_grad_enabled() else []
        finally:
            recorder.forget_breaks()
    report = recorder.report(_title(model), tuple(notes))
    if report.graphs:
        return report
    nothing = "nothing was compiled: Dynamo found no tensor operations in the model"
    return dataclasses.replace(report, notes=(nothing,))


def _uncompiled(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model that was given to torch.compile, if that is what this is."""
    inner = getattr(model, "_orig_mod", None) or getattr(model, "_torchdynamo_orig_callable", None)
    return model if inner is None else _uncompiled(inner)


def _as_written(model: Any) -> Callable[..., Any]:
    """The model with code of its own, so that Dynamo remembers nothing of it.

    What that changes of a module is put back with its other attributes.
    """
    match model:
        case torch.nn.Module():
            for module in model.modules():
                module._compiled_call_impl = None  # pyright: ignore[reportPrivateUsage]
            model.forward = _as_written(model.forward)
            return model
        case MethodType():
            return MethodType(_as_written(model.__func__), model.__self__)
        case FunctionType():
            code, names = model.__code__.replace(), model.__globals__
            made = FunctionType(code, names, model.__name__, model.__defaults__, model.__closure__)
            made.__kwdefaults__ = model.__kwdefaults__
            made.__dict__.update(model.__dict__)
            return made
        case _:
            return model


def _run_backward(result: Any, first: int) -> list[str]:
    """Run the backward of a result, whose graph begins with the node of autograd that has the
    number `first`; what is to be said if there is none."""
    loss = _loss(result)
    if loss is None:
        return ["no backward was run, since nothing in the result requires a gradient"]
    torch.autograd.grad(loss, _ends(loss.grad_fn, first), allow_unused=True)
    return []


def _loss(result: Any) -> torch.Tensor | None:
    """The `loss` in a result, as transformers have it, or the sum of what requires a gradient."""
    is_mapping = isinstance(result, Mapping)
    named = cast("Any", result).get("loss") if is_mapping else getattr(result, "loss", None)
    if isinstance(named, torch.Tensor) and named.requires_grad:
        return named.sum()
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    parts = [_real(tensor).sum() for tensor in tensors if tensor.requires_grad]
    return cast("torch.Tensor", sum(parts)) if parts else None


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _ends(begin: Any, first: int) -> list[GradientEdge]:
    """Where a graph ends: at leaves, and at nodes before the `first`. To run those would free what
    the caller's own backward needs of them."""
    found: dict[GradientEdge, None] = {}
    seen, pending = {begin}, [begin]
    while pending:
        for node, number in pending.pop().next_functions:
            if node is None:
                continue
            if node._sequence_nr() < first or hasattr(node, "variable"):
                found[GradientEdge(node, number)] = None
            elif node not in seen:
                seen.add(node)
                pending.append(node)
    return list(found)


def _title(model: Callable[..., Any]) -> str:
    name = getattr(model, "__qualname__", None)
    return name if isinstance(name, str) else type(model).__name__
