"""fd.ops: every operation against torch, every spelling of its arguments, and its refusals."""

from __future__ import annotations

import inspect
import math
import pydoc
from collections.abc import Callable

import pytest
import torch

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle, Scalar
from fuser.frontend.ops import Operations
from fuser.ir.pointwise import TABLE
from tests.definitions import defined_by_ops

Made = Handle | tuple[Handle, ...]
Define = Callable[[Operations, Handle], Made]
Reference = Callable[[torch.Tensor], object]

X = torch.tensor([[0.5, -1.5, 2.0, 0.25], [1.0, -0.5, 0.75, -2.0], [3.0, 1.25, -0.25, 1.5]])
INDEX = torch.tensor([[0, 2, 1, 0], [2, 2, 0, 1]])


def run(define: Callable[[Operations, Handle], Made], x: torch.Tensor) -> list[torch.Tensor]:
    """What the operations make of one input."""
    return defined_by_ops(define, x).execute([x])


def refused(
    define: Define, shape: list[int], kind: type[errors.FuserError], words: str | None = None
) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=shape)
        with pytest.raises(kind, match=words):
            define(fd.ops, x)


def attention_gradients(o: Operations, x: Handle) -> tuple[Handle, ...]:
    output, logsumexp, seed, offset = o.sdpfa_fwd(x, x, x, is_causal=True)
    return o.sdpfa_bwd(x, x, x, x, output, logsumexp, 0.0, True, seed, offset)


def exact_gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [x.reshape(1, 1, 3, 4).clone().requires_grad_() for _ in range(3)]
    output = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    return torch.autograd.grad(output, leaves, x.reshape(1, 1, 3, 4))


