"""Inputs as they are given -> tensors and numbers: a vector is given as the list of its elements.

[x, [2, 3], 1.0]    =>    [x, 2, 3, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuser.errors import ArgumentTypeError
from fuser.ir import nodes
from fuser.ir.nodes import Number, python_number

Inputs = Sequence["torch.Tensor | Number | Inputs"]
"""Tensors and numbers in the order the inputs were defined; those of a vector are nested."""


def listed(inputs: Inputs) -> Inputs:
    """Inputs that are a list, or a tuple. Raises ArgumentTypeError."""
    if not isinstance(inputs, list | tuple):
        expected, got = "a list of tensors and Python numbers", type(inputs).__name__
        raise ArgumentTypeError("execute", "inputs", got, expected)
    return inputs


def flattened(inputs: Inputs) -> nodes.Inputs:
    """The inputs, those of vectors in place of their list."""
    if type(inputs) not in _NESTED:
        listed(inputs)
    if _NESTED.isdisjoint(map(type, inputs)):
        return inputs  # pyright: ignore[reportReturnType]
    flat: list[torch.Tensor | Number] = []
    for given in inputs:
        if isinstance(given, torch.Tensor | bool | int | float | complex):
            flat.append(given)
        elif (number := python_number(given)) is not None:
            flat.append(number)
        else:
            flat.extend(flattened(given))
    return flat


_NESTED = frozenset({list, tuple, torch.Size})
