"""Calls of every row of the ATen table that is more than one row of the pointwise table."""

from __future__ import annotations

import itertools
from typing import Any

import torch

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims
generator = torch.Generator().manual_seed(0)


def f(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, generator=generator).to(dtype)


def i(*sizes: int, high: int = 4, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=generator)


def b(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes, generator=generator) > 0.5


def z(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=generator, dtype=torch.complex64)


def case(target: Any, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return target, args, kwargs


BF16 = torch.bfloat16
CPU = torch.device("cpu")
END = 2**63 - 1
QUOTIENTS = torch.tensor([1.0, -1.0, 0.1, -0.1, 0.3, 7.0, 0.0, -0.0, torch.inf, -torch.inf])
HOLES = torch.tensor([1.0, torch.nan, -torch.inf, -2.0, torch.inf])
TIES = torch.tensor([1.0, 3.0, torch.nan, 2.0, torch.nan, 5.0])
RUNNING = (aten.cummax.default, aten.cummin.default)
PUT = aten.index_put.default
HELD = torch.tensor([True, False, True])
SHIFTS = ("__lshift__", "__rshift__")
SHIFTED = torch.tensor([-9, -1, 0, 1, 77, 2**62])
SPECIAL = torch.tensor([0.0, -0.0, 1.5, -2.75, 1e-40, 3e38, torch.inf, -torch.inf, torch.nan])
OTHER_BITS = (
    (torch.float32, torch.int32),
    (torch.float64, torch.int64),
    (torch.bfloat16, torch.int16),
    (torch.float32, torch.float32),
)
SMALL = torch.arange(-128, 128, dtype=torch.float32)
BYTES = (torch.uint8, torch.int8)
MULTIPLY_ADD = [prims.fma.default] if hasattr(prims, "fma") else []

CASES = [
    # arithmetic
    case(aten.add.Tensor, f(3, 4), f(4), alpha=2),
    case(aten.add.Tensor, f(3, 4, dtype=BF16), f(3, 4), alpha=0.5),
    case(aten.add.Tensor, i(3), i(3), alpha=3),
    case(aten.add.Tensor, f(3), i(3, low=200, high=256).byte(), alpha=3),
    case(aten.add.Tensor, f(3), 2),
    case(aten.add.Tensor, b(3), i(3)),
    case(aten.add.Scalar, i(3), 2, 3),
    case(aten.sub.Tensor, f(3, 4), f(3, 1), alpha=2),
    case(aten.sub.Tensor, i(3), 1.5),
    case(aten.sub.Tensor, i(3), i(3, low=200, high=256).byte(), alpha=3),
    case(aten.sub.Scalar, f(3), 2, 2),
    case(aten.rsub.Tensor, f(3), f(3), alpha=2),
    case(aten.rsub.Tensor, i(3, low=100, high=128).char(), f(3, dtype=torch.float64), alpha=2),
    case(aten.rsub.Scalar, f(3), 1),
    case(aten.div.Tensor_mode, f(5), f(5), rounding_mode=None),
    case(aten.div.Tensor_mode, f(5) * 9, f(5), rounding_mode="floor"),
    case(aten.div.Tensor_mode, QUOTIENTS[:, None], QUOTIENTS, rounding_mode="floor"),
    case(aten.div.Tensor_mode, f(5) * 9, f(5), rounding_mode="trunc"),
    case(
        aten.div.Tensor_mode,
        QUOTIENTS[:, None].bfloat16(),
        QUOTIENTS.bfloat16(),
        rounding_mode="trunc",
    ),
    case(aten.div.Tensor_mode, QUOTIENTS[:, None].half(), QUOTIENTS.half(), rounding_mode="trunc"),
    case(aten.div.Tensor_mode, i(9, low=-9, high=9), i(9, low=1), rounding_mode="floor"),
    case(aten.div.Tensor_mode, i(9, low=-9, high=9), i(9, low=1), rounding_mode="trunc"),
    case(aten.div.Scalar_mode, i(9, low=-9, high=9), -4, rounding_mode="floor"),
    *[case(aten.pow.Tensor_Scalar, f(4).abs(), e) for e in (-1, -0.5, 0.5, 1, 2, 3.0, 2.5)],
    case(aten.pow.Tensor_Scalar, i(4), 2),
    *[case(aten.pow.Tensor_Scalar, SHIFTED, e) for e in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0)],
    *[case(aten.pow.Tensor_Scalar, torch.tensor([0j, 1 + 2j, -3]), e) for e in (0, 0.5, 1, 2, 3.0)],
    case(aten.pow.Tensor_Scalar, z(4), -1),
    case(aten.pow.Tensor_Tensor, f(4).abs(), f(4)),
    case(aten.pow.Scalar, 10000.0, f(4)),
    case(aten.addcmul.default, f(3, 4), f(4), f(3, 1), value=0.5),
    case(aten.nextafter.default, f(9), f(3, 1)),
    case(aten.nextafter.default, f(9), i(9)),
    case(aten.clamp.default, f(9), -0.5, 0.5),
    case(aten.clamp.default, i(9), 1),
    case(aten.clamp.default, f(9), None, 1),
    case(aten.clamp.Tensor, f(9), f(9), None),
    case(aten.hardtanh.default, f(9)),
    case(aten.leaky_relu.default, f(9), 0.1),
    case(aten.elu.default, f(9), 1.5, 2, 0.5),
    *[
        case(operation, HOLES, HOLES[:, None])
        for operation in (aten.fmax.default, aten.fmin.default)
    ],
    case(aten.fmax.default, i(3), f(3, dtype=BF16)),
    case(aten.logical_xor.default, f(3), i(3)),
    *[case(getattr(aten, name).Tensor, SHIFTED[:, None], i(6, low=-1, high=70)) for name in SHIFTS],
    *[
        case(getattr(aten, name).Scalar, SHIFTED.to(torch.int16), by)
        for name in SHIFTS
        for by in (2, 20)
    ],
    *[case(operation, f(3, 4), f(4), 2.0) for operation in MULTIPLY_ADD],
    *[case(operation, f(3), f(), f(3).double()) for operation in MULTIPLY_ADD],
    # choices, casts, copies
    case(aten.where.self, b(3, 4), f(4), f(3, 1)),
    case(aten.where.self, b(3), i(3), torch.tensor(2.5)),
    case(aten.masked_fill.Scalar, f(3, 4), b(4), -1e9),
    case(aten.masked_fill.Scalar, i(3), b(3), 7),
    case(aten.masked_fill.Tensor, f(3), b(3), torch.tensor(2.0)),
    case(aten._to_copy.default, f(3), dtype=BF16),
    case(aten._to_copy.default, f(3, dtype=BF16), dtype=torch.float32),
    case(aten._to_copy.default, b(3), dtype=torch.int64),
    case(aten._to_copy.default, f(3) * 5, dtype=torch.int32),
    case(aten._to_copy.default, f(3)),
    case(prims.convert_element_type.default, f(3), torch.float64),
    case(aten.clone.default, f(3, 4).t(), memory_format=torch.contiguous_format),
    case(aten.clone.default, f(3, 4).t()),
    case(aten.lift_fresh_copy.default, f(3)),
    case(aten.copy.default, f(2, 3, dtype=BF16), f(3)),
    case(aten.copy.default, f(), f()),
    # views
    case(aten.view.default, f(6, 4), [3, -1]),
    case(aten.view.default, f(1), []),
    case(aten._unsafe_view.default, f(6, 4), [24]),
    *[case(aten.view.dtype, SPECIAL.to(of), to) for of, to in OTHER_BITS],
    *[case(aten.view.dtype, SPECIAL.to(of).view(to), of) for of, to in OTHER_BITS[:2]],
    *[case(aten.view.dtype, SMALL.to(of), to) for of, to in itertools.permutations(BYTES, 2)],
    case(aten.reshape.default, f(6, 4).t(), [24]),
    case(aten.as_strided.default, f(2, 6), [3, 4], [4, 1]),
    case(aten.as_strided.default, f(4, 1), [4], [1], 0),
    case(aten.permute.default, f(2, 3, 4), [2, -3, 1]),
    case(aten.transpose.int, f(2, 3, 4), -1, 0),
    case(aten.transpose.int, f(), 0, -1),
    case(aten.t.default, f(2, 3)),
    case(aten.t.default, f(3)),
    case(aten.expand.default, f(3, 1), [2, 3, -1]),
    case(aten.expand.default, f(3, 1), [2, 3, 5]),
    case(aten.expand.default, f(), [4]),
    case(aten.unsqueeze.default, f(3), -1),
    case(aten.unsqueeze.default, f(3), 0),
    case(aten.squeeze.default, f(1, 3, 1)),
    case(aten.squeeze.dim, f(1, 3, 1), -1),
    case(aten.squeeze.dim, f(1, 3, 1), 1),
    case(aten.squeeze.dims, f(1, 3, 1), [0, 1]),
    case(aten.alias.default, f(3)),
    case(aten.detach.default, f(3)),
    case(aten.slice.Tensor, f(6, 4), 0, 1, END),
    case(aten.slice.Tensor, f(6, 4), -1, -3, -1),
    case(aten.slice.Tensor, f(6, 4), 0, 0, 5, 2),
    case(aten.slice.Tensor, f(6, 4)),
    case(aten.slice.Tensor, f(6, 4), 0, 4, 2),
    case(aten.slice.Tensor, f(6, 4), 0, None, 99),
    case(aten.select.int, f(6, 4), 0, -1),
    case(aten.select.int, f(6, 4), -1, 2),
    case(aten.split.Tensor, f(7, 4), 3),
    case(aten.split.Tensor, f(2, 6), 3, -1),
    case(aten.split_with_sizes.default, f(7, 4), [1, 4, 2]),
    case(aten.unbind.int, f(3, 4), 1),
    case(aten.unfold.default, f(3, 8), -1, 4, 4),
    case(aten.unfold.default, f(13, 3), 0, 3, 4),
    case(aten.unfold.default, f(2, 6, 3), 1, 6, 9),
    *[case(aten.diagonal.default, f(4, 6), offset) for offset in (0, 2, -1, 6, -9)],
    case(aten.diagonal.default, f(3, 4, 5, dtype=BF16), 1, 0, -1),
    case(aten.diagonal.default, f(3, 4, 5), -1, 2, 1),
    # complex numbers as pairs
    case(aten.view_as_complex.default, f(3, 4, 2)),
    case(aten.view_as_complex.default, f(2, dtype=torch.float64)),
    case(aten.view_as_real.default, z(3, 4)),
    case(aten.view_as_real.default, z(3, 4).t()),
    case(aten._conj.default, z(3)),
    case(aten._conj.default, 1 + 2j),
    case(aten.conj_physical.default, z(3)),
    case(aten._conj_physical.default, z(3)),
    case(aten.polar.default, f(3).abs(), f(3)),
    case(aten.angle.default, torch.cat([z(5), torch.tensor([0j, 1, -1, complex(-0.0, 0.0)])])),
    # what moves elements
    case(aten.cat.default, [f(2, 3), f(2, 4)], -1),
    case(aten.cat.default, [f(3), i(2), b(1)]),
    case(aten.cat.default, [f(0), f(2, 3)], 1),
    case(aten.flip.default, f(3, 4), [0, -1]),
    case(aten.repeat.default, f(3, 2), [2, 1, 3]),
    case(aten.constant_pad_nd.default, f(3, 4), [1, 2, -1, 0], 5.0),
    case(aten.constant_pad_nd.default, f(3, dtype=BF16), [1, 1]),
    case(aten.constant_pad_nd.default, f(3, 4).T, [0, 0]),
    case(aten.slice_scatter.default, f(6, 4), f(2, 4), 0, 1, 3),
    case(aten.slice_scatter.default, f(6, 4), f(6, 2), 1, -2, END),
    case(aten.slice_scatter.default, f(6, 4), f(3, 4), 0, 0, END, 2),
    case(aten.slice_scatter.default, f(6, 4), f(6, 4)),
    case(aten.slice_scatter.default, f(6, dtype=BF16), f(6, dtype=BF16)),
    case(aten.slice_scatter.default, f(2, 11, 3), f(2, 3, 3), 1, 2, -1, 3),
    case(aten.slice_scatter.default, f(7, dtype=BF16), f(4, dtype=BF16), 0, -7, 99, 2),
    case(aten.slice_scatter.default, f(7, 2), f(1, 2), 0, 3, 5, 4),
    case(aten.slice_scatter.default, f(7, 2), f(0, 2), 0, 5, 5, 2),
    case(aten.select_scatter.default, f(3, 4), f(3), 1, -1),
    case(aten.select_scatter.default, i(3, 4), i(4), 0, 0),
    case(aten.select_scatter.default, f(1, 4, dtype=BF16), f(4, dtype=BF16), 0, -1),
    *[case(aten.diagonal_scatter.default, f(4, 6), f(n), o) for n, o in ((4, 0), (3, 3), (2, -2))],
    case(aten.diagonal_scatter.default, f(3, 4, 5), f(4, 3), 1, 0, -1),
    case(aten.diagonal_scatter.default, f(3, 5, 4, dtype=BF16), f(3, 4, dtype=BF16), 0, 2, 1),
    case(aten.diagonal_scatter.default, i(3, 3), i(0), 7),
    # reductions
    case(aten.sum.default, f(3, 4)),
    case(aten.sum.default, b(3, 4)),
    case(aten.sum.default, f(3, 4), dtype=torch.float64),
    case(aten.sum.dim_IntList, f(3, 4, dtype=BF16), [-1], True),
    case(aten.sum.dim_IntList, f(3, 4), None),
    case(aten.sum.dim_IntList, f(3, 4), []),
    case(aten.sum.dim_IntList, f(3, 4), [0, 1], dtype=torch.float64),
    case(aten.sum.dim_IntList, i(3, 4), [0], dtype=torch.float32),
    case(aten.prod.default, f(3)),
    case(aten.prod.dim_int, f(3, 4), 1, True),
    case(aten.mean.default, f(3, 4)),
    case(aten.mean.dim, f(3, 4), [-1], True),
    case(aten.mean.dim, i(3, 4), [0], dtype=torch.float32),
    case(aten.amax.default, f(3, 4), [1], True),
    case(aten.amax.default, f(3, 4)),
    case(aten.amin.default, f(3, 4), [0]),
    case(aten.max.default, f(3, 4)),
    case(aten.min.default, i(3, 4)),
    case(aten.any.default, b(3, 4)),
    case(aten.any.dim, f(3, 4), -1, True),
    case(aten.any.dims, b(3, 4), [0, 1]),
    case(aten.all.default, b(3, 4)),
    case(aten.all.dim, b(3, 4), 0),
    case(aten.all.dims, b(3, 4), [1]),
    case(aten.var.correction, f(3, 4), [1]),
    case(aten.var.correction, f(3, 4), None, correction=0),
    case(aten.var_mean.correction, f(3, 4), [1], correction=0, keepdim=True),
    case(aten.argmax.default, f(3, 4), 1),
    case(aten.argmax.default, f(3, 4)),
    case(aten.argmin.default, f(3, 4), 0, True),
    case(aten.max.dim, f(3, 4), 1),
    case(aten.max.dim, b(3, 4), 1),
    case(aten.min.dim, f(3, 4), 0, True),
    case(aten.cumsum.default, f(3, 4), -1),
    case(aten.cumsum.default, b(3, 4), 0),
    case(aten.cumsum.default, i(5), 0, dtype=torch.float32),
    case(aten.cumprod.default, f(3, 4), 1),
    *[case(scan, f(3, 9), d) for scan in RUNNING for d in (0, -1)],
    *[case(scan, i(3, 9), 1) for scan in RUNNING],
    *[case(scan, x, 0) for scan in RUNNING for x in (b(9), f(), HOLES, TIES, TIES.to(BF16))],
    case(aten.topk.default, f(3, 9), 2),
    # factories
    case(aten.full.default, [2, 3], 1.5),
    case(aten.full.default, [2], 7, dtype=torch.int64, device=CPU, pin_memory=False),
    case(aten.full.default, [], -1.0, dtype=BF16),
    case(aten.full_like.default, f(2, 3), 0, dtype=torch.bool),
    case(aten.scalar_tensor.default, 0, dtype=torch.int64, layout=torch.strided, device=CPU),
    case(aten.scalar_tensor.default, 2.5),
    case(aten.arange.default, 5),
    case(aten.arange.start, 2, 7),
    case(aten.arange.start_step, 1, 9, 3),
    case(aten.arange.start_step, 4, -4, -1.0),
    case(aten.arange.start_step, 0, 1, 0.25),
    case(
        prims.iota.default, 5, start=2, step=3, dtype=torch.int64, device=CPU, requires_grad=False
    ),
    # indices
    case(aten.gather.default, f(3, 4), 1, i(3, 2)),
    case(aten.gather.default, f(3, 4), -1, i(2, 5)),
    case(aten.index_select.default, f(3, 4), 1, i(5)),
    case(aten.index_select.default, f(4), 0, torch.tensor(2)),
    case(aten.index_select.default, f(), 0, torch.tensor([0])),
    case(aten.gather.default, f(), 0, torch.tensor([0, 0])),
    case(aten.gather.default, f(4), 0, torch.tensor(2)),
    case(aten.embedding.default, f(9, 4), i(2, 3, high=9), 0),
    case(aten.embedding.default, f(9, 4), i(high=9)),
    case(aten.index.Tensor, f(5, 4), [i(3, low=-5)]),
    case(aten.index.Tensor, f(5, 4), [None, i(2, 3)]),
    case(aten.index.Tensor, f(5, 4), [i(2, 1), i(3, low=-4)]),
    case(aten.index.Tensor, f(2, 5, 4), [None, i(3), i(3)]),
    case(aten.index.Tensor, f(2, 5, 4), [i(3, high=2), None, i(3)]),
    case(aten.index.Tensor, f(4), [torch.tensor(1)]),
    case(aten._unsafe_index.Tensor, f(5, 4), [None, i(6)]),
    case(aten.index_put.default, f(5, 4), [i(3, low=-5)], f(3, 4), True),
    case(aten.index_put.default, f(5, 4), [torch.tensor([0, 2])], f(2, 4)),
    case(aten.index_put.default, f(5, 4), [torch.tensor([0, 2])], f(4)),
    case(aten.index_put.default, f(5, 4), [None, i(2, 3)], f(5, 2, 3), True),
    case(aten.index_put.default, f(5, 4), [i(2, 3)], f(), True),
    case(aten.index_put.default, f(5, 4), [i(3), i(3, low=-4)], f(3), True),
    case(aten.index_put.default, f(3, 5, 4), [None, i(6, low=-5)], f(6, 4), True),
    case(aten.index_put.default, f(3, 5, 20), [None, None, i(6, low=-5)], f(3, 5, 6), True),
    case(aten.index_put.default, f(3, 5, 20), [None, i(6, low=-5)], f(), True),
    case(aten.index_put.default, f(3, 5, 4), [None, torch.tensor([0, -2])], f(3, 2, 1)),
    case(aten.index_put.default, f(3, 5), [None, torch.tensor([3, 1])], f(2)),
    case(aten.index_put.default, f(30, 20), [None, i(40, high=20)], f(30, 40), True),
    case(aten.index_put.default, f(2, 5, 4), [i(3, high=2), None, i(3)], f(3, 5), True),
    case(aten.index_put.default, f(2, 5, 4), [None, i(3), i(3)], f(2, 3), True),
    case(aten._unsafe_index_put.default, f(5), [i(3)], f(3), True),
    # masks
    *[
        case(aten.index_put.default, f(5, 4), [b(5, 4)], f(*n), add)
        for n in ((), (1,))
        for add in (False, True)
    ],
    *[case(aten.index_put.default, f(5, 4), [b(5)], f(*n)) for n in ((), (4,), (1, 4), (1, 1))],
    case(aten.index_put.default, f(5, 4), [None, b(4)], f(5, 1), True),
    case(
        aten.index_put.default, f(2, 5, 4, 3, dtype=BF16), [None, b(5, 4)], f(1, 1, 3, dtype=BF16)
    ),
    case(aten.index_put.default, f(2, 5, 4, 3), [None, b(5, 4)], f(2, 1, 3), True),
    case(aten.index_put.default, b(5, 4), [b(5)], torch.tensor(True)),
    case(aten.scatter.value, f(3, 4), 1, i(3, 1), -1.0),
    case(aten.scatter.src, f(3, 4), 1, torch.tensor([[0, 2], [1, 3]]), f(3, 4)),
    case(aten.scatter_add.default, f(3, 4), 0, i(2, 4, high=3), f(3, 4)),
    case(aten.scatter_reduce.two, f(3, 4), 0, i(2, 4, high=3), f(3, 4), "amax"),
    case(aten.scatter_reduce.two, f(3, 4), 1, i(3, 9, high=4), f(3, 9), "prod"),
    case(aten.scatter_reduce.two, i(3, 4), -1, i(2, 9, high=4), i(3, 9), "amin"),
    case(aten.scatter.value, f(), 0, torch.tensor(0), 1.0),
    case(aten.scatter.src, f(4, dtype=BF16), 0, torch.tensor(2), f(dtype=BF16)),
    case(aten.scatter_add.default, f(), -1, torch.tensor([0, 0]), f(2)),
    case(aten.index_add.default, f(), 0, torch.tensor([0]), f(), alpha=2),
    case(aten.index_add.default, f(5, 4), 0, i(3), f(3, 4)),
    case(aten.index_add.default, f(5, 4), 1, i(3), f(5, 3), alpha=2),
]

