"""Operations that make random numbers, and the state of torch's generator they begin from."""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.arguments import Shape, data_type, extents
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtype_rules import refused
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Extent, GeneratorState, Random, Value, python_number


class RandomOps(OperationGroup):
    """`fd.ops`: random numbers.

    `rng_seed` and `rng_offset`, Int scalars, come together: the same two give the same numbers, in
    any operation and definition, on every target. Without them, numbers follow
    torch.manual_seed, and are others in every operation and execution.

    Raises ArgumentError for a size below 0 and for one of `rng_seed` and `rng_offset` alone, and
    OperandDtypeError for a dtype that is not floating.
    """

    def generator_state(self) -> tuple[Handle, Handle]:
        """A seed and an offset, Int scalars, from torch's generator: others in every execution."""
        seed, offset = self._recorder.add_all("generator_state", GeneratorState())
        return seed, offset

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
        """Random numbers in [minval, maxval), of `shape` and `dtype`. Raises ArgumentError if the
        bounds are numbers in the other order, or none."""
        ends = [end for end in map(python_number, (minval, maxval)) if isinstance(end, int | float)]
        if len(ends) == 2 and not ends[0] <= ends[1]:
            expected = f"expected at most maxval, which is {maxval}"
            raise ArgumentError("uniform", "minval", minval, expected)
        sizes = extents(self._recorder, "uniform", "shape", shape, lowest=0)
        return self._random("uniform", (minval, maxval), sizes, (rng_seed, rng_offset), dtype)

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
        """Normally distributed random numbers of `shape` and `dtype`, with a mean and a standard
        deviation. Raises ArgumentError if that is a number below 0."""
        number = python_number(std)
        if isinstance(number, int | float) and not number >= 0:
            raise ArgumentError("normal", "std", std, "0 or more")
        sizes = extents(self._recorder, "normal", "shape", shape, lowest=0)
        return self._random("normal", (mean, std), sizes, (rng_seed, rng_offset), dtype)

    def rand_like(
        self, arg: Handle, *, rng_seed: Operand | None = None, rng_offset: Operand | None = None
    ) -> Handle:
        """Random numbers in [0, 1), of the sizes and dtype of `arg`."""
        return self._like("rand_like", "uniform", arg, (rng_seed, rng_offset))

    def randn_like(
        self, arg: Handle, *, rng_seed: Operand | None = None, rng_offset: Operand | None = None
    ) -> Handle:
        """Standard normal random numbers, of the sizes and dtype of `arg`."""
        return self._like("randn_like", "normal", arg, (rng_seed, rng_offset))

    def _like(
        self,
        name: str,
        distribution: str,
        arg: object,
        given: tuple[Operand | None, Operand | None],
    ) -> Handle:
        """Numbers of a standard distribution, of the sizes and dtype of `arg`."""
        value = self._recorder.tensor(name, "arg", arg)
        if not value.dtype.is_floating:
            raise refused(name, "computes in floating types", (value,))
        sizes = (self._recorder.extent(name, value, dim) for dim in range(len(value.shape)))
        return self._random(distribution, (0.0, 1.0), tuple(sizes), given, value.dtype, name)

    def _random(
        self,
        distribution: str,
        parameters: tuple[Operand, Operand],
        shape: tuple[Extent, ...],
        given: tuple[Operand | None, Operand | None],
        dtype: DataType,
        name: str = "",
    ) -> Handle:
        name = name or distribution
        named = zip(_PARAMETERS[distribution], parameters, strict=True)
        first, second = (self._recorder.scalar(name, *parameter) for parameter in named)
        seed, offset = self._state(name, *given)
        op = Random(distribution, shape, (first, second), seed, offset, data_type(name, dtype))
        return self._recorder.add(name, op)

    def _state(
        self, name: str, seed: Operand | None, offset: Operand | None
    ) -> tuple[Value, Value]:
        """The seed and offset that are given, or that the generator is to give."""
        if seed is None and offset is None:
            drawn, first = self.generator_state()
            return drawn.value, first.value
        if seed is None or offset is None:
            missing = "rng_seed" if seed is None else "rng_offset"
            expected = "rng_seed and rng_offset come together: give both or neither"
            raise ArgumentError(name, missing, None, expected)
        scalar = self._recorder.scalar
        return scalar(name, "rng_seed", seed), scalar(name, "rng_offset", offset)


_PARAMETERS = {"uniform": ("minval", "maxval"), "normal": ("mean", "std")}
