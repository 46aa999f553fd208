"""Operations that make tensors from scalars: full, iota, random numbers."""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.arguments import Shape, dtype, extent, extents, one_of
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Extent, Full, Iota, Random, SizeOf, Value
from fuser.ir.types import DYNAMIC


class FactoryOps(OperationGroup):
    """`fd.ops`: factories."""

    def full(
        self,
        shape: Shape | None = None,
        fill_value: Operand | None = None,
        dtype: DataType = DataType.Float,
        *,
        size: Shape | None = None,
        arg: Operand | None = None,
    ) -> Handle:
        """A tensor of one number. `size` and `arg` are older names of `shape` and `fill_value`."""
        sizes = self._sizes("full", one_of("full", shape=shape, size=size))
        fill = one_of("full", fill_value=fill_value, arg=arg)
        value = self._recorder.scalar("full", "fill_value", fill)
        return self._recorder.add("full", Full(sizes, value, _dtype("full", dtype)))

    def iota(
        self,
        length: int | Handle,
        start: Operand | None = None,
        step: Operand | None = None,
        dtype: DataType = DataType.Int,
    ) -> Handle:
        """start, start + step, ...: `length` elements; by default 0, 1, 2, ..."""
        count = extent(self._recorder, "iota", "length", length, lowest=0)
        first = self._recorder.scalar("iota", "start", 0 if start is None else start)
        pace = self._recorder.scalar("iota", "step", 1 if step is None else step)
        return self._recorder.add("iota", Iota(count, first, pace, _dtype("iota", dtype)))

    def uniform(
        self,
        minval: Operand,
        maxval: Operand,
        shape: Shape,
        *,
        rng_seed: Operand | None = None,
        rng_offset: Operand | None = None,
        dtype: DataType = DataType.Float,
    ) -> Handle:
        """Random numbers in [minval, maxval), from torch's generator."""
        _refuse_seed("uniform", rng_seed, rng_offset)
        return self._random("uniform", (minval, maxval), self._sizes("uniform", shape), dtype)

    def normal(
        self,
        mean: Operand,
        std: Operand,
        shape: Shape,
        *,
        rng_seed: Operand | None = None,
        rng_offset: Operand | None = None,
        dtype: DataType = DataType.Float,
    ) -> Handle:
        """Normally distributed random numbers, from torch's generator."""
        _refuse_seed("normal", rng_seed, rng_offset)
        return self._random("normal", (mean, std), self._sizes("normal", shape), dtype)

    def rand_like(
        self, arg: Handle, *, rng_seed: Operand | None = None, rng_offset: Operand | None = None
    ) -> Handle:
        """Random numbers in [0, 1), of the sizes and dtype of `arg`."""
        _refuse_seed("rand_like", rng_seed, rng_offset)
        value = self._recorder.tensor("rand_like", "arg", arg)
        return self._random("uniform", (0.0, 1.0), self._sizes_of(value), value.dtype)

    def randn_like(
        self, arg: Handle, *, rng_seed: Operand | None = None, rng_offset: Operand | None = None
    ) -> Handle:
        """Standard normal random numbers, of the sizes and dtype of `arg`."""
        _refuse_seed("randn_like", rng_seed, rng_offset)
        value = self._recorder.tensor("randn_like", "arg", arg)
        return self._random("normal", (0.0, 1.0), self._sizes_of(value), value.dtype)

    def _random(
        self,
        distribution: str,
        parameters: tuple[Operand, Operand],
        shape: tuple[Extent, ...],
        dtype: DataType,
    ) -> Handle:
        first, second = (
            self._recorder.scalar(distribution, f"parameter {i}", given)
            for i, given in enumerate(parameters)
        )
        op = Random(distribution, shape, (first, second), _dtype(distribution, dtype))
        return self._recorder.add(distribution, op)

    def _sizes(self, operation: str, shape: object) -> tuple[Extent, ...]:
        return extents(self._recorder, operation, "shape", shape, lowest=0)

    def _sizes_of(self, value: Value) -> tuple[Extent, ...]:
        """The sizes of a tensor, as scalars where they are dynamic."""
        return tuple(
            self._recorder.add("size", SizeOf(value, dim)).value if size == DYNAMIC else size
            for dim, size in enumerate(value.shape)
        )


_dtype = dtype


def _refuse_seed(operation: str, seed: object, offset: object) -> None:
    if seed is not None or offset is not None:
        raise ArgumentError(
            operation=operation,
            argument="rng_seed and rng_offset",
            got=(seed, offset),
            expected="they cannot be given; random numbers follow torch.manual_seed",
        )