SPELLINGS: list[tuple[Define, Reference]] = [
    # views
    (lambda o, x: o.reshape(x, new_shape=[4, 3]), lambda x: x.reshape(4, 3)),
    (lambda o, x: o.reshape(x, [2, -1]), lambda x: x.reshape(2, 6)),
    (lambda o, x: o.view(x, [3, 4], [12]), lambda x: x.reshape(12)),
    (lambda o, x: o.view(x, original_shape=[3, 4], new_shape=(6, 2)), lambda x: x.reshape(6, 2)),
    (lambda o, x: o.view(x, [3, 4], new_shape=(6, 2)), lambda x: x.reshape(6, 2)),
    (lambda o, x: o.reshape(x, x.shape()[::-1]), lambda x: x.reshape(4, 3)),
    (lambda o, x: o.reshape(x, [o.size(x, 0), 2, -1]), lambda x: x.reshape(3, 2, 2)),
    (lambda o, x: o.permute(x, dims=[1, 0]), lambda x: x.t()),
    (lambda o, x: o.permute(x, [-1, 0]), lambda x: x.t()),
    # broadcasts
    (lambda o, x: o.broadcast(x, is_broadcast_dim=[True, False, False]), lambda x: x[None]),
    (
        lambda o, x: o.broadcast_in_dim(x, shape=[2, 3, 4], broadcast_dims=[1, 2]),
        lambda x: x.expand(2, 3, 4),
    ),
    (
        lambda o, x: o.broadcast_in_dim(x, output_shape=[3, 5, 4], broadcast_dims=[0, -1]),
        lambda x: x[:, None].expand(3, 5, 4),
    ),
    (
        lambda o, x: o.broadcast_in_dim(x, [o.size(x, 1), *x.shape()], [1, 2]),
        lambda x: x.expand(4, 3, 4),
    ),
    (lambda o, x: o.broadcast_in_dim(x, [3, 1, 4], [0, 2]), lambda x: x[:, None]),
    (
        lambda o, x: o.expand(o.broadcast(x, [True, False, False]), [5, -1, 4]),
        lambda x: x.expand(5, 3, 4),
    ),
    (lambda o, x: o.squeeze(o.broadcast(x, [False, True, False]), dims=[1]), lambda x: x),
    (lambda o, x: o.squeeze(o.broadcast(x, [True, False, False]), [-3], False), lambda x: x),
    (lambda o, x: o.squeeze(o.broadcast(x, [True, False, False]), [1, 3, 4], 0), lambda x: x),
    (
        lambda o, x: o.squeeze(
            o.broadcast(x, [True, False, False]), original_shape=[1, 3, 4], dim=0
        ),
        lambda x: x,
    ),
    (lambda o, x: o.flip(x, 1), lambda x: x.flip(1)),
    (lambda o, x: o.flip(x, dims=[-1, 0]), lambda x: x.flip(0, 1)),
    (lambda o, x: o.flip(x, ()), lambda x: x),
    # parts
    (lambda o, x: o.slice(x, [0, 1], [2, 3]), lambda x: x[0:2, 1:3]),
    (
        lambda o, x: o.slice(x, start_indices=[1, 0], end_indices=[99, 4], strides=[1, 2]),
        lambda x: x[1:, ::2],
    ),
    (lambda o, x: o.pad(x, [1, 2]), lambda x: torch.nn.functional.pad(x, [1, 2])),
    (
        lambda o, x: o.pad(x, pad_widths=[0, -1, 2, 0], value=0.5),
        lambda x: torch.nn.functional.pad(x, [0, -1, 2, 0], value=0.5),
    ),
    (lambda o, x: o.cat([x, x]), lambda x: torch.cat([x, x])),
    (lambda o, x: o.cat((x, x, x), dim=-1), lambda x: torch.cat([x, x, x], 1)),
    (lambda o, x: o.cat([x, x], manual_padding=0), lambda x: torch.cat([x, x])),
    (lambda o, x: o.slice(x, [0, 1], [2, 4], manual_normalization=1), lambda x: x[:2, 1:]),
    (lambda o, x: o.broadcast(x, [0, 1, 0]), lambda x: x[:, None]),
    (lambda o, x: o.stride_order(x, [0, 1]), lambda x: x),
    (lambda o, x: o.cast(x, dtype=DataType.Int), lambda x: x.long()),
    # factories
    (lambda o, x: o.full([2, o.size(x, 0)], 3, DataType.Int), lambda x: torch.full((2, 3), 3)),
    (lambda o, x: o.full(size=[2], arg=0.5, dtype=DataType.Float), lambda x: torch.full((2,), 0.5)),
    (
        lambda o, x: o.full([2], -1, DataType.UInt8),
        lambda x: torch.full((2,), -1, dtype=torch.uint8),
    ),
    (lambda o, x: o.full([2], -7.9, DataType.Int), lambda x: torch.full((2,), -7)),
    (
        lambda o, x: o.full(shape=[], fill_value=1, dtype=DataType.Bool),
        lambda x: torch.tensor(True),
    ),
    (lambda o, x: o.iota(4), lambda x: torch.arange(4)),
    (
        lambda o, x: o.iota(o.size(x, 1), 5, -2, DataType.Int32),
        lambda x: torch.arange(5, -3, -2).int(),
    ),
    (lambda o, x: o.iota(3, 0.5, dtype=DataType.Float), lambda x: torch.tensor([0.5, 1.5, 2.5])),
    # reductions
    (lambda o, x: o.sum(x), lambda x: x.sum()),
    (lambda o, x: o.sum(x, [0, -1]), lambda x: x.sum()),
    (lambda o, x: o.sum(x, axes=[1], keepdim=True), lambda x: x.sum(1, keepdim=True)),
    (lambda o, x: o.sum(x, dim=0), lambda x: x.sum(0)),
    (lambda o, x: o.sum(x, -1, True, DataType.Null), lambda x: x.sum(1, keepdim=True)),
    (lambda o, x: o.sum(x, 0, dtype=DataType.Int), lambda x: x.long().sum(0)),
    (lambda o, x: o.sum(x, [0], 1), lambda x: x.sum(0, keepdim=True)),
    (lambda o, x: o.sum(x, DataType.Double), lambda x: x.double().sum()),
    (lambda o, x: o.prod(x, DataType.Double, True), lambda x: x.double().prod().reshape(1, 1)),
    (lambda o, x: o.max(x, DataType.Int), lambda x: x.long().amax()),
    (lambda o, x: o.min(x, dims=DataType.Int), lambda x: x.long().amin()),
    (lambda o, x: o.sum(x, [1], keep_dim=True), lambda x: x.sum(1, keepdim=True)),
    (lambda o, x: o.any(o.gt(x, 1), 0, keep_dim=1), lambda x: (x > 1).any(0, keepdim=True)),
    (lambda o, x: o.argmax(x, 1, keep_dim=True), lambda x: x.argmax(1, keepdim=True)),
    (lambda o, x: o.var(x, [1], keep_dim=True), lambda x: x.var(1, keepdim=True)),
    (lambda o, x: o.prod(x, [0]), lambda x: x.prod(0)),
    (lambda o, x: o.prod(x, dtype=DataType.Double), lambda x: x.double().prod()),
    (lambda o, x: o.max(x, dims=[1]), lambda x: x.amax(1)),
    (lambda o, x: o.amax(x, axes=1), lambda x: x.amax(1)),
    (lambda o, x: o.min(x), lambda x: x.amin()),
    (lambda o, x: o.amin(x, axis=[0], keepdim=True), lambda x: x.amin(0, keepdim=True)),
    (lambda o, x: o.mean(x, 0), lambda x: x.mean(0)),
    (lambda o, x: o.any(o.gt(x, 1), [1]), lambda x: (x > 1).any(1)),
    (lambda o, x: o.all(o.gt(x, -9)), lambda x: (x > -9).all()),
    (lambda o, x: o.var(x, [1]), lambda x: x.var(1)),
    (
        lambda o, x: o.var(x, axes=[1], correction=0, keepdim=True),
        lambda x: x.var(1, correction=0, keepdim=True),
    ),
    (
        lambda o, x: o.var_mean(x, [0, 1], 0, True),
        lambda x: torch.var_mean(x, [0, 1], correction=0, keepdim=True),
    ),
    (
        lambda o, x: o.welford(x, [1]),
        lambda x: (x.mean(1), x.var(1, correction=0) * 4, torch.full((3,), 4)),
    ),
    (lambda o, x: o.argmax(x), lambda x: x.argmax()),
    (lambda o, x: o.argmax(x, keepdim=True), lambda x: x.argmax(keepdim=True).reshape(1, 1)),
    (lambda o, x: o.argmin(x, dim=-1, keepdim=True), lambda x: x.argmin(-1, keepdim=True)),
    (lambda o, x: o.cumsum(x, -1), lambda x: x.cumsum(1)),
    (lambda o, x: o.cumprod(x, dim=0), lambda x: x.cumprod(0)),
    (lambda o, x: o.cummax(x, 0), lambda x: x.cummax(0).values),
    (lambda o, x: o.cummin(x, 1), lambda x: x.cummin(1).values),
    # indexing
    (lambda o, x: o.index_select(x, o.iota(2, 1), 0), lambda x: x[1:3]),
    (lambda o, x: o.select(x, -1, dim=0), lambda x: x[-1]),
    (lambda o, x: o.select(x, o.size(x, 0) - 1, 0), lambda x: x[2]),
    (
        lambda o, x: o.gather(x, o.iota(3, 1) % o.full([2, 1], 3, DataType.Int), 0),
        lambda x: x.gather(0, torch.tensor([[1, 2, 0], [1, 2, 0]])),
    ),
    (lambda o, x: o.gather(arg1=x, index=o.full([1, 4], 2, DataType.Int), dim=0), lambda x: x[2:3]),
    (
        lambda o, x: o.take_along_axis(x, o.full([1, 4], 2, DataType.Int), -2),
        lambda x: x[2:3],
    ),
    (
        lambda o, x: o.scatter(x, o.full([1, 2], 1, DataType.Int), 9, 0),
        lambda x: x.scatter(0, torch.tensor([[1, 1]]), 9.0),
    ),
    (
        lambda o, x: o.scatter(arg1=x, index=o.full([1, 2], 1, DataType.Int), src=-x, dim=0),
        lambda x: x.scatter(0, torch.tensor([[1, 1]]), -x),
    ),
    (
        lambda o, x: o.scatter_add(x, o.full([2, 3], 1, DataType.Int), o.neg(x), dim=-2),
        lambda x: x.scatter_add(0, torch.ones(2, 3).long(), -x),
    ),
    (
        lambda o, x: o.index_add(arg=x, index=o.iota(2, 1), src=o.slice(x, [0, 0], [3, 2]), dim=1),
        lambda x: x.index_add(1, torch.tensor([1, 2]), x[:, :2]),
    ),
    (
        lambda o, x: o.index_put_accumulate(x, o.full([3], -3, DataType.Int), value=x),
        lambda x: torch.cat([x[:1] + x.sum(0, keepdim=True), x[1:]]),
    ),
    (
        lambda o, x: o.check_index(o.cast(o.abs(x), DataType.Int), 4),
        lambda x: x.abs().long(),
    ),
    (
        lambda o, x: o.check_index(o.iota(3), size=3, operation="gather"),
        lambda x: torch.arange(3),
    ),
    # run by torch
    (lambda o, x: o.topk(x, 2, sorted=True), lambda x: tuple(x.topk(2))),
    (
        lambda o, x: o.topk(x, k=3, dim=0, largest=False, sorted=True),
        lambda x: tuple(x.topk(3, 0, largest=False)),
    ),
    (lambda o, x: o.argsort(x, 0), lambda x: x.argsort(0)),
    (
        lambda o, x: o.argsort(x, dim=-1, descending=True, stable=True),
        lambda x: x.argsort(1, descending=True),
    ),
    (lambda o, x: o.embedding_fwd(o.iota(2, 1), x), lambda x: x[1:]),
    (
        lambda o, x: o.embedding_fwd(o.iota(2, 1), weight=x, padding_idx=-1, max_norm=1),
        lambda x: x[1:] / x[1:].norm(dim=1, keepdim=True),
    ),
    (
        lambda o, x: o.sdpfa_fwd(*[o.reshape(x, [1, 1, 3, 4])] * 3, None, None, 0.0, True, 2)[0],
        lambda x: torch.nn.functional.scaled_dot_product_attention(
            *[x[None, None]] * 3, is_causal=True, scale=2.0
        ),
    ),
    (
        lambda o, x: o.sdpfa_fwd(*[o.reshape(x, [1, 1, 3, 4])] * 3, mask=o.iota(3) < 2)[0],
        lambda x: torch.nn.functional.scaled_dot_product_attention(
            *[x[None, None]] * 3, attn_mask=(torch.arange(3) < 2).expand(3, 3)
        ),
    ),
    (lambda o, x: attention_gradients(o, o.reshape(x, [1, 1, 3, 4])), exact_gradients),
    (lambda o, x: o.matmul(x, o.permute(x, [1, 0])), lambda x: x @ x.t()),
    (lambda o, x: o.linear(x, x), lambda x: x @ x.t()),
    (lambda o, x: o.linear(x, x, o.sum(x)), lambda x: x @ x.t() + x.sum()),
    (lambda o, x: o.argsort(o.sum(x), -1), lambda x: torch.tensor(0)),
    (lambda o, x: o.topk(o.sum(x), 1), lambda x: (x.sum(), torch.tensor(0))),
    (lambda o, x: o.linear(x, x, bias=o.sum(x, 1)), lambda x: x @ x.t() + x.sum(1)),
    # pointwise by other spellings
    (lambda o, x: o.clamp(x, -1, 1), lambda x: x.clamp(-1, 1)),
    (lambda o, x: o.clamp(x, min=0), lambda x: x.clamp(min=0)),
    (lambda o, x: o.clamp(x, max=0), lambda x: x.clamp(max=0)),
    (lambda o, x: o.add(lhs=x, rhs=1), lambda x: x + 1),
    (lambda o, x: o.sub(1, x), lambda x: 1 - x),
    (lambda o, x: o.where(condition=o.gt(x, 0), x=x, y=0), lambda x: x.where(x > 0, 0)),
    (lambda o, x: o.lerp(x, 2.0, weight=0.5), lambda x: torch.lerp(x, torch.full_like(x, 2), 0.5)),
    (lambda o, x: o.addcmul(x, x, x, value=2), lambda x: x.addcmul(x, x, value=2)),
    (lambda o, x: o.add_alpha(x, x, alpha=3), lambda x: x + 3 * x),
    (lambda o, x: o.threshold(x, threshold=0, value=7), lambda x: torch.threshold(x, 0, 7)),
    (lambda o, x: o.real(o.complex(real=x, imag=1.0)), lambda x: x),
]


