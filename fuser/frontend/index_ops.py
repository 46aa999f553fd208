"""Reads and writes at computed coordinates."""

from __future__ import annotations

from fuser.frontend.arguments import check_zero_dim, integer, one_of, string
from fuser.frontend.handles import Handle, Operand, Tensor
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.dtypes import DataType
from fuser.ir.nodes import Broadcast, Cast, CheckIndex, Gather, Scatter, Squeeze, Value


class IndexOps(OperationGroup):
    """`fd.ops`: gathers and scatters. `arg1` is an older name of `arg`.

    An index is 0 to size - 1; where it may count from the end too, the operation says so. Others
    are an error at execution; on the CPU it is IndexOutOfRangeError. A tensor of no dimensions is
    read and written as one of one element, where torch does.
    """

    def index_select(self, arg: Handle, index: Handle, dim: int) -> Handle:
        """The slices of `arg` at `index` (0 or 1 dimension) along `dim`."""
        return self._gather("index_select", arg, index, dim)

    def gather(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        dim: int | None = None,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """torch.gather: element [i, j] is arg[index[i, j], j] for dim 0; sizes of `index`."""
        data = one_of("gather", arg=arg, arg1=arg1)
        return self._gather("gather", data, index, one_of("gather", dim=dim))

    def take_along_axis(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        dim: int | None = None,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """gather whose operands broadcast against each other in every dimension but `dim`.

        Negative indices count from the end. Floats are cut to whole numbers, as in nvFuser: of an
        index and a scalar that is one, `where` makes floats.
        """
        data = one_of("take_along_axis", arg=arg, arg1=arg1)
        if isinstance(index, Tensor) and index.dtype().is_floating:
            index = self._recorder.add("take_along_axis", Cast(index.value, DataType.Int))
        return self._gather("take_along_axis", data, index, one_of("take_along_axis", dim=dim))

    def select(self, arg: Handle, index: Operand, dim: int) -> Handle:
        """The slice of `arg` at one position along `dim`, which is removed; -1 is the last."""
        value = self._recorder.tensor("select", "arg", arg)
        along = self._recorder.dim("select", value, dim)
        position = self._recorder.scalar("select", "index", index)
        return self._recorder.add("select", Gather("select", value, position, along))

    def scatter(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        src: Operand | None = None,
        dim: int | None = None,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """A copy of `arg` with `src` (a tensor or a number) written at `index` along `dim`."""
        data = one_of("scatter", arg=arg, arg1=arg1)
        return self._scatter("scatter", data, index, src, one_of("scatter", dim=dim))

    def scatter_add(self, arg: Handle, index: Handle, src: Handle, dim: int) -> Handle:
        """A copy of `arg` with the elements of `src` added at `index` along `dim`."""
        return self._scatter("scatter_add", arg, index, src, dim)

    def scatter_amax(self, arg: Handle, index: Handle, src: Handle, dim: int) -> Handle:
        """A copy of `arg` whose elements at `index` along `dim` are the largest of what was there
        and the elements of `src` that go there, NaN if one is; not of complex numbers."""
        return self._scatter("scatter_amax", arg, index, src, dim)

    def scatter_amin(self, arg: Handle, index: Handle, src: Handle, dim: int) -> Handle:
        """`scatter_amax`, but of the smallest."""
        return self._scatter("scatter_amin", arg, index, src, dim)

    def scatter_prod(self, arg: Handle, index: Handle, src: Handle, dim: int) -> Handle:
        """A copy of `arg` multiplied, at `index` along `dim`, by the elements of `src`."""
        return self._scatter("scatter_prod", arg, index, src, dim)

    def index_add(self, arg: Handle, index: Handle, src: Handle, dim: int) -> Handle:
        """A copy of `arg` with slice i of `src` added to the slice at index[i] along `dim`.

        `index` has 0 or 1 dimension, `src` the sizes of `arg` but for that many slices.
        """
        return self._scatter("index_add", arg, index, src, dim)

    def index_put_accumulate(self, acc: Handle, index: Handle, value: Handle) -> Handle:
        """A copy of `acc` with row [i, ...] of `value` added to its row at index[i, ...].

        `value` has the sizes of `index`, then those of a row. Negative indices count from the end.
        """
        return self._scatter("index_put_accumulate", acc, index, value, 0, ("acc", "value"))

    def check_index(self, arg: Handle, size: int, operation: str = "check_index") -> Handle:
        """The Int or Int32 tensor `arg`; its elements must be in 0 to size - 1 at execution.

        IndexOutOfRangeError, raised if one is not, names `operation`.
        """
        value = self._recorder.tensor("check_index", "arg", arg)
        limit = integer("check_index", "size", size)
        return self._recorder.add(
            "check_index", CheckIndex(value, limit, string("check_index", "operation", operation))
        )

    def _scatter(
        self,
        mode: str,
        arg: object,
        index: object,
        src: object,
        dim: object,
        names: tuple[str, str] = ("arg", "src"),
    ) -> Handle:
        recorder = self._recorder
        value = recorder.tensor(mode, names[0], arg)
        at = recorder.tensor(mode, "index", index)
        along = self._along(mode, value, dim)
        given = recorder.operand if mode == "scatter" else recorder.tensor
        source = given(mode, names[1], src)
        if mode == "index_add":
            lone = not value.shape and not source.shape
        else:
            lone = mode != "index_put_accumulate" and _are_elements(value, at, source)
        if not lone:
            return recorder.add(mode, Scatter(value, at, source, along, mode))
        line, places, written = (self._line(mode, operand) for operand in (value, at, source))
        made = recorder.add(mode, Scatter(line, places, written, along, mode))
        return made if value.shape else recorder.add(mode, Squeeze(made.value, (0,)))

    def _gather(self, mode: str, arg: object, index: object, dim: object) -> Handle:
        recorder = self._recorder
        value = recorder.tensor(mode, "arg", arg)
        at = recorder.tensor(mode, "index", index)
        along = self._along(mode, value, dim)
        lone = not value.shape if mode == "index_select" else _are_elements(value, at)
        if not lone or mode == "take_along_axis":
            return recorder.add(mode, Gather(mode, value, at, along))
        line, places = self._line(mode, value), self._line(mode, at)
        read = recorder.add(mode, Gather(mode, line, places, along))
        whole = value.shape if mode == "index_select" else at.shape
        return read if whole else recorder.add(mode, Squeeze(read.value, (0,)))

    def _along(self, mode: str, value: Value, dim: object) -> int:
        """A dimension of `value`; 0 or -1 where it has none and torch takes that."""
        if value.shape or mode in ("take_along_axis", "index_put_accumulate"):
            return self._recorder.dim(mode, value, dim)
        check_zero_dim(mode, value, [dim])
        return 0

    def _line(self, mode: str, value: Value) -> Value:
        """A tensor of no dimensions as one of one element; others, and scalars, as they are."""
        if value.shape or not value.is_tensor:
            return value
        return self._recorder.add(mode, Broadcast(value, (True,))).value


def _are_elements(*operands: Value) -> bool:
    """Whether there is a tensor of no dimensions among tensors of one at most."""
    ranks = [len(operand.shape) for operand in operands if operand.is_tensor]
    return 0 in ranks and max(ranks) <= 1
