"""What Thunder's bound symbols mean: graphs of ATen nodes, traced with tensors without data.

A *form* is an argument without its identity: a tensor's sizes, type and device, or a constant. What
a symbol traces to depends on its arguments' forms only, so it is traced once for each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from fuser.integrations.aten import RANDOM, factories, moves, pointwise, views
from fuser.integrations.decompositions.table import decompositions
from fuser.integrations.fx.nodes import meta_of, tensors_of
from fuser.integrations.partitions.support import PRODUCTS, Role, Support, support
from fuser.integrations.rewrites.joint import rewrite_graph
from fuser.integrations.thunder.library import devices, dtypes, prims, proxies
from fuser.integrations.thunder.table import ROWS

BoundSymbol = Any
Proxy = Any


class RefusedError(Exception):
    """Why a symbol stays Thunder's."""


@dataclass(frozen=True, slots=True)
class TensorForm:
    """A tensor of certain sizes, in certain memory or none."""

    sizes: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def empty(self) -> torch.Tensor:
        return torch.empty(self.sizes, dtype=self.dtype, device=self.device)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number and its type: 1, 1.0 and True are equal, but mean different operations."""

    kind: type
    value: bool | int | float | complex


@dataclass(frozen=True, slots=True)
class Trial:
    """What a symbol is to the partitioner. `cheap`: no more is read than is written."""

    support: Support
    cheap: bool
    results: tuple[TensorForm, ...] = ()


# -- forms ---------------------------------------------------------------------------------------


def form(argument: Any) -> Hashable:
    """The form of an argument. Raises RefusedError."""
    match argument:
        case proxies.TensorProxy():
            return tensor_form(argument)
        case proxies.NumberProxy():
            return form(_known(argument))
        case bool() | int() | float() | complex():
            return Constant(type(argument), argument)
        case None | str() | torch.dtype() | torch.device():
            return argument
        case dtypes.dtype():
            return dtypes.to_torch_dtype(argument)
        case devices.Device():
            return devices.to_torch_device(argument)
        case list() | tuple():
            return tuple(map(form, cast("Sequence[Any]", argument)))
        case _:
            raise RefusedError(f"an argument is a {type(argument).__name__}")


def _known(number: Proxy) -> Any:
    if number.value is None or not number.is_static_constrained():
        raise RefusedError("a number is known at the call only")
    return number.value


def tensor_form(tensor: Proxy) -> TensorForm:
    """The form of a tensor's proxy. Raises RefusedError."""
    if type(tensor) is not proxies.TensorProxy:
        raise RefusedError(f"a tensor is a {type(tensor).__name__}")
    if not all(isinstance(size, int) for size in tensor.shape):
        raise RefusedError("a size is known at the call only")
    dtype, device = dtypes.to_torch_dtype(tensor.dtype), devices.to_torch_device(tensor.device)
    return TensorForm(tuple(tensor.shape), dtype, device)


def _value(found: Any, tensors: Callable[[TensorForm], torch.Tensor]) -> Any:
    match found:
        case TensorForm():
            return tensors(found)
        case Constant():
            return found.value
        case tuple():
            return [_value(part, tensors) for part in cast("Sequence[Any]", found)]
        case _:
            return found


# -- trials --------------------------------------------------------------------------------------


def trial(bsym: BoundSymbol) -> Trial:
    """What a bound symbol is to the partitioner."""
    if bsym.sym.id not in ROWS:
        return _not_ours(bsym)
    found = trial_of(bsym.sym.id, bsym.args, bsym.kwargs)
    if found.support.role is Role.TORCH:
        return found
    try:
        wanted = [None if out is None else tensor_form(out) for out in results_of(bsym)]
    except RefusedError as refused:
        return _torchs(str(refused))
    pairs = zip(wanted, found.results, strict=False)
    if len(wanted) != len(found.results) or any(want not in (None, got) for want, got in pairs):
        return _torchs("Thunder and torch disagree on its result")
    return found


def _not_ours(bsym: BoundSymbol) -> Trial:
    """What a symbol without a row is: torch's, or no computation."""
    symbol = bsym.sym
    makes = any(isinstance(out, proxies.TensorProxy) for out in bsym.flat_proxy_outs)
    if not makes or symbol.python_impl is not None or symbol.id in _GIVEN:
        return Trial(Support(Role.HOST), cheap=False)
    tagged = prims.OpTags.MATMUL_OP in (symbol.tags or ())
    if tagged or symbol.name.rpartition(".")[2] in _PRODUCTS:
        return Trial(Support(Role.PRODUCT), cheap=False)
    return _torchs(_why(bsym) or "fuser has no definition for it")


def _why(bsym: BoundSymbol) -> str | None:
    """What of a symbol that another executor took could not be held."""
    for part in bsym.subsymbols:
        if part.sym.id in ROWS:
            found = trial(part).support
            reason = found.reason if found.role is Role.TORCH else None
        else:
            reason = _why(part)
        if reason is not None:
            return reason
    return None


