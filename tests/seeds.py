"""The two published definitions with bookend views, as their authors wrote them, at any size."""

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