@pytest.mark.parametrize("case", range(len(SPELLINGS)))
def test_spelling_means_what_torch_means(case: int) -> None:
    define, reference = SPELLINGS[case]
    expected = reference(X)
    listed = list(expected) if isinstance(expected, tuple) else [expected]  # pyright: ignore
    for out, want in zip(run(define, X), listed, strict=True):
        torch.testing.assert_close(out, want)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "mean", "any", "all", "var_mean", "argmax"])
@pytest.mark.parametrize("dims", [None, 0, [-1]])
def test_reductions_take_zero_dim_tensors(name: str, dims: object) -> None:
    more = {"correction": 0} if name == "var_mean" else {}
    outs = run(lambda o, x: getattr(o, name)(x, dims, **more), torch.tensor(3.0))
    assert all(out.shape == () for out in outs)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("given", [3.0, 4, True])
def test_scans_take_zero_dim_tensors(name: str, given: float) -> None:
    x = torch.tensor(given)
    for dim in (0, -1):
        (out,) = run(lambda o, x, dim=dim: getattr(o, name)(x, dim), x)
        want = getattr(torch, name)(x, dim)
        want = want.values if name in ("cummax", "cummin") else want
        torch.testing.assert_close(out, want, rtol=0, atol=0)
    with pytest.raises(errors.DimensionError, match="dimension 1 is out of range"):
        run(lambda o, x: getattr(o, name)(x, 1), x)