WRITES = frozenset({prims.PrimIDs.COPY_, prims.PrimIDs.UPDATE_ALIASES, "copy_", "update_aliases"})
"""What writes to memory that others read, or says that others do."""
_GIVEN = frozenset({prims.PrimIDs.GET_GRAD, prims.PrimIDs.UNPACK_TRIVIAL}) | WRITES
_PRODUCTS = PRODUCTS | {"scaled_dot_product_attention", "convolution_backward"}


def trial_of(identifier: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Trial:
    """What a symbol would be with these arguments."""
    try:
        named = tuple((name, form(value)) for name, value in kwargs.items())
        return _trial(identifier, tuple(map(form, args)), named)
    except RefusedError as refused:
        return _torchs(str(refused))


def _torchs(reason: str) -> Trial:
    return Trial(Support(Role.TORCH, reason), cheap=False)


@functools.lru_cache(maxsize=4096)
def _trial(
    identifier: Hashable, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]
) -> Trial:
    fakes: list[torch.Tensor] = []

    def fake(tensor: TensorForm) -> torch.Tensor:
        fakes.append(tensor.empty())
        return fakes[-1]

    with FakeTensorMode():
        given = [_value(arg, fake) for arg in args]
        named = {name: _value(arg, fake) for name, arg in kwargs}
    places = {id(tensor): at for at, tensor in enumerate(fakes)}

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def put(value: Any) -> Any:
            if isinstance(value, list):
                return [put(part) for part in cast("list[Any]", value)]
            return tensors[places[id(value)]] if id(value) in places else value

        made = ROWS[identifier](*map(put, given), **{name: put(v) for name, v in named.items()})
        return tuple(tensors_of(made))

    try:
        module = traced(call, fakes)
    except _REFUSALS as error:
        return _torchs(f"torch refuses it: {error}")
    return _judged(module)


_REFUSALS = (AssertionError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What torch raises where it takes no such arguments."""


def _judged(module: GraphModule) -> Trial:
    (*_, output) = module.graph.nodes
    made = tuple(
        TensorForm(tuple(t.shape), t.dtype, t.device)
        for node in output.args[0]
        for t in tensors_of(meta_of(node))
    )
    roles = support(module.graph)
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    for node in calls:
        if roles[node].role in (Role.TORCH, Role.PRODUCT, Role.HOST):
            reason = roles[node].reason or f"{node.target} is torch's"
            return _torchs(f"{node.target}: {reason}")
    found = {roles[node].role for node in calls}
    role = Role.COMPUTE
    if found <= {Role.VIEW}:
        role = Role.VIEW
    elif found <= {Role.VIEW, Role.FACTORY} and not any(
        node.op == "placeholder" for node in module.graph.nodes
    ):
        role = Role.FACTORY
    return Trial(Support(role), all(map(_is_cheap, calls)), made)


_CHEAP = frozenset(
    row.overload for table in (pointwise, views, moves, factories) for row in table.ROWS
)


def _is_cheap(node: Node) -> bool:
    return node.target in _CHEAP and node.target not in RANDOM


# -- graphs --------------------------------------------------------------------------------------


def traced(function: Callable[..., Any], fakes: Sequence[torch.Tensor]) -> GraphModule:
    """The ATen graph of a function of tensors without data."""
    mode = cast("Any", fakes[0]).fake_mode if fakes else FakeTensorMode()
    with mode, torch.no_grad(), torch._C._DisableAutocast():  # pyright: ignore[reportPrivateUsage]
        module = make_fx(function, decomposition_table=_decompositions())(*fakes)
    rewrite_graph(module.graph)
    return module


_decompositions = functools.cache(decompositions)  # finding them takes longer than a trace


def graph_of(
    bsyms: Sequence[BoundSymbol], inputs: Sequence[Proxy], outputs: Sequence[Proxy]
) -> Graph:
    """The ATen graph of bound symbols, each of which has a row."""

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = dict(zip([proxy.name for proxy in inputs], tensors, strict=True))
        for bsym in bsyms:
            made = ROWS[bsym.sym.id](
                *(_bound(arg, values) for arg in bsym.args),
                **{name: _bound(arg, values) for name, arg in bsym.kwargs.items()},
            )
            for proxy, tensor in zip(results_of(bsym), tensors_of(made), strict=True):
                if proxy is not None:
                    values[proxy.name] = tensor
        return tuple(values[proxy.name] for proxy in outputs)

    with FakeTensorMode():
        fakes = [tensor_form(proxy).empty() for proxy in inputs]
    return traced(run, fakes).graph


def _bound(argument: Any, values: Mapping[str, torch.Tensor]) -> Any:
    match argument:
        case proxies.TensorProxy():
            return values[argument.name]
        case list() | tuple():
            return [_bound(part, values) for part in cast("Sequence[Any]", argument)]
        case _:
            return _value(form(argument), TensorForm.empty)


def results_of(bsym: BoundSymbol) -> list[Proxy | None]:
    """The tensors that a symbol makes; None where nothing reads one."""
    out = bsym.output
    made: Iterable[Any] = cast("Sequence[Any]", out) if isinstance(out, list | tuple) else [out]
    return [tensor if isinstance(tensor, proxies.TensorProxy) else None for tensor in made]
