"""Reads and writes at computed coordinates, as torch does them, with one error for a wrong index.

What torch makes of an index below 0, here on every version and for all lengths:

    select, take_along_axis, index_put_accumulate                counts from the end: -1 is the last
    gather, index_select, scatter, scatter_add, index_add        refused
"""

from __future__ import annotations

import torch

from fuser import debug
from fuser.errors import IndexOutOfRangeError
from fuser.ir.conversions import movable
from fuser.ir.nodes import CheckIndex, Gather, Scatter
from fuser.ir.shapes import broadcast


def gather(op: Gather, data: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The result of a gather. Raises IndexOutOfRangeError for CPU tensors; torch does for others.

    take_along_axis: torch 2.13 takes an index of any size modulo the dimension's, and versions
    before refuse negative ones. Here it is -size to size - 1.
    """
    size = data.shape[op.dim]
    match op.mode:
        case "select":
            at = int(index.item())
            if not -size <= at < size:
                raise index_error(op.mode, at, size, wraps=True)
            return torch.select(data, op.dim, at)
        case "index_select":
            check_range(op.mode, index, size)
            return torch.index_select(movable(data), op.dim, index).view(data.dtype)
        case "gather":
            check_range(op.mode, index, size)
            return _gathered(data, index.long(), op.dim)
        case _:
            check_range(op.mode, index, size, wraps=True)
            return _take_along_axis(data, torch.where(index < 0, index + size, index), op.dim)


def scatter(
    op: Scatter, data: torch.Tensor, index: torch.Tensor, src: torch.Tensor
) -> torch.Tensor:
    """The result of a scatter. Raises IndexOutOfRangeError for CPU tensors; torch does for others.

    Where several elements go to one place, `scatter` keeps any of them, the others join them all.
    """
    size, index = data.shape[op.dim], index.long()
    check_range(op.mode, index, size, wraps=op.mode == "index_put_accumulate")
    match op.mode:
        case "scatter_add" | "scatter_amax" | "scatter_amin" | "scatter_prod":
            if index.shape[1:] != data.shape[1:]:
                # Torch takes an expanded index to be as long as rows are, up to 2.13 at least.
                index = index.contiguous()
            if op.mode == "scatter_add":
                return torch.scatter_add(data, op.dim, index, src)
            return torch.scatter_reduce(data, op.dim, index, src, op.mode.removeprefix("scatter_"))
        case "index_add":
            return torch.index_add(data, op.dim, index, src)
        case "index_put_accumulate":
            return torch.index_put(data, (index,), src, accumulate=True)
        case _:
            if not op.src.is_tensor:
                src = src.to(data.device).expand(index.shape)
            return _scattered(data, index, src, op.dim)


def check_index(op: CheckIndex, index: torch.Tensor) -> torch.Tensor:
    """`index` itself. Raises IndexOutOfRangeError on the CPU; elsewhere the device asserts."""
    check_range(op.operation, index, op.size)
    if index.device.type == "cuda":
        inside = ((index >= 0) & (index < op.size)).all()
        torch._assert_async(inside, f"{op.operation}: an index is not in 0 to {op.size - 1}")  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]
    return index


def check_range(operation: str, index: torch.Tensor, size: int, *, wraps: bool = False) -> None:
    """Raises IndexOutOfRangeError unless every element is in 0 to size - 1, or -size if it `wraps`.

    Looks at other than CPU tensors with FUSER_CHECK=index only: it waits for the device then.
    """
    seen = index.device.type == "cpu" or debug.checking("index")
    if not seen or index.numel() == 0:
        return
    low, high = (int(bound) for bound in torch.aminmax(index))
    if low < (-size if wraps else 0):
        raise index_error(operation, low, size, wraps=wraps)
    if high >= size:
        raise index_error(operation, high, size, wraps=wraps)


def index_error(operation: str, index: int, size: int, *, wraps: bool) -> IndexOutOfRangeError:
    """The error for an index into a dimension of `size`."""
    lowest = -size if wraps else 0
    allowed = f"{lowest} to {size - 1}" if size else "none, the dimension is empty"
    return IndexOutOfRangeError(operation=operation, index=index, allowed=allowed)


def _take_along_axis(data: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """A gather of operands that broadcast beside `dim`."""
    others = list(data.shape)
    others[dim] = index.shape[dim]
    shape = broadcast("take_along_axis", [tuple(index.shape), tuple(others)])
    whole = (*shape[:dim], data.shape[dim], *shape[dim + 1 :])
    return _gathered(data.expand(whole), index.expand(shape).long(), dim)


def _gathered(data: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.gather(movable(data), dim, index).view(data.dtype)


def _scattered(
    data: torch.Tensor, index: torch.Tensor, src: torch.Tensor, dim: int
) -> torch.Tensor:
    return torch.scatter(movable(data), dim, index, movable(src)).view(data.dtype)