REFUSED = [
    (case(aten.erfinv.default, f(3).to(torch.complex64)), "not implemented for 'ComplexFloat'"),
    (case(aten.nextafter.default, i(9), i(9)), "not implemented for 'Long'"),
    (case(aten.complex.default, f(3), f(3, dtype=torch.float64)), "scalar type Float but got"),
    (case(aten.polar.default, f(3), f(3, dtype=torch.float64)), "scalar type Float but got"),
    (case(aten.sub.Tensor, f(3), b(3)), "with a bool tensor is not supported"),
    (case(aten.rsub.Scalar, b(3), 1), "with a bool tensor is not supported"),
    (case(aten.cumsum.default, z(3), 0), "it is of complex numbers"),
    (case(aten.cumprod.default, f(3), 0, dtype=torch.complex64), "it is of complex numbers"),
    (case(aten.prod.default, z(3)), "it is of complex numbers"),
    (case(aten.prod.dim_int, z(3, 4), 1), "it is of complex numbers"),
    (case(aten.sort.default, f(3)), "fuser has no definition"),
    (case(aten.view.dtype, f(3), torch.int16), "of another size"),
    (case(aten.view.dtype, i(3).half(), torch.int16), "no Int16 is made of bits"),
    (case(aten.view.dtype, i(3).short(), torch.bfloat16), "no BFloat16 is made of bits"),
    (case(aten.view.dtype, b(3), torch.uint8), "no integer of these bits"),
    (case(aten.mul.Tensor, f(3).to_sparse(), 2.0), "layout is torch.sparse_coo"),
    (
        case(aten.clone.default, torch.zeros(3).to(torch.float8_e5m2fnuz)),
        "no DataType of torch.float8",
    ),
    (case(aten.abs.default, f(3).to(torch.float8_e5m2)), "cast 8-bit floats to Float first"),
    (case(aten.eq.Tensor, *(i(3).to(torch.uint64),) * 2), "cast UInt64 to Int first"),
    (case(aten.mul.Tensor, f(3).to(torch.complex64).conj(), 2.0), "a lazy conjugate"),
    (case(aten._to_copy.default, f(3), device=torch.device("meta")), "a tensor is on meta"),
    (case(aten.index.Tensor, f(3, 4), [b(3)]), "an index is torch.bool"),
    (case(aten.index_put.default, f(3), [HELD], f(2)), "an index is torch.bool"),
    (case(aten.index_put.default, f(3), [i(2)], f(2, dtype=BF16)), "torch raises an error"),
    (case(aten.index_put.default, b(3), [HELD], b(1), True), "an index is torch.bool"),
    (case(aten.var.correction, f(3), correction=0.5), "correction=0.5 is no whole number"),
    (case(aten.as_strided.default, f(3, 4), [3], [5]), "another view of memory"),
    (case(aten.as_strided.default, f(3, 4).t(), [12], [1]), "another view of memory"),
    (case(aten.as_strided.default, f(13)[1:], [12], [1], 0), "begins elsewhere"),
    (case(aten.unfold.default, f(9), 0, 3, 2), "its windows overlap"),
    (case(aten.unfold.default, f(9), 0, 1, 4), "nothing lies between its last window"),
    (case(aten.unfold.default, f(), 0, 1, 1), "the tensor has no dimension"),
]
