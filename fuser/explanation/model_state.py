"""Running somebody's model so that nothing of it is changed afterwards."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy


@contextmanager
def untouched(*objects: object) -> Generator[None]:
    """Put back, at the end, what changed of the modules and tensors that objects hold.

    These are values and `.grad` of tensors, parameters and buffers, modules' attributes, such as
    `training`, and the contents of lists, dicts and sets among them, and the state of random number
    generators: torch's, numpy's and Python's. Each tensor is copied for that. Objects are looked
    for in containers, and in what functions are bound to, close over or name. Lazy modules that get
    their parameters meanwhile have them afterwards.
    """
    held = list(_within(objects))
    inner = (part for found in held if isinstance(found, nn.Module) for part in found.modules())
    modules = list(dict.fromkeys(inner))
    tensors = list(dict.fromkeys(_tensors(held, modules)))
    # Not put back to what it was, autograd would take saved tensors to be changed.
    versioned = tuple(tensor for tensor in tensors if not tensor.is_inference())
    with torch.autograd._unsafe_preserve_version_counter(versioned):  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]
        ready = [m for m in modules if not any(map(is_lazy, m.parameters(recurse=False)))]
        kept = [*map(_Attributes.of, ready), *map(_Tensor.of, tensors)]
        put_back = _generators()
        for tensor in tensors:
            if tensor.is_leaf and tensor.grad is not None:
                tensor.grad = tensor.grad.detach().clone()  # what is added is not added to theirs
        try:
            yield
        finally:
            put_back()
            for state in kept:
                state.put_back()


# -- what there is ---------------------------------------------------------------------------------


def _within(objects: Iterable[object]) -> Iterator[object]:
    """The modules and tensors in objects, each once."""
    seen: dict[int, object] = {}
    pending = list(objects)
    while pending:
        found = pending.pop()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        if isinstance(found, nn.Module | torch.Tensor):
            yield found
        else:
            pending += _parts(found)


def _parts(found: object) -> Iterable[object]:
    """What an object holds, as far as it is looked into."""
    match found:
        case Mapping():
            return list(cast("Mapping[object, object]", found).values())
        case list() | tuple() | set() | frozenset():
            return list(cast("Iterable[object]", found))
        case functools.partial():
            return [found.func, *found.args, *found.keywords.values()]
        case MethodType():
            return [found.__self__, found.__func__]
        case FunctionType():
            named = [found.__globals__.get(name) for name in found.__code__.co_names]
            closed = [_content(cell) for cell in found.__closure__ or ()]
            inner = getattr(found, "__wrapped__", None)
            return [*named, *closed, *(found.__defaults__ or ()), inner]
        case _:
            return []


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _tensors(held: Iterable[object], modules: Iterable[nn.Module]) -> Iterator[torch.Tensor]:
    """Tensors with data of their own kind, which can be copied and written."""
    found = [thing for thing in held if isinstance(thing, torch.Tensor)]
    for module in modules:
        found += [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        found += [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
    for tensor in found:
        if tensor.layout is torch.strided and not tensor.is_meta and not is_lazy(tensor):
            yield tensor


# -- what is kept of it ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor, a copy of its values, and the gradient that it has."""

    tensor: torch.Tensor
    values: torch.Tensor
    grad: torch.Tensor | None

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Tensor:
        grad = tensor.grad if tensor.is_leaf else None
        return cls(tensor, tensor.detach().clone(), grad)

    def put_back(self) -> None:
        tensor = self.tensor
        if tensor.is_leaf:
            tensor.grad = self.grad
        if not torch.equal(tensor.detach(), self.values):
            once = tuple(slice(None) if stride else slice(1) for stride in tensor.stride())
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                tensor[once].copy_(self.values[once])  # of what is expanded, no more can be written


@dataclass(frozen=True, slots=True)
class _Attributes:
    """A module's attributes, and what the containers among them hold."""

    module: nn.Module
    values: dict[str, object]
    contents: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(cls, module: nn.Module) -> _Attributes:
        values = dict(vars(module))
        containers: list[Any] = [v for v in values.values() if isinstance(v, dict | list | set)]
        contents = [(value, value.copy()) for value in containers]
        return cls(module, values, tuple(contents))

    def put_back(self) -> None:
        own = vars(self.module)
        if not _same(own, self.values):
            own.clear()
            own.update(self.values)
        for held, content in self.contents:
            match content:
                case list():
                    held[:] = content
                case dict() if _same(held, cast("Any", content)):
                    pass
                case _:
                    held.clear()
                    held.update(content)


def _same(one: Mapping[Any, object], other: Mapping[Any, object]) -> bool:
    """Whether two mappings have the same objects in the same order."""
    return list(one) == list(other) and all(one[key] is other[key] for key in one)


def _generators() -> Callable[[], None]:
    """What sets the generators back to their state of now."""
    on_host, legacy, plain = torch.get_rng_state(), np.random.get_state(), random.getstate()
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def put_back() -> None:
        torch.set_rng_state(on_host)
        np.random.set_state(legacy)
        random.setstate(plain)
        if on_devices:
            torch.cuda.set_rng_state_all(on_devices)

    return put_back