def test_broadcast_in_dim_that_changes_nothing_adds_nothing() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[3, 1])
        assert fd.ops.broadcast_in_dim(x, [3, 1], [0, 1]) is x


def test_sizes_are_scalars() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 3])
        assert all(isinstance(size, Scalar) for size in (*fd.ops.shape(x), fd.ops.size(x, -1)))
        assert len(fd.ops.tensor_sizes(x)) == 2
    assert "S4 = fd.ops.size(T0, dim=0)" in repr(fd)


# -- pointwise rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_row_is_an_operation(name: str) -> None:
    with FusionDefinition() as fd:
        operation = getattr(fd.ops, name)
        assert name in dir(fd.ops)
        assert operation.__doc__
        assert len(inspect.signature(operation).parameters) == TABLE[name].arity


def test_operations_can_be_looked_up_without_a_definition() -> None:
    listed = FusionDefinition.Operators
    assert {*TABLE, "reshape", "sum", "var_mean"} <= set(dir(listed))
    assert not hasattr(listed, "group_norm")
    assert dir(FusionDefinition().ops) == [name for name in dir(listed) if name[0] != "_"]
    assert "atan2(self, /, lhs, rhs)" in pydoc.render_doc(listed, renderer=pydoc.plaintext)


def test_wrong_number_of_operands_is_refused() -> None:
    refused(lambda o, x: o.add(x), [-1], errors.CallError, r"\(lhs, rhs\)")
    refused(lambda o, x: o.neg(x, y=x), [-1], errors.CallError, r"\(x\)")
    refused(lambda o, x: o.clamp(x), [-1], errors.ArgumentError, "min, max or both")


