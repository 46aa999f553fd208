"""The printed definition: every class of operation in one text, and back."""

from __future__ import annotations

from typing import get_args

import pytest

from fuser import FusionDefinition
from fuser.ir.nodes import Fusion, Operation
from fuser.ir.printer import operation_name, print_fusion, print_number
from tests.definitions import built

EVERYTHING = """\
def nvfuser_fusion(fd: FusionDefinition) -> None:
    T0 = fd.define_tensor(shape=[-1, 4], contiguity=[True, False], dtype=DataType.Half)
    T1 = fd.define_tensor(shape=[3, 1], contiguity=[None, True], dtype=DataType.Float, \
stride_order=[0, 1])
    S2 = fd.define_scalar(None, dtype=DataType.Int)
    T3 = fd.define_tensor(shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True)
    S4 = fd.define_scalar(0.5, dtype=DataType.Double)
    S5 = fd.define_scalar(float("nan"), dtype=DataType.Float)
    S6 = fd.ops.size(T0, dim=0)
    S7 = fd.ops.mul(S6, S2)
    T8 = fd.ops.add(T1, S4)
    T9 = fd.ops.cast(T8, dtype=DataType.BFloat16)
    T10 = fd.ops.reshape(T9, new_shape=[-1, S7, 2])
    T11 = fd.ops.permute(T10, dims=[2, 0, 1])
    T12 = fd.ops.broadcast(T11, is_broadcast_dim=[False, True, False, False])
    T13 = fd.ops.expand(T12, shape=[-1, S2, -1, -1])
    T14 = fd.ops.squeeze(T12, dims=[1])
    T15 = fd.ops.slice(T14, start_indices=[0, 0, 0], end_indices=[2, 9, 9], strides=[1, 1, 2])
    T16 = fd.ops.stride_order(T15, stride_order=[0, 2, 1])
    T17 = fd.ops.full(shape=[S2, 2], fill_value=S5, dtype=DataType.Float)
    T18 = fd.ops.iota(4, start=S2, step=S2, dtype=DataType.Int)
    T19 = fd.ops.uniform(S4, S5, shape=[4], rng_seed=S6, rng_offset=S7, dtype=DataType.Double)
    T20 = fd.ops.normal(S4, S5, shape=[S2], rng_seed=S7, rng_offset=S6, dtype=DataType.Float)
    T21 = fd.ops.sum(T0, dims=[0], keepdim=False)
    T22, T23 = fd.ops.var_mean(T0, dims=[0, 1], correction=0, keepdim=True)
    T24 = fd.ops.argmax(T0, dims=[1], keepdim=True)
    T25 = fd.ops.prod(T0, dims=[1], keepdim=False, dtype=DataType.Double)
    T26 = fd.ops.var(T0, dims=[1], correction=1, keepdim=False)
    T27 = fd.ops.cummax(T0, dim=1)
    T28 = fd.ops.pad(T0, pad_widths=[1, 2, 0, -1], value=S4)
    T29 = fd.ops.cat([T0, T0], dim=1)
    T30 = fd.ops.index_select(T0, T18, dim=1)
    T31 = fd.ops.select(T0, S2, dim=0)
    T32 = fd.ops.gather(T0, T24, dim=1)
    T33 = fd.ops.take_along_axis(T0, T24, dim=1)
    T34 = fd.ops.scatter(T0, T24, S4, dim=1)
    T35 = fd.ops.linear(T0, T0)
    T36 = fd.ops.flip(T0, dims=[1, 0])
    T37 = fd.ops.scatter_add(T0, T24, T0, dim=1)
    T38 = fd.ops.index_add(T0, T18, T0, dim=1)
    T39 = fd.ops.check_index(T24, size=7, operation="gather")
    T40, T41 = fd.ops.topk(T0, k=2, dim=0, sorted=True)
    T42, T43 = fd.ops.topk(T0, k=0, dim=1, largest=False)
    T44 = fd.ops.argsort(T0, dim=1, descending=True)
    T45 = fd.ops.embedding_fwd(T24, T0, max_norm=float("inf"), sparse=False)
    T46 = fd.ops.index_put_accumulate(T0, T18, T0)
    T47 = fd.define_tensor(shape=[-1, 2, -1, 8], contiguity=[True, True, True, True], \
dtype=DataType.BFloat16)
    T48, T49, T50, T51 = fd.ops.sdpfa_fwd(T47, T47, T47)
    T52 = fd.define_tensor(shape=[1, 1], contiguity=[None, None], dtype=DataType.Bool)
    T53, T54, T55, T56 = fd.ops.sdpfa_fwd(T47, T47, T47, mask=T52, dropout_p=0.1, is_causal=True, \
scale=0.5)
    T57, T58, T59 = fd.ops.sdpfa_bwd(T47, T47, T47, T47, T48, T49, philox_seed=T50, \
philox_offset=T51, dropout_p=0.0, is_causal=False)
    T60, T61, T62 = fd.ops.welford(T0, dims=[1], keepdim=True)
    S63, S64 = fd.ops.generator_state()
    T65 = fd.ops.uniform(S4, S4, shape=[2], rng_seed=S63, rng_offset=S64, dtype=DataType.Half)
    fd.add_output(T35)
    fd.add_output(T27)
    fd.add_output(T8, alias_input=T1)
"""


def test_every_operation_class_round_trips() -> None:
    fusion = built(EVERYTHING).fusion
    assert print_fusion(fusion) == EVERYTHING
    assert built(print_fusion(fusion)).fusion == fusion
    assert {type(s.op) for s in fusion.statements} == set(get_args(Operation))


def test_empty_fusion_is_executable() -> None:
    assert built(print_fusion(Fusion())).fusion == Fusion()


@pytest.mark.parametrize(
    "number",
    [
        *(True, 3, -(1 << 63), 0.1, -0.0, 1e300, float("inf"), -float("inf"), float("nan")),
        *(1j, 1 - 0j, complex(float("nan"), -0.0), complex(-0.0, float("inf"))),
    ],
)
def test_numbers_round_trip_bit_for_bit(number: complex) -> None:
    assert repr(eval(print_number(number))) == repr(number)
    with FusionDefinition() as fd:
        fd.define_scalar(number)
    assert built(repr(fd)).fusion == fd.fusion


def test_operation_names_are_the_users() -> None:
    fusion = built(EVERYTHING).fusion
    names = [operation_name(statement.op) for statement in fusion.statements]
    assert names[:6] == ["define_scalar", "define_scalar", "size", "mul", "add", "cast"]
    assert {"reshape", "var_mean", "take_along_axis", "linear", "uniform"} <= set(names)
