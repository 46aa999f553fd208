"""Writing small fusions beside their inputs, and comparing a rewritten one with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fuser.errors import FuserError
from fuser.ir.builder import FusionBuilder
from fuser.ir.dtypes import DataType, from_torch
from fuser.ir.interpret import interpret
from fuser.ir.nodes import Constant, Fusion, Iota, Number, Operation, Pointwise, Reduce, Value
from fuser.ir.printer import operation_name
from fuser.ir.types import Layout, ScalarType, TensorType, compute_tensor_descriptor
from fuser.ir.verify import verify
from fuser.passes.dead_code import remove_dead_code

Rewrite = Callable[[Fusion], Fusion]
Inputs = Sequence["torch.Tensor | Number"]


class Draft:
    """A fusion under construction, with the inputs it is run with."""

    def __init__(self) -> None:
        self.builder = FusionBuilder()
        self.inputs: list[torch.Tensor | Number] = []

    def tensor(self, given: torch.Tensor, *, declared: bool = True) -> Value:
        """The next input; if `declared`, contiguous and expanded dimensions are known to be so."""
        layout = None
        if declared:
            layout = Layout(*compute_tensor_descriptor(given.shape, given.stride()))
        self.inputs.append(given)
        dtype = from_torch(given.dtype)
        assert dtype is not None
        return self.builder.input(TensorType(dtype, tuple(given.shape), layout))

    def scalar(self, given: Number, dtype: DataType) -> Value:
        """A scalar that is known at execution only."""
        self.inputs.append(given)
        return self.builder.input(ScalarType(dtype))

    def add(self, op: Operation) -> Value:
        (out,) = self.builder.add(op)
        return out

    def pointwise(self, name: str, *args: Value) -> Value:
        return self.add(Pointwise(name, args))

    def number(self, number: Number, dtype: DataType = DataType.Int) -> Value:
        return self.add(Constant(number, dtype))

    def range(self, length: int, start: int = 0, step: int = 1) -> Value:
        return self.add(Iota(length, self.number(start), self.number(step), DataType.Int))

    def out(self, *values: Value) -> Draft:
        for value in values:
            self.builder.output(value)
        return self

    @property
    def fusion(self) -> Fusion:
        return self.builder.fusion


def rewritten(rewrite: Rewrite, draft: Draft, *, bits: bool = False) -> Fusion:
    """The fusion after the rewrite, without dead code; it does what it did before."""
    after = rewrite(draft.fusion)
    verify(after, "after the rewrite")
    check_same(draft.fusion, after, draft.inputs, bits=bits)
    after = remove_dead_code(after)
    verify(after, "without dead code")
    check_same(draft.fusion, after, draft.inputs, bits=bits)
    return after


def check_same(before: Fusion, after: Fusion, inputs: Inputs, *, bits: bool = False) -> None:
    """Both raise, or both give equal numbers at equal strides; with `bits`, 0.0 is not -0.0."""
    want, got = _run(before, inputs), _run(after, inputs)
    if isinstance(want, FuserError) or isinstance(got, FuserError):
        assert type(want) is type(got), f"before: {want!r}, after: {got!r}"
        return
    for left, right in zip(want, got, strict=True):
        torch.testing.assert_close(right, left, rtol=0, atol=0, equal_nan=True)
        assert _strides(right) == _strides(left)
        if bits and left.is_floating_point():
            assert torch.equal(left.float().signbit(), right.float().signbit())


def _run(fusion: Fusion, inputs: Inputs) -> list[torch.Tensor] | FuserError:
    try:
        return interpret(fusion, inputs)
    except FuserError as error:
        return error


def _strides(tensor: torch.Tensor) -> list[int]:
    """Strides that are used."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return [stride for stride, size in pairs if size != 1] if tensor.numel() else []


def names(fusion: Fusion) -> list[str]:
    """What is done, in order, constants left out."""
    operations = (operation_name(statement.op) for statement in fusion.statements)
    return [name for name in operations if name != "define_scalar"]


def folds(fusion: Fusion) -> list[str]:
    """What is reduced how, in order."""
    return [s.op.op for s in fusion.statements if isinstance(s.op, Reduce)]
