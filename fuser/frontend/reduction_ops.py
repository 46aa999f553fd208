"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import torch

from fuser.errors import ArgumentError
from fuser.frontend.arguments import (
    boolean,
    check_zero_dim,
    data_type,
    integer,
    is_int,
    one_of,
    read_dims,
    sequence,
)
from fuser.frontend.handles import Handle
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Reduce, Scan, Value, View

Dims = int | Sequence[int] | None


class Older(TypedDict, total=False):
    """Other spellings of `dims`, and one of `keepdim`."""

    axes: Dims
    dim: Dims
    axis: Dims
    keep_dim: bool


class ReductionOps(OperationGroup):
    """`fd.ops`: reductions, over all dimensions unless `dims` says which, and scans.

    `dtype` is what the operand is converted to before the reduction, and the type of the result;
    without it sums and products of integers are Int, and those of 16-bit floats are Float. It may
    come second, in the place of `dims`: `sum(arg, dtype)`.

    Results have the operand's shape without `dims`, or with 1 in their place if `keepdim`. Raises
    DimensionError for a dimension that the operand does not have, ArgumentError for one that is
    named twice, and OperandDtypeError for a dtype that is not reduced so.
    """

    def sum(
        self,
        arg: Handle,
        dims: Dims | DataType = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[Older],
    ) -> Handle:
        """The sum."""
        return self._reduce("sum", arg, dims, keepdim, older, dtype)

    def prod(
        self,
        arg: Handle,
        dims: Dims | DataType = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[Older],
    ) -> Handle:
        """The product."""
        return self._reduce("prod", arg, dims, keepdim, older, dtype)

    def max(
        self,
        arg: Handle,
        dims: Dims | DataType = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[Older],
    ) -> Handle:
        """The largest element; NaN if there is one. The values only, as torch.amax."""
        return self._reduce("max", arg, dims, keepdim, older, dtype)

    def min(
        self,
        arg: Handle,
        dims: Dims | DataType = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[Older],
    ) -> Handle:
        """The smallest element; NaN if there is one. The values only, as torch.amin."""
        return self._reduce("min", arg, dims, keepdim, older, dtype)

    amax = max
    amin = min

    def mean(
        self,
        arg: Handle,
        dims: Dims | DataType = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[Older],
    ) -> Handle:
        """The mean. Raises OperandDtypeError for integers: cast them."""
        return self._reduce("mean", arg, dims, keepdim, older, dtype)

    def any(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[Older]
    ) -> Handle:
        """Whether any element is not zero, as Bool."""
        return self._reduce("any", arg, dims, keepdim, older)

    def all(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[Older]
    ) -> Handle:
        """Whether no element is zero, as Bool."""
        return self._reduce("all", arg, dims, keepdim, older)

    def var(
        self,
        arg: Handle,
        dims: Dims = None,
        correction: int = 1,
        keepdim: bool = False,
        **older: Unpack[Older],
    ) -> Handle:
        """The variance: squared deviations divided by their number less `correction`.

        Deviations are from the mean as it is rounded: where that is many times the standard
        deviation s, the relative error is up to (2^-22 mean / s)^2 in float32, 1e-4 at 50,000
        times. Subtract something near the mean before, where that matters.
        """
        op = self._variance("var", arg, dims, keepdim, older, correction)
        return self._recorder.add("var", op)

    def var_mean(
        self,
        arg: Handle,
        dims: Dims = None,
        correction: int = 1,
        keepdim: bool = False,
        **older: Unpack[Older],
    ) -> tuple[Handle, Handle]:
        """The variance, as `var` has it, and the mean; both of one shape and dtype."""
        op = self._variance("var_mean", arg, dims, keepdim, older, correction)
        variance, mean = self._recorder.add_all("var_mean", op)
        return variance, mean

    def welford(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[Older]
    ) -> tuple[Handle, Handle, Handle]:
        """The mean, the sum of squared deviations from it, and the number of elements, as Int.

        `var_sum / (n - 1)` is the variance.
        """
        value = self._recorder.tensor("welford", "arg", arg)
        given, kept = _read("welford", dims, keepdim, older)
        op = Reduce("welford", value, self._dims("welford", value, given), kept)
        avg, var_sum, n = self._recorder.add_all("welford", op)
        return avg, var_sum, n

    def argmax(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[Older]
    ) -> Handle:
        """The index of the first largest element along one dimension, or in row-major order."""
        return self._arg_reduce("argmax", arg, dims, keepdim, older)

    def argmin(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[Older]
    ) -> Handle:
        """The index of the first smallest element along one dimension, or in row-major order."""
        return self._arg_reduce("argmin", arg, dims, keepdim, older)

    def cumsum(self, arg: Handle, dim: int, init: None = None, *, reverse: bool = False) -> Handle:
        """Running sums along `dim`; in `reverse`, from its last element on."""
        return self._scan("cumsum", arg, dim, init, reverse)

    def cumprod(self, arg: Handle, dim: int, init: None = None, *, reverse: bool = False) -> Handle:
        """Running products along `dim`; in `reverse`, from its last element on."""
        return self._scan("cumprod", arg, dim, init, reverse)

    def cummax(self, arg: Handle, dim: int, init: None = None, *, reverse: bool = False) -> Handle:
        """Running maxima along `dim`, in `reverse` from its last element on; the values only."""
        return self._scan("cummax", arg, dim, init, reverse)

    def cummin(self, arg: Handle, dim: int, init: None = None, *, reverse: bool = False) -> Handle:
        """Running minima along `dim`, in `reverse` from its last element on; the values only."""
        return self._scan("cummin", arg, dim, init, reverse)

    def _reduce(
        self,
        name: str,
        arg: Handle,
        dims: object,
        keepdim: bool,
        older: Older,
        dtype: DataType | None = None,
    ) -> Handle:
        value = self._recorder.tensor(name, "arg", arg)
        if isinstance(dims, DataType | torch.dtype) and name not in ("any", "all"):
            dims, dtype = None, data_type(name, one_of(name, dtype=dtype, dims=dims))
        result = None if dtype is None else data_type(name, dtype)
        given, kept = _read(name, dims, keepdim, older)
        op = Reduce(name, value, self._dims(name, value, given), kept, result)
        return self._recorder.add(name, op)

    def _variance(
        self, name: str, arg: Handle, dims: object, keepdim: bool, older: Older, correction: int
    ) -> Reduce:
        value = self._recorder.tensor(name, "arg", arg)
        less = integer(name, "correction", correction)
        given, kept = _read(name, dims, keepdim, older)
        return Reduce(name, value, self._dims(name, value, given), kept, correction=less)

    def _arg_reduce(
        self, name: str, arg: Handle, dims: object, keepdim: bool, older: Older
    ) -> Handle:
        value = self._recorder.tensor(name, "arg", arg)
        given, kept = _read(name, dims, keepdim, older)
        reduced = self._dims(name, value, given)
        if given is not None and value.shape:
            if len(reduced) > 1:
                expected = "expected one dimension, or none for the whole tensor"
                raise ArgumentError(name, "dims", reduced, expected)
            return self._recorder.add(name, Reduce(name, value, reduced, kept))
        flat = self._recorder.add(name, View(value, (-1,)))
        index = self._recorder.add(name, Reduce(name, flat.value, (0,)))
        if not kept or not value.shape:
            return index
        return self._recorder.add(name, Broadcast(index.value, (True,) * len(value.shape)))

    def _scan(self, name: str, arg: Handle, dim: int, init: object, reverse: bool) -> Handle:
        if init is not None:
            expected = "a first value cannot be given; combine it with the result instead"
            raise ArgumentError(name, "init", init, expected)
        value, back = self._recorder.tensor(name, "arg", arg), boolean(name, "reverse", reverse)
        if value.shape:
            along = self._recorder.dim(name, value, dim)
            return self._recorder.add(name, Scan(name, value, along, back))
        check_zero_dim(name, value, [dim])
        row = self._recorder.add(name, View(value, (1,)))
        scanned = self._recorder.add(name, Scan(name, row.value, 0))
        return self._recorder.add(name, View(scanned.value, ()))

    def _dims(self, name: str, value: Value, given: object) -> tuple[int, ...]:
        """Dimensions to reduce, wrapped and in order; those of a 0-dim tensor are none."""
        if given is None:
            return tuple(range(len(value.shape)))
        dims: list[object] = [given] if is_int(given) else sequence(name, "dims", given)
        if not value.shape:
            check_zero_dim(name, value, dims)
            return ()
        wrapped = sorted(self._recorder.dim(name, value, dim) for dim in dims)
        if not wrapped or len(set(wrapped)) < len(wrapped):
            expected = "expected at least one dimension, and each at most once"
            raise ArgumentError(name, "dims", dims, expected)
        return tuple(wrapped)


_OLDER = ("axes", "dim", "axis")


def _read(name: str, dims: object, keepdim: object, older: Older) -> tuple[object, bool]:
    """What is reduced and whether its dimensions are kept, given under any of their names."""
    named: dict[str, object] = dict(older)
    if "keep_dim" in named:
        kept = named.pop("keep_dim")
        keepdim = one_of(name, keepdim=None if keepdim is False else keepdim, keep_dim=kept)
    return read_dims(name, dims, named, *_OLDER), boolean(name, "keepdim", keepdim)
