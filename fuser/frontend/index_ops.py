"""Reads and writes at computed coordinates, and the operations torch runs."""

from __future__ import annotations

from fuser.frontend.arguments import one_of
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.operation_group import OperationGroup
from fuser.ir.nodes import Extern, Gather, Scatter


class IndexOps(OperationGroup):
    """`fd.ops`: gathers, scatter, matmul and linear. `arg1` is an older name of `arg`."""

    def index_select(self, arg: Handle, index: Handle, dim: int) -> Handle:
        """The slices of `arg` at `index` (0 or 1 dimension) along `dim`."""
        return self._gather("index_select", arg, index, dim)

    def gather(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        dim: int = 0,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """torch.gather: element [i, j] is arg[index[i, j], j] for dim 0; sizes of `index`."""
        return self._gather("gather", one_of("gather", arg=arg, arg1=arg1), index, dim)

    def take_along_axis(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        dim: int = 0,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """gather whose operands broadcast against each other in every dimension but `dim`."""
        data = one_of("take_along_axis", arg=arg, arg1=arg1)
        return self._gather("take_along_axis", data, index, dim)

    def select(self, arg: Handle, index: Operand, dim: int) -> Handle:
        """The slice of `arg` at one position along `dim`, which is removed."""
        value = self._recorder.tensor("select", "arg", arg)
        along = self._recorder.dim("select", value, dim)
        position = self._recorder.scalar("select", "index", index)
        return self._recorder.add("select", Gather("select", value, position, along))

    def scatter(
        self,
        arg: Handle | None = None,
        index: Handle | None = None,
        src: Operand | None = None,
        dim: int = 0,
        *,
        arg1: Handle | None = None,
    ) -> Handle:
        """A copy of `arg` with `src` (a tensor or a number) written at `index` along `dim`."""
        recorder = self._recorder
        value = recorder.tensor("scatter", "arg", one_of("scatter", arg=arg, arg1=arg1))
        at = recorder.tensor("scatter", "index", index)
        along = recorder.dim("scatter", value, dim)
        return recorder.add(
            "scatter", Scatter(value, at, recorder.operand("scatter", "src", src), along)
        )

    def matmul(self, arg1: Handle, arg2: Handle) -> Handle:
        """torch.matmul, run by torch."""
        args = (
            self._recorder.tensor("matmul", "arg1", arg1),
            self._recorder.tensor("matmul", "arg2", arg2),
        )
        return self._recorder.add("matmul", Extern("matmul", args))

    def linear(self, arg1: Handle, arg2: Handle, bias: Handle | None = None) -> Handle:
        """arg1 @ arg2.T + bias, run by torch."""
        given = {"arg1": arg1, "arg2": arg2} | ({} if bias is None else {"bias": bias})
        args = tuple(self._recorder.tensor("linear", name, arg) for name, arg in given.items())
        return self._recorder.add("linear", Extern("linear", args))

    def _gather(self, mode: str, arg: object, index: object, dim: object) -> Handle:
        value = self._recorder.tensor(mode, "arg", arg)
        at = self._recorder.tensor(mode, "index", index)
        return self._recorder.add(
            mode, Gather(mode, value, at, self._recorder.dim(mode, value, dim))
        )