def test_unknown_operation_suggests_others() -> None:
    with FusionDefinition() as fd:
        with pytest.raises(errors.UnknownOperationError, match=r"did you mean .*reshape"):
            fd.ops.reshap  # noqa: B018
        with pytest.raises(AttributeError, match="'group_norm'"):
            fd.ops.group_norm  # noqa: B018
        assert not hasattr(fd.ops, "nv_block_quantize_to_nvfp4")


# -- refusals ------------------------------------------------------------------------------------

REFUSALS: list[tuple[Define, list[int], type[errors.FuserError]]] = [
    (lambda o, x: o.reshape(x, [3, 4], [5]), [3, 4], errors.ViewSizeError),
    (lambda o, x: o.reshape(x, [4, 3], [12]), [3, 4], errors.OriginalShapeError),
    (lambda o, x: o.reshape(x, [12], [12]), [3, 4], errors.OriginalShapeError),
    (lambda o, x: o.reshape(x, [-1, -1]), [-1, 4], errors.ArgumentError),
    (lambda o, x: o.reshape(x, [-2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.reshape(x), [3, 4], errors.ArgumentError),
    (lambda o, x: o.reshape(x, [3], [3], [3]), [3], errors.ArgumentError),
    (lambda o, x: o.reshape(x, [1.0]), [1], errors.ArgumentTypeError),
    (lambda o, x: o.reshape(x, [x]), [1], errors.ArgumentTypeError),
    (lambda o, x: o.reshape(x, [o.gt(o.size(x, 0), 0)]), [1], errors.ArgumentTypeError),
    (lambda o, x: o.reshape(2.0, [1]), [1], errors.ArgumentTypeError),
    (lambda o, x: o.permute(x, [0, 0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.permute(x, [0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.permute(x, [0, 2]), [3, 4], errors.DimensionError),
    (lambda o, x: o.broadcast(x, [True, False]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.broadcast(x, [0, 2, 0]), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.broadcast_in_dim(x, [3, 4], [0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.broadcast_in_dim(x, [3, 4], [1, 0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.broadcast_in_dim(x, [3, 4], [0, 2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.broadcast_in_dim(x, [3, 5], [0, 1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.broadcast_in_dim(x, [3, 5]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.expand(x, [3, 5]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.expand(x, [3]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.squeeze(x, [0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.squeeze(x, [2]), [3, 4], errors.DimensionError),
    (lambda o, x: o.squeeze(x, [1, 1]), [3, 1, 1], errors.ArgumentError),
    (lambda o, x: o.squeeze(x, [1, -2]), [3, 1, 1], errors.ArgumentError),
    (lambda o, x: o.squeeze(x), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [-1, 0], [2, 2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [2, 0], [1, 2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [0, 0], [1, 2], [0, 1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [0], [1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [0.0, 0], [1, 1]), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.slice(x, [2, 0], [o.size(x, 0)]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.slice(x, [-1, o.size(x, 0)], [1, 1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.pad(x, [o.size(x, 0), 1.5]), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.pad(x, [o.size(x, 0)]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.pad(x, [1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.pad(x, [1] * 6), [3, 4], errors.ArgumentError),
    (lambda o, x: o.pad(x, [-3, -2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.pad(x, [1, 1], value=x), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.cat([]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.cat([x, o.sum(x, 0)]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.cat([x, o.permute(x, [1, 0])]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.cat([x, o.cast(x, DataType.Half)]), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.cat([x], 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.cat(x), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.stride_order(x, [1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.cast(x, torch.int64), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.full([-1], 0, DataType.Int), [3], errors.ArgumentError),
    (lambda o, x: o.full([1], x, DataType.Int), [3], errors.ArgumentTypeError),
    (lambda o, x: o.full([1], size=[1], fill_value=0), [3], errors.ArgumentError),
    (lambda o, x: o.full([1], 2**40, DataType.Int32), [3], errors.ArgumentError),
    (lambda o, x: o.full([1], float("nan"), DataType.Int), [3], errors.ArgumentError),
    (lambda o, x: o.full([1], 128.5, DataType.Int8), [3], errors.ArgumentError),
    (lambda o, x: o.full([1], -256, DataType.UInt8), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, 2**31, dtype=DataType.Int32), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, 0, 1e300), [3], errors.ArgumentError),
    (lambda o, x: o.iota(-1), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, 1j), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, 0, o.size(x, 0) * 1j), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, dtype=DataType.Bool), [3], errors.OperandDtypeError),
    (lambda o, x: o.iota(3, step=0), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, step=-0.0, dtype=DataType.Float), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, step=math.inf, dtype=DataType.Float), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, step=math.nan, dtype=DataType.Float), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, start=-math.inf, dtype=DataType.Float), [3], errors.ArgumentError),
    (lambda o, x: o.iota(3, start=math.nan, dtype=DataType.Float), [3], errors.ArgumentError),
    (lambda o, x: o.uniform(0, 1, [3], dtype=DataType.Int), [3], errors.OperandDtypeError),
    (lambda o, x: o.sum(x, []), [3, 4], errors.ArgumentError),
    (lambda o, x: o.sum(x, [0, -2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.sum(x, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.sum(x, 1), [], errors.DimensionError),
    (lambda o, x: o.sum(x, 0.5), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.sum(x, [0], axes=[0]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.sum(x, 0, True, keep_dim=True), [3, 4], errors.ArgumentError),
    (lambda o, x: o.sum(x, DataType.Int, dtype=DataType.Int), [3], errors.ArgumentError),
    (lambda o, x: o.any(x, DataType.Int), [3], errors.ArgumentTypeError),
    (lambda o, x: o.sum(x, wibble=[0]), [3, 4], errors.CallError),
    (lambda o, x: o.sum(x, 0, keepdim=2), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.sum(2.0), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.max(x, 0), [0, 4], errors.ArgumentError),
    (lambda o, x: o.mean(o.cast(x, DataType.Int)), [3], errors.OperandDtypeError),
    (lambda o, x: o.argmax(x, [0, 1]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.cumsum(x, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.cumsum(x, 1), [], errors.DimensionError),
    (lambda o, x: o.cumsum(x, 0, init=1), [3], errors.ArgumentError),
    (lambda o, x: o.gather(x, x, 0), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.gather(x, o.iota(3), 0), [3, 4], errors.ArgumentError),
    (lambda o, x: o.gather(x, 0, 0), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.gather(index=o.iota(3)), [3], errors.ArgumentError),
    (lambda o, x: o.take_along_axis(x, o.iota(3), 0), [3, 4], errors.ArgumentError),
    (lambda o, x: o.index_select(x, o.full([2, 2], 0, DataType.Int), 0), [3], errors.ArgumentError),
    (lambda o, x: o.select(x, 0, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.select(x, 0.5, 0), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.scatter(x, o.iota(3), 1.0, 0), [3, 4], errors.ArgumentError),
    (lambda o, x: o.flip(x, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.flip(x, [0, -2]), [3, 4], errors.ArgumentError),
    (lambda o, x: o.flip(x, 0.5), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.flip(x, [o.size(x, 0)]), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.flip(x, 0), [], errors.DimensionError),
    (lambda o, x: o.scatter_add(x, o.full([1, 1], 0), 1.0, 0), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.scatter_add(x, o.iota(3), x, 0), [3, 4], errors.ArgumentError),
    (lambda o, x: o.scatter_add(x, x, x, 0), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.index_add(x, o.iota(2), x, 0), [3, 4], errors.ArgumentError),
    (lambda o, x: o.index_add(x, o.iota(3), x, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.index_add(x, x, x, 0), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.index_put_accumulate(x, o.iota(2), x), [3, 4], errors.ArgumentError),
    (lambda o, x: o.index_put_accumulate(x, o.iota(3), 1.0), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.index_put_accumulate(x, o.iota(3), x), [], errors.DimensionError),
    (lambda o, x: o.check_index(x, 3), [3], errors.OperandDtypeError),
    (lambda o, x: o.check_index(o.iota(3), -1), [3], errors.ArgumentError),
    (lambda o, x: o.check_index(o.iota(3), o.size(x, 0)), [3], errors.ArgumentTypeError),
    (lambda o, x: o.check_index(o.iota(3), 3, 3), [3], errors.ArgumentTypeError),
    (lambda o, x: o.topk(x, 5), [3, 4], errors.ArgumentError),
    (lambda o, x: o.topk(x, -1), [-1, -1], errors.ArgumentError),
    (lambda o, x: o.topk(x, o.gt(o.size(x, 0), 1)), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.topk(x, 1.0), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.topk(x, 2, 2), [3, 4], errors.DimensionError),
    (lambda o, x: o.topk(x, 2, largest=-1), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.argsort(x, 0, stable=None), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.argsort(x, 1), [], errors.DimensionError),
    (lambda o, x: o.topk(x, 2), [], errors.ArgumentError),
    (lambda o, x: o.argsort(x, o.size(x, 0)), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.embedding_fwd(x, x), [3, 4], errors.OperandDtypeError),
    (lambda o, x: o.embedding_fwd(o.iota(2), x, 3), [3, 4], errors.ArgumentError),
    (lambda o, x: o.embedding_fwd(o.iota(2), x, max_norm="1"), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.embedding_fwd(None, x), [3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.sdpfa_fwd(x, x, x), [3, 4], errors.ArgumentError),
    (lambda o, x: o.sdpfa_fwd(x, x, None), [1, 1, 3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.sdpfa_fwd(x, x, x, dropout_p=1.0), [1, 1, 3, 4], errors.ArgumentError),
    (lambda o, x: o.sdpfa_fwd(x, x, x, is_causal=2), [1, 1, 3, 4], errors.ArgumentTypeError),
    (lambda o, x: o.sdpfa_fwd(x, x, x, scale=x), [1, 1, 3, 4], errors.ArgumentTypeError),
    (
        lambda o, x: o.sdpfa_bwd(x, x, x, x, x, x, 0.0, False, x, x),
        [1, 1, 3, 4],
        errors.OperandDtypeError,
    ),
    (lambda o, x: o.matmul(x, x), [3, 4], errors.ArgumentError),
    (lambda o, x: o.linear(x, o.permute(x, [1, 0])), [3, 4], errors.ArgumentError),
    (lambda o, x: o.matmul(x, o.cast(x, DataType.Half)), [3, 3], errors.OperandDtypeError),
    (lambda o, x: o.add(x, o.sum(x, 1)), [3, 4], errors.BroadcastError),
    (lambda o, x: o.bitwise_and(x, x), [3], errors.OperandDtypeError),
    (lambda o, x: o.where(x, x, x), [3], errors.OperandDtypeError),
    (lambda o, x: o.add(x, "1"), [3], errors.ArgumentTypeError),
]


@pytest.mark.parametrize("case", range(len(REFUSALS)))
def test_mistake_is_refused_where_it_is_made(case: int) -> None:
    define, shape, kind = REFUSALS[case]
    refused(define, shape, kind)


def test_refused_operation_leaves_the_definition_usable() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[3, 4])
        with pytest.raises(errors.BroadcastError):
            fd.ops.add(x, fd.ops.sum(x, 1))
        fd.add_output(fd.ops.add(x, x))
    assert torch.equal(fd.execute([X])[0], X + X)


def test_a_handle_of_the_wrong_kind_is_named() -> None:
    refused(
        lambda o, x: o.topk(x, 1, largest=o.gt(o.size(x, 0), 1)),
        [-1, 4],
        errors.ArgumentTypeError,
        r"topk: largest must be a bool, got Scalar\(S\d+: Bool\)",
    )
    refused(
        lambda o, x: o.sdpfa_fwd(x, x, x, dropout_p=o.gt(o.size(x, 0), 1)),
        [1, 1, 3, 4],
        errors.ArgumentTypeError,
        r"sdpfa_fwd: dropout_p must be a Python number, got Scalar",
    )
    refused(
        lambda o, x: o.sdpfa_fwd(x, x, x, is_causal=o.size(x, 0)),
        [1, 1, 3, 4],
        errors.ArgumentTypeError,
        r"sdpfa_fwd: is_causal must be a bool, got Scalar",
    )


def test_an_index_out_of_range_names_the_operation() -> None:
    with pytest.raises(errors.IndexOutOfRangeError, match=r"attention: index 3 .* 0 to 2"):
        run(lambda o, x: o.check_index(o.iota(4), 3, "attention"), X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target", ["cpu", "emulator"])
def test_a_selection_keeps_16_bit_floats(dtype: torch.dtype, target: str) -> None:
    x, y = torch.randn(30, 70).to(dtype), torch.randn(30, 70).to(dtype)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        larger = fd.ops.gt(a, b)
        fd.add_output(fd.ops.where(larger, a, b))
        fd.add_output(fd.ops.where(larger, a, 0.1))
        fd.add_output(fd.ops.where(larger, a, fd.ops.cast(b, dtype=DataType.Float)))
    kept, with_scalar, wider = fd.execute([x, y], target=target)
    torch.testing.assert_close(kept, torch.where(x > y, x, y), rtol=0, atol=0)
    torch.testing.assert_close(with_scalar, torch.where(x > y, x, 0.1), rtol=0, atol=0)
    torch.testing.assert_close(wider, torch.where(x > y, x, y.float()), rtol=0, atol=0)


def test_a_selection_of_two_numbers_is_of_torchs_default_width() -> None:
    mask = torch.tensor([True, False])
    pairs = [(0.1, 1.0), (0.1, 1), (3, 5), (True, False), (1j, 0.1)]
    with FusionDefinition() as fd:
        condition = fd.from_pytorch(mask)
        for one, other in pairs:
            fd.add_output(fd.ops.where(condition, one, other))
    for found, (one, other) in zip(fd.execute([mask]), pairs, strict=True):
        torch.testing.assert_close(found, torch.where(mask, one, other), rtol=0, atol=0)


def test_a_selection_of_two_scalars_is_of_their_type() -> None:
    mask = torch.tensor([True, False])
    numbers = {DataType.Double: 0.1, DataType.Float: 0.1, DataType.Int32: 3, DataType.Bool: True}
    with FusionDefinition() as fd:
        condition = fd.from_pytorch(mask)
        given = fd.define_scalar(None, dtype=DataType.Double)
        declared = [fd.define_scalar(number, dtype) for dtype, number in numbers.items()]
        scalars = [fd.define_scalar(0.1), given, fd.define_scalar(0.1 + 0j), *declared]
        for scalar in scalars:
            fd.add_output(fd.ops.where(condition, scalar, scalar))
        fd.add_output(fd.ops.where(condition, declared[0], 0.1))
    found = fd.execute([mask, 0.1])
    wide = [torch.float64, torch.float64, torch.complex128]
    kinds = [*wide, *(dtype.torch for dtype in numbers), torch.float64]
    assert [result.dtype for result in found] == kinds
    for result, kind in zip(found, kinds, strict=True):
        number = 3 if kind is torch.int32 else 0.1
        assert torch.equal(result, torch.full((2,), number, dtype=kind))


def test_elements_are_taken_along_an_axis_at_floats_cut_to_whole_numbers() -> None:
    x, chosen = torch.randn(6, 40), torch.tensor([3, -100, 0, 39, -1, -100])
    with FusionDefinition() as fd:
        labels = fd.from_pytorch(chosen)
        valid = fd.ops.ne(labels, -100)
        at = fd.ops.where(valid, labels, fd.define_scalar(0, dtype=DataType.Float))
        columns = fd.ops.broadcast(at, [False, True])
        taken = fd.ops.take_along_axis(fd.from_pytorch(x), columns, dim=1)
        fd.add_output(fd.ops.squeeze(taken, [1]))
    (found,) = fd.execute([chosen, x])
    assert found.tolist() == x[range(6), [3, 0, 0, 39, -1, 0]].tolist()
