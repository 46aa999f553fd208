"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from fuser.errors import ArgumentError, DimensionError
from fuser.frontend.arguments import boolean, dtype, integer, is_int, read_dims, sequence
from fuser.frontend.handles import Handle
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Reduce, Scan, Value, View

Dims = int | Sequence[int] | None


class OlderDims(TypedDict, total=False):
    """Other spellings of `dims`."""

    axes: Dims
    dim: Dims
    axis: Dims


class ReductionOps(OperationGroup):
    """`fd.ops`: reductions, over all dimensions unless `dims` says which, and scans.

    `dtype` is what the operand is converted to before the reduction, and the type of the result;
    without it sums and products of integers are Int, and those of 16-bit floats are Float.
    """

    def sum(
        self,
        arg: Handle,
        dims: Dims = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The sum."""
        return self._reduce("sum", arg, read_dims("sum", dims, older, *_OLDER), keepdim, dtype)

    def prod(
        self,
        arg: Handle,
        dims: Dims = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The product."""
        return self._reduce("prod", arg, read_dims("prod", dims, older, *_OLDER), keepdim, dtype)

    def max(
        self,
        arg: Handle,
        dims: Dims = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The largest element; NaN if there is one. The values only, as torch.amax."""
        return self._reduce("max", arg, read_dims("max", dims, older, *_OLDER), keepdim, dtype)

    def min(
        self,
        arg: Handle,
        dims: Dims = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The smallest element; NaN if there is one. The values only, as torch.amin."""
        return self._reduce("min", arg, read_dims("min", dims, older, *_OLDER), keepdim, dtype)

    amax = max
    amin = min

    def mean(
        self,
        arg: Handle,
        dims: Dims = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The mean of floating or complex elements."""
        return self._reduce("mean", arg, read_dims("mean", dims, older, *_OLDER), keepdim, dtype)

    def any(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[OlderDims]
    ) -> Handle:
        """Whether any element is not zero, as Bool."""
        return self._reduce("any", arg, read_dims("any", dims, older, *_OLDER), keepdim)

    def all(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[OlderDims]
    ) -> Handle:
        """Whether no element is zero, as Bool."""
        return self._reduce("all", arg, read_dims("all", dims, older, *_OLDER), keepdim)

    def var(
        self,
        arg: Handle,
        dims: Dims = None,
        correction: int = 1,
        keepdim: bool = False,
        **older: Unpack[OlderDims],
    ) -> Handle:
        """The variance: squared deviations divided by their number less `correction`."""
        op = self._variance("var", arg, read_dims("var", dims, older, *_OLDER), keepdim, correction)
        return self._recorder.add("var", op)

    def var_mean(
        self,
        arg: Handle,
        dims: Dims = None,
        correction: int = 1,
        keepdim: bool = False,
        **older: Unpack[OlderDims],
    ) -> tuple[Handle, Handle]:
        """The variance and the mean."""
        given = read_dims("var_mean", dims, older, *_OLDER)
        op = self._variance("var_mean", arg, given, keepdim, correction)
        variance, mean = self._recorder.add_all("var_mean", op)
        return variance, mean

    def welford(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[OlderDims]
    ) -> tuple[Handle, Handle, Handle]:
        """The mean, the sum of squared deviations from it, and the number of elements, as Int.

        `var_sum / (n - 1)` is the variance.
        """
        value = self._recorder.tensor("welford", "arg", arg)
        reduced = self._dims("welford", value, read_dims("welford", dims, older, *_OLDER))
        op = Reduce("welford", value, reduced, boolean("welford", "keepdim", keepdim))
        avg, var_sum, n = self._recorder.add_all("welford", op)
        return avg, var_sum, n

    def argmax(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[OlderDims]
    ) -> Handle:
        """The index of the first largest element along one dimension, or in row-major order."""
        given = read_dims("argmax", dims, older, *_OLDER)
        return self._arg_reduce("argmax", arg, given, keepdim)

    def argmin(
        self, arg: Handle, dims: Dims = None, keepdim: bool = False, **older: Unpack[OlderDims]
    ) -> Handle:
        """The index of the first smallest element along one dimension, or in row-major order."""
        given = read_dims("argmin", dims, older, *_OLDER)
        return self._arg_reduce("argmin", arg, given, keepdim)

    def cumsum(self, arg: Handle, dim: int, init: None = None) -> Handle:
        """Running sums along `dim`."""
        return self._scan("cumsum", arg, dim, init)

    def cumprod(self, arg: Handle, dim: int, init: None = None) -> Handle:
        """Running products along `dim`."""
        return self._scan("cumprod", arg, dim, init)

    def cummax(self, arg: Handle, dim: int, init: None = None) -> Handle:
        """Running maxima along `dim`; the values only."""
        return self._scan("cummax", arg, dim, init)

    def cummin(self, arg: Handle, dim: int, init: None = None) -> Handle:
        """Running minima along `dim`; the values only."""
        return self._scan("cummin", arg, dim, init)

    def _reduce(
        self, name: str, arg: Handle, dims: object, keepdim: bool, dtype: DataType | None = None
    ) -> Handle:
        value = self._recorder.tensor(name, "arg", arg)
        result = None if dtype is None else _dtype(name, dtype)
        kept = boolean(name, "keepdim", keepdim)
        op = Reduce(name, value, self._dims(name, value, dims), kept, result)
        return self._recorder.add(name, op)

    def _variance(
        self, name: str, arg: Handle, dims: object, keepdim: bool, correction: int
    ) -> Reduce:
        value = self._recorder.tensor(name, "arg", arg)
        less = integer(name, "correction", correction)
        kept = boolean(name, "keepdim", keepdim)
        return Reduce(name, value, self._dims(name, value, dims), kept, correction=less)

    def _arg_reduce(self, name: str, arg: Handle, given: object, keepdim: bool) -> Handle:
        value = self._recorder.tensor(name, "arg", arg)
        dims, kept = self._dims(name, value, given), boolean(name, "keepdim", keepdim)
        if given is not None and value.shape:
            if len(dims) > 1:
                expected = "expected one dimension, or none for the whole tensor"
                raise ArgumentError(operation=name, argument="dims", got=dims, expected=expected)
            return self._recorder.add(name, Reduce(name, value, dims, kept))
        flat = self._recorder.add(name, View(value, (-1,)))
        index = self._recorder.add(name, Reduce(name, flat.value, (0,)))
        if not kept or not value.shape:
            return index
        return self._recorder.add(name, Broadcast(index.value, (True,) * len(value.shape)))

    def _scan(self, name: str, arg: Handle, dim: int, init: object) -> Handle:
        if init is not None:
            raise ArgumentError(
                operation=name,
                argument="init",
                got=init,
                expected="a first value cannot be given; combine it with the result instead",
            )
        value = self._recorder.tensor(name, "arg", arg)
        if value.shape:
            return self._recorder.add(name, Scan(name, value, self._recorder.dim(name, value, dim)))
        _check_zero_dim(name, value, [dim])
        row = self._recorder.add(name, View(value, (1,)))
        scanned = self._recorder.add(name, Scan(name, row.value, 0))
        return self._recorder.add(name, View(scanned.value, ()))

    def _dims(self, name: str, value: Value, given: object) -> tuple[int, ...]:
        """Dimensions to reduce, wrapped and in order; those of a 0-dim tensor are none."""
        if given is None:
            return tuple(range(len(value.shape)))
        dims: list[object] = [given] if is_int(given) else sequence(name, "dims", given)
        if not value.shape:
            _check_zero_dim(name, value, dims)
            return ()
        wrapped = sorted(self._recorder.dim(name, value, dim) for dim in dims)
        if not wrapped or len(set(wrapped)) < len(wrapped):
            raise ArgumentError(
                operation=name,
                argument="dims",
                got=dims,
                expected="expected at least one dimension, and each at most once",
            )
        return tuple(wrapped)


_OLDER = ("axes", "dim", "axis")
_dtype = dtype


def _check_zero_dim(name: str, value: Value, dims: list[object]) -> None:
    for dim in dims:
        if dim not in (0, -1):
            raise DimensionError(operation=name, dim=dim, operand=value.name, rank=0)
