"""What an execution's inputs must be for a fusion: `check_inputs`, `check_updates`."""

from __future__ import annotations

import numbers
from collections.abc import Mapping

import numpy as np
import torch

from fuser.errors import (
    AliasUpdateError,
    InputContiguityError,
    InputCountError,
    InputDeviceError,
    InputDtypeError,
    InputKindError,
    InputRankError,
    InputSizeError,
    ScalarInputError,
)
from fuser.ir import dtypes
from fuser.ir.dtypes import Category, DataType
from fuser.ir.nodes import Fusion, Inputs
from fuser.ir.types import DYNAMIC, Layout, ScalarType, TensorType, dims_slowest_first


def check_inputs(fusion: Fusion, inputs: Inputs) -> None:
    """Raises the first mistake among `inputs`: position, name, what is expected, what is given.

    One of InputCountError, InputKindError, InputDtypeError, InputRankError, InputSizeError,
    InputContiguityError, InputDeviceError and ScalarInputError.
    """
    if len(inputs) != len(fusion.inputs):
        raise InputCountError(
            expected=len(fusion.inputs),
            got=len(inputs),
            names=", ".join(value.name for value in fusion.inputs) or "none",
        )
    for position, (value, given) in enumerate(zip(fusion.inputs, inputs, strict=True)):
        where = {"position": position, "name": value.name}
        match value.type:
            case ScalarType(dtype):
                _check_scalar(where, dtype, given)
            case TensorType() as type_:
                _check_tensor(where, type_, given)
    _check_devices(fusion, inputs)


def check_updates(fusion: Fusion, inputs: Inputs) -> None:
    """Raises AliasUpdateError unless every updated input can hold the output written into it."""
    given = dict(zip(fusion.inputs, inputs, strict=True))
    for output in fusion.outputs:
        if output.alias_of is None:
            continue
        held = given[output.alias_of]
        assert isinstance(held, torch.Tensor)
        reason = ""
        if output.value.shape != tuple(held.shape):
            reason = f"their sizes differ: {list(output.value.shape)} and {list(held.shape)}"
        elif held.numel() and 0 in [
            stride for stride, size in zip(held.stride(), held.shape, strict=True) if size > 1
        ]:
            reason = "the input is expanded: several of its elements are one in memory"
        if reason:
            raise AliasUpdateError(output=output.value, input=output.alias_of, reason=reason)


Where = Mapping[str, object]
"""The position and the name of an input, for its errors."""


def _check_scalar(where: Where, dtype: DataType, given: object) -> None:
    if not isinstance(given, _NUMBERS):
        expected = f"a number for the {dtype.name} scalar"
        raise InputKindError(**where, expected=expected, got=_kind(given))
    if not _scalar_fits(given, dtype):
        raise ScalarInputError(**where, value=given, expected=dtype.name)


_NUMBERS: tuple[type, ...] = (numbers.Number, np.bool_)
"""The second is one of NumPy's that Python does not know to be a number."""


def _scalar_fits(given: object, dtype: DataType) -> bool:
    match dtype.category:
        case Category.BOOL:
            return isinstance(given, bool | np.bool_)
        case _ if isinstance(given, np.bool_):
            return True
        case Category.INTEGER:
            return isinstance(given, numbers.Integral) and dtypes.holds(dtype, int(given))
        case Category.FLOAT:
            return isinstance(given, numbers.Real) and _is_no_huge_integer(given)
        case Category.COMPLEX:
            return isinstance(given, numbers.Complex) and _is_no_huge_integer(given)


def _is_no_huge_integer(given: object) -> bool:
    """Whether it is no integer that is larger than any double."""
    return not isinstance(given, int) or abs(given) < 1 << 1023


def _check_tensor(where: Where, type_: TensorType, given: object) -> None:
    if not isinstance(given, torch.Tensor) or not is_strided(given):
        raise InputKindError(**where, expected="a strided tensor", got=_kind(given))
    if given.is_conj() or given.is_neg():
        lazy = "a lazy conjugate or negation; call .resolve_conj().resolve_neg()"
        raise InputKindError(**where, expected="a tensor that holds its numbers", got=lazy)
    if given.dtype is not type_.dtype.torch:
        found = dtypes.from_torch(given.dtype)
        got = given.dtype if found is None else found.name
        pairs = type_.dtype is DataType.Float4_e2m1fn_x2  # which nothing converts to
        remedy = f"view its bytes as {type_.dtype.torch}" if pairs else "convert the tensor"
        raise InputDtypeError(**where, expected=type_.dtype.name, got=got, remedy=remedy)
    _check_sizes(where, type_, given)
    if type_.layout is not None and given.numel() > 0:
        _check_contiguity(where, type_.layout, given)
    if type_.is_cpu and given.device.type != "cpu":
        raise InputDeviceError(**where, expected="cpu", got=given.device)


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie at its strides; those of a nested one may not."""
    return tensor.layout is torch.strided and not tensor.is_nested


def _check_sizes(where: Where, type_: TensorType, given: torch.Tensor) -> None:
    sizes = list(given.shape)
    if len(sizes) != type_.rank:
        raise InputRankError(**where, expected=type_.rank, got=len(sizes), sizes=sizes)
    for dim, (expected, size) in enumerate(zip(type_.shape, sizes, strict=True)):
        if expected not in (DYNAMIC, size):
            raise InputSizeError(**where, dim=dim, expected=expected, got=size, sizes=sizes)


def _check_contiguity(where: Where, layout: Layout, given: torch.Tensor) -> None:
    """Strides where the layout states them; a size-1 dimension's stride is never used."""
    step = 1
    dims = zip(dims_slowest_first(layout.stride_order), layout.contiguity, strict=True)
    for dim, contiguous in reversed(list(dims)):
        size, stride = given.shape[dim], given.stride(dim)
        if size == 1:
            continue
        wanted = 0 if contiguous is None else step
        if contiguous is not False and stride != wanted:
            raise InputContiguityError(
                **where,
                contiguity=list(layout.contiguity),
                order=list(layout.stride_order),
                sizes=list(given.shape),
                strides=list(given.stride()),
                dim=dim,
                expected=wanted,
            )
        if contiguous is not None:
            step = stride * size


def _check_devices(fusion: Fusion, inputs: Inputs) -> None:
    """Tensors are on one device, but 0-dim CPU tensors go with any."""
    tensors = [
        (position, value, given)
        for position, (value, given) in enumerate(zip(fusion.inputs, inputs, strict=True))
        if isinstance(given, torch.Tensor) and not (given.dim() == 0 and given.device.type == "cpu")
    ]
    for position, value, given in tensors[1:]:
        if given.device != tensors[0][2].device:
            raise InputDeviceError(
                position=position,
                name=value.name,
                expected=f"{tensors[0][2].device}, as input {tensors[0][0]}",
                got=given.device,
            )


def _kind(given: object) -> str:
    if isinstance(given, torch.Tensor):
        if not is_strided(given):
            nested = "nested " if given.is_nested else ""
            return f"a {given.dim()}-dim {nested}tensor of layout {given.layout}"
        number = "; its number is tensor.item()" if given.dim() == 0 else ""
        return f"a {given.dim()}-dim tensor{number}"
    kind, shape = type(given).__name__, getattr(given, "shape", None)
    return f"{kind} {given!r}"[:80] if shape is None else f"{kind} of shape {shape}"
