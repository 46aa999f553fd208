"""Published definitions, as their authors wrote them, at any size; and a softmax."""

# ruff: noqa: N806 (the names are those of the published definitions)

from __future__ import annotations

from fuser import DataType, FusionDefinition


def gelu(fd: FusionDefinition, batch: int = 64, rows: int = 128, columns: int = 3072) -> None:
    """A gelu between two views that undo each other."""
    flat, apart = [batch * rows, columns], [batch, rows, columns]
    T0 = fd.define_tensor(symbolic_sizes=[-1, -1], contiguous=[True, True], dtype=DataType.Float)
    T1 = fd.ops.view(T0, original_shape=flat, new_shape=apart)
    S2 = fd.define_constant(0.500000)
    T3 = fd.ops.mul(T1, S2)
    S4 = fd.define_constant(0.707107)
    T5 = fd.ops.mul(T1, S4)
    T6 = fd.ops.erf(T5)
    S7 = fd.define_constant(1.00000)
    T8 = fd.ops.add(T6, S7)
    T9 = fd.ops.mul(T3, T8)
    T10 = fd.ops.view(T9, original_shape=apart, new_shape=flat)
    fd.add_output(T1)
    fd.add_output(T10)


def transpose(fd: FusionDefinition, batch: int = 64, heads: int = 12, rows: int = 128) -> None:
    """The transpose after attention: [batch * heads, rows, 64] -> [batch * rows, heads * 64]."""
    T0 = fd.define_tensor(
        symbolic_sizes=[-1, -1, -1], contiguous=[True, True, True], dtype=DataType.Float
    )
    T1 = fd.ops.view(
        T0, original_shape=[batch * heads, rows, 64], new_shape=[batch, heads, rows, 64]
    )
    T2 = fd.ops.permute(T1, dims=[0, 2, 1, 3])
    T3 = fd.ops.set(T2)
    T4 = fd.ops.view(
        T3, original_shape=[batch, rows, heads, 64], new_shape=[batch, rows, heads * 64]
    )
    T5 = fd.ops.view(
        T4, original_shape=[batch, rows, heads * 64], new_shape=[batch * rows, heads * 64]
    )
    fd.add_output(T5)


def softmax(fd: FusionDefinition) -> None:
    """A softmax of rows."""
    T0 = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
    T1 = fd.ops.max(T0, dims=[1], keepdim=True)
    T2 = fd.ops.sub(T0, T1)
    T3 = fd.ops.exp(T2)
    T4 = fd.ops.sum(T3, dims=[1], keepdim=True)
    T5 = fd.ops.div(T3, T4)
    fd.add_output(T5)


def cross_entropy(fd: FusionDefinition) -> None:
    """The loss of torch.compile's cross entropy; targets of -100 do not count."""
    primals_1 = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
    primals_2 = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
    amax = fd.ops.max(primals_1, [1], keepdim=True)
    sub = fd.ops.sub(primals_1, amax)
    exp = fd.ops.exp(sub)
    sum_1 = fd.ops.sum(exp, [1], keepdim=True)
    log = fd.ops.log(sum_1)
    sub_1 = fd.ops.sub(sub, log)
    ne = fd.ops.ne(primals_2, -100)
    where = fd.ops.where(ne, primals_2, 0)
    unsqueeze = fd.ops.broadcast(where, [False, True])
    gather = fd.ops.gather(sub_1, unsqueeze, dim=1)
    squeeze = fd.ops.squeeze(gather, [1])
    neg = fd.ops.neg(squeeze)
    where_1 = fd.ops.where(ne, neg, 0.0)
    sum_2 = fd.ops.sum(ne)
    convert_element_type = fd.ops.cast(sum_2, dtype=DataType.Float)
    sum_3 = fd.ops.sum(where_1)
    div = fd.ops.truediv(sum_3, convert_element_type)
    fd.add_output(div)
