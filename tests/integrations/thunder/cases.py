"""Thunder's primitives by groups: each group is one function of many results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuser.integrations.thunder.library import devices, dtypes, ltorch, prims

CPU = devices.cpu


def _all(*names: str) -> Callable[..., Any]:
    """The results of primitives that take the same arguments."""
    symbols = [getattr(prims, name) for name in names]
    return lambda *args: tuple(symbol(*args) for symbol in symbols)


SIGNED = (
    *("abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc"),
    *("erfinv", "exp", "exp2", "expm1", "floor", "isfinite", "neg", "reciprocal", "round"),
    *("sign", "signbit", "sin", "sinh", "tan", "tanh", "trunc"),
)
POSITIVE = ("acosh", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sqrt")
PAIRS = (
    *("add", "atan2", "div", "eq", "fmod", "ge", "gt", "le", "lt", "maximum", "minimum", "mul"),
    *("ne", "nextafter", "pow", "remainder", "sub"),
)
INTEGERS = (
    *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "mul", "sub", "maximum"),
    *("remainder", "bitwise_left_shift", "bitwise_right_shift"),
)


def shapes(x: Any, y: Any) -> Any:
    return (
        prims.broadcast_in_dim(prims.exp(x), (2, 4, 6), (1, 2)),
        prims.cat([x, y], 1),
        prims.flip(x, (0, 1)),
        prims.pad(x, 1.5, [(1, 0, 0), (-1, 2, 0)]),
        prims.reshape(prims.exp(x), (3, 8)) + 1,
        prims.view(prims.exp(x), (24,)) + 1,
        prims.slice_prim(x, (1, 0), (4, 6), (2, 3)) * 2,
        prims.squeeze(prims.broadcast_in_dim(x, (4, 1, 6), (0, 2)), (1,)) + y,
        prims.transpose(prims.exp(x), (1, 0)) + 1,
        prims.shallow_copy(x) + 1,
        prims.clone(x),
        prims.convert_element_type(x, dtypes.int32),
        prims.convert_element_type(x, dtypes.bfloat16),
    )


def factories(x: Any) -> Any:
    full = prims.full((4, 6), 2.5, device=CPU, dtype=dtypes.float32)
    iota = prims.iota(6, start=3, step=-2, device=CPU, dtype=dtypes.int64)
    return x + full, prims.broadcast_in_dim(iota, (4, 6), (1,)), full


def reductions(x: Any, i: Any) -> Any:
    return (
        *(
            fold(x, dims)
            for fold in (prims.amax, prims.amin, prims.sum, prims.prod)
            for dims in ((0,), (1,), (0, 1))
        ),
        prims.sum(i, (1,)),
        prims.var(x, (1,), correction=1),
        *prims.var_mean(x, (0,), correction=0),
        prims.std(x, (1,), correction=1),
        prims.argmax(x, 1),
        prims.argmin(x, None),
        *prims.topk(x, 2, 1, True, True),
        ltorch.cumsum(x, 1),
        ltorch.cumsum(i, 0),
    )


def gathers(x: Any, index: Any, rows: Any, weight: Any) -> Any:
    return (
        prims.gather(x, index, 1),
        prims.take(x, rows, 0),
        prims.take_along_axis(x, index, 1),
        prims.embedding(rows, weight),
    )


def scatters(x: Any, index: Any, rows: Any, values: Any) -> Any:
    return (
        prims.scatter(x, index, values, 1),
        prims.scatter_add(x, index, values, 1),
        prims.index_add(x, rows, x, 0),
        prims.index_copy(x, rows, x + 1, 0),
        prims.index_put(x, [rows], x, True),
        prims.embedding_backward(x, rows, 5, -1, False, False),
    )


def signed() -> torch.Tensor:
    return torch.linspace(-0.9, 0.9, 24).reshape(4, 6)


def positive() -> torch.Tensor:
    return torch.linspace(1.1, 3.0, 24).reshape(4, 6)


def whole() -> torch.Tensor:
    return torch.arange(-12, 12).reshape(4, 6)


def places() -> torch.Tensor:
    return torch.stack([torch.randperm(6) for _ in range(4)])


GROUPS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "signed": (_all(*SIGNED), lambda: (signed(),)),
    "positive": (_all(*POSITIVE), lambda: (positive(),)),
    "pairs": (_all(*PAIRS), lambda: (positive(), positive().flip(0))),
    "integers": (
        _all(*INTEGERS),
        lambda: (whole(), torch.arange(24).reshape(4, 6) % 5 + 1),
    ),
    "not": (_all("bitwise_not"), lambda: (whole(),)),
    "where": (_all("where"), lambda: (signed() > 0, signed(), positive())),
    "shapes": (shapes, lambda: (signed(), positive())),
    "factories": (factories, lambda: (signed(),)),
    "reductions": (reductions, lambda: (signed(), whole())),
    "gathers": (gathers, lambda: (signed(), places(), torch.tensor([2, 0, 3, 1]), positive())),
    "scatters": (scatters, lambda: (signed(), places(), torch.tensor([2, 0, 3, 1]), positive())),
}
