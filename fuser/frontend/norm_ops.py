"""Normalizations that nvFuser has as one operation: compositions of the others."""

from __future__ import annotations

from fuser.errors import ArgumentError
from fuser.frontend.arguments import boolean
from fuser.frontend.handles import Handle, Operand
from fuser.frontend.reduction_ops import ReductionOps
from fuser.frontend.shape_ops import ShapeOps
from fuser.ir.nodes import Cast, Value


class NormOps(ShapeOps, ReductionOps):
    """`fd.ops`: batch normalization."""

    def batch_norm(
        self,
        arg: Handle,
        weight: Handle | None = None,
        bias: Handle | None = None,
        running_mean: Handle | None = None,
        running_var: Handle | None = None,
        momentum: Operand = 0.1,
        eps: Operand = 1e-5,
        training: bool = True,
        channels_last: bool = False,
    ) -> tuple[Handle, Handle, Handle]:
        """`arg` [N, C, ...] less its mean, over its deviation, times `weight` plus `bias`, all [C];
        with the mean and the reciprocal of the deviation. `channels_last`: `arg` is [N, ..., C].

        The mean and the variance are those of each channel; when not `training`, the running ones,
        if there are any. When `training`, these are updated in place: they have to be inputs.
        Raises ArgumentError.
        """
        value = self._recorder.tensor("batch_norm", "arg", arg)
        rank = len(value.shape)
        if rank < 2:
            raise _refused("arg", arg, f"expected two or more dimensions, {value} has {rank}")
        if (running_mean is None) != (running_var is None):
            raise _refused(
                "running_mean", running_mean, "give running_mean and running_var, or neither"
            )
        is_last = boolean("batch_norm", "channels_last", channels_last)
        channel = rank - 1 if is_last else 1
        others = [dim for dim in range(rank) if dim != channel]
        of_batch = boolean("batch_norm", "training", training)
        if running_mean is None or running_var is None:
            variance, mean = self.var_mean(arg, others, 0)
        elif of_batch:
            variance, mean = self.var_mean(arg, others, 0)
            self._update("running_mean", running_mean, mean, momentum)
            self._update("running_var", running_var, self.var(arg, others, 1), momentum)
        else:
            variance, mean = running_var, running_mean
        inverse = self._recorder.pointwise("rsqrt", variance + eps)
        is_other = [dim in others for dim in range(rank)]

        def of_channel(held: Handle) -> Handle:
            return self.broadcast(held, is_other)

        result = (arg - of_channel(mean)) * of_channel(inverse)
        result = result if weight is None else result * of_channel(weight)
        result = result if bias is None else result + of_channel(bias)
        return result, mean, inverse

    def _update(self, name: str, held: Handle, new: Handle, momentum: Operand) -> None:
        """Write a running statistic, which moves to that of a batch, into its input."""
        value = self._recorder.tensor("batch_norm", name, held)
        kept = self._recorder.pointwise("sub", 1.0, momentum)
        moved = (held * kept + new * momentum).value
        self._recorder.update("batch_norm", name, held, self._as(value, moved))

    def _as(self, like: Value, value: Value) -> Value:
        if value.dtype is like.dtype:
            return value
        return self._recorder.add("batch_norm", Cast(value, like.dtype)).value


def _refused(argument: str, got: object, expected: str) -> ArgumentError:
    return ArgumentError("batch_norm", argument, got, expected)
