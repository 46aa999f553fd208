"""Which nodes of a graph a definition can hold, and why others cannot."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from fuser import debug
from fuser.errors import FuserError
from fuser.frontend.definition import FusionDefinition
from fuser.integrations.aten import TABLE, Kind
from fuser.integrations.aten.lowering import Lowering
from fuser.integrations.decompositions.pools import refusal as pool_refusal
from fuser.integrations.fx.nodes import is_view, meta_of, tensors_of
from fuser.integrations.rewrites.updates import WRITES
from fuser.ir import dtypes


@enum.unique
class Role(enum.Enum):
    """What a node is to the partitioner."""

    COMPUTE = "computed in a partition"
    FACTORY = "repeated in each partition that reads it"
    VIEW = "a view: repeated where it is read, torch's elsewhere"
    PRODUCT = "a product, convolution or attention: torch's"
    HOST = "no computation: sizes, inputs, what those name in memory, outputs, updates of inputs"
    TORCH = "computed by torch: not covered"


@dataclass(frozen=True, slots=True)
class Support:
    """A node's role, and where it is TORCH's, the reason."""

    role: Role
    reason: str = ""


Trials = dict[object, str | None]
"""What the front end has said to nodes, by all it was told of them: layers repeat."""


def support(graph: Graph) -> Mapping[Node, Support]:
    """The role of every node."""
    found: dict[Node, Support] = {}
    trials: Trials = {}
    for node in graph.nodes:
        found[node] = _support(node, found, trials)
    return found


_aten: Any = torch.ops.aten

PRODUCTS = frozenset(
    {
        "_flash_attention_backward",
        "_flash_attention_forward",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_mm",
        "addbmm",
        "addmm",
        "addmv",
        "baddbmm",
        "bmm",
        "convolution",
        "convolution_backward",
        "dot",
        "linear",
        "matmul",
        "mm",
        "mv",
    }
)
"""What torch has libraries for."""

_ALLOCATIONS = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)
"""Memory of no particular elements: nothing is computed."""


def _support(node: Node, found: Mapping[Node, Support], trials: Trials) -> Support:
    if node.op != "call_function":
        return Support(Role.HOST)
    if node.target is operator.getitem:
        source = found[node.all_input_nodes[0]]
        return source if source.role in (Role.COMPUTE, Role.VIEW) else Support(Role.HOST)
    if not tensors_of(meta_of(node)):
        return Support(Role.HOST)
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name in PRODUCTS:
        return Support(Role.PRODUCT)
    if node.target in WRITES or name in _ALLOCATIONS or _names_memory(node):
        return Support(Role.HOST)
    reason = _refusal(node, found, trials)
    if reason is not None:
        return Support(Role.TORCH, reason)
    match TABLE[node.target].kind:
        case Kind.COMPUTE:
            return Support(Role.COMPUTE)
        case Kind.FACTORY:
            return Support(Role.FACTORY)
        case Kind.VIEW:
            return Support(Role.VIEW)


def _names_memory(node: Node) -> bool:
    """Whether a node is what an input is the lazy conjugate or negation of (`joint.py`)."""
    match node.all_input_nodes:
        case [Node(op="placeholder") as source] if is_view(node):
            was, still = (any(map(_is_lazy, tensors_of(meta_of(n)))) for n in (source, node))
            return was and not still
        case _:
            return False


def _is_lazy(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the conjugate, or the negation, of what lies in memory."""
    return tensor.is_conj() or tensor.is_neg()


def _refusal(node: Node, found: Mapping[Node, Support], trials: Trials) -> str | None:
    try:
        return refusal(node, found, trials)
    except Exception as error:  # a row's mistake is not to be the model's
        if debug.strict():
            raise
        return f"{type(error).__name__}: {error}"


def refusal(node: Node, found: Mapping[Node, Support], trials: Trials) -> str | None:
    """Why a definition cannot hold this node; None if it can. `found` has its sources."""
    row = TABLE.get(node.target)
    if row is None:
        return _without_row(node)
    for each in (node, *node.all_input_nodes):
        # A view is repeated in the partition that reads it, whose definition holds what it means.
        view = row.kind is Kind.VIEW if each is node else found[each].role is Role.VIEW
        for tensor in tensors_of(meta_of(each)):
            reason = _tensor_refusal(tensor, view=view)
            if reason is not None:
                return reason
    refused = row.refusal(node)
    if refused is not None:
        return refused
    told = _told(node)
    if told not in trials:
        trials[told] = _trial(node)
    return trials[told]


def _without_row(node: Node) -> str:
    if isinstance(node.target, HigherOrderOperator):
        return "it calls other operations, which torch runs as they are"
    return pool_refusal(node) or "fuser has no definition for it"


def _told(node: Node) -> object:
    """Overload, arguments and results; of tensors, all that tracing knows but their elements."""
    argument = map_arg((node.args, node.kwargs), _form_of)
    return str(node.target), repr(argument), _form(meta_of(node))


def _form_of(node: Node) -> Any:
    return _form(meta_of(node))


def _form(value: object) -> object:
    """What stands for a value in `_told`: equal texts, equal values."""
    if isinstance(value, torch.Tensor):
        shape, strides = (tuple(map(_size, sizes)) for sizes in (value.shape, value.stride()))
        return f"{value.dtype} {value.device} {shape} {strides}"
    if isinstance(value, list | tuple):
        return tuple(map(_form, cast("Sequence[object]", value)))
    return f"{type(value).__name__} {value}"


def _size(size: int | torch.SymInt) -> int | str:
    return size if isinstance(size, int) else _text(cast("Any", size).node.expr)


@functools.lru_cache(maxsize=1024)
def _text(expression: Hashable) -> str:
    """A size as a formula of others. Few tell of many tensors, and sympy takes long to print."""
    return str(expression)


def _tensor_refusal(tensor: torch.Tensor, *, view: bool) -> str | None:
    if tensor.layout is not torch.strided:
        return f"a tensor's layout is {tensor.layout}"
    if not view and _is_lazy(tensor):
        return "a tensor is a lazy conjugate or negation"
    if dtypes.from_torch(tensor.dtype) not in dtypes.NUMBERS:
        return f"there is no DataType of {tensor.dtype}"
    if tensor.device.type not in ("cpu", "cuda"):
        return f"a tensor is on {tensor.device}"
    return None


def _trial(node: Node) -> str | None:
    """What the front end says to the node alone."""
    try:
        with FusionDefinition() as fd:
            lowering = Lowering(fd)
            for source in node.all_input_nodes:
                if not isinstance(meta_of(source), list | tuple):
                    lowering.declare(source)
            TABLE[node.target].write(lowering, node)
    except FuserError as error:
        return str(error)
    return None
