"""Products of groups, and with scales, are torch's; what torch refuses is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional

from fuser import DataType, FusionDefinition, errors
from fuser.frontend.handles import Handle
from fuser.frontend.ops import Operations

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def execute(
    build: Callable[..., object], *given: torch.Tensor, symbolic: bool = False
) -> list[torch.Tensor]:
    with FusionDefinition() as fd:
        handles = [fd.from_pytorch(x, static_sizes=not symbolic) for x in given]
        made = build(fd.ops, *handles)
        fd.add_output(made[0] if isinstance(made, tuple) else made)
    return fd.execute(list(given))


def grouped(o: Operations, a: Handle, b: Handle, ends: Handle) -> Handle:
    return o.grouped_mm(a, b, ends)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_each_group_is_a_product(dtype: torch.dtype, symbolic: bool) -> None:
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    parts = [slice(0, 3), slice(3, 3), slice(3, 8)]
    rows, weights = torch.randn(8, 16).to(dtype), torch.randn(3, 16, 32).to(dtype)
    (result,) = execute(grouped, rows, weights, ends, symbolic=symbolic)
    expected = torch.cat([rows[p] @ w for p, w in zip(parts, weights, strict=True)])
    torch.testing.assert_close(result, expected)
    columns = torch.randn(16, 8).to(dtype)
    (result,) = execute(grouped, weights.mT.contiguous(), columns, ends, symbolic=symbolic)
    expected = torch.cat([w.t() @ columns[:, p] for p, w in zip(parts, weights, strict=True)], 1)
    torch.testing.assert_close(result, expected)
    wide = torch.randn(8, 24).to(dtype)
    (result,) = execute(grouped, rows.t().contiguous(), wide, ends, symbolic=symbolic)
    torch.testing.assert_close(result, torch.stack([rows[p].t() @ wide[p] for p in parts]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_groups_of_any_sizes_and_strides(dtype: torch.dtype) -> None:
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    parts = [slice(0, 2), slice(2, 2), slice(2, 7)]
    rows, weights = torch.randn(7, 5).to(dtype), torch.randn(3, 5, 3).to(dtype)
    expected = torch.cat([rows[p] @ w for p, w in zip(parts, weights, strict=True)])
    apart = torch.randn(7, 20).to(dtype)[:, ::4]
    apart.copy_(rows)
    shifted = torch.randn(36).to(dtype)[1:].view(7, 5)
    shifted.copy_(rows)
    by_columns = weights.mT.contiguous().mT
    for left, right in ((rows, weights), (apart, by_columns), (shifted, weights)):
        (result,) = execute(grouped, left, right, ends)
        torch.testing.assert_close(result, expected)
    one = torch.randn(1, 3).to(dtype).expand(5, 3)
    (result,) = execute(grouped, rows, one.expand(3, 5, 3), ends)
    torch.testing.assert_close(result, rows @ one)
    (result,) = execute(grouped, rows.t(), apart, ends)
    torch.testing.assert_close(result, torch.stack([rows[p].t() @ rows[p] for p in parts]))


@pytest.mark.parametrize(
    ("sizes", "dtype", "ends"),
    [
        (((8, 16), (3, 17, 32)), torch.float32, torch.zeros(3, dtype=torch.int32)),
        (((8, 16), (3, 16, 32)), torch.float32, torch.zeros(2, dtype=torch.int32)),
        (((8, 16), (3, 16, 32)), torch.float32, torch.zeros(3, dtype=torch.int64)),
        (((8, 16), (3, 16, 32)), torch.float64, torch.zeros(3, dtype=torch.int32)),
        (((3, 8, 16), (3, 16, 32)), torch.float32, torch.zeros(3, dtype=torch.int32)),
        (((16,), (3, 16, 32)), torch.float32, torch.zeros(3, dtype=torch.int32)),
    ],
)
def test_groups_that_do_not_fit(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype, ends: torch.Tensor
) -> None:
    with pytest.raises(errors.FuserError, match="grouped_mm"):
        execute(grouped, *(torch.randn(size, dtype=dtype) for size in sizes), ends)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("scales", [((), ()), ((1,), (1, 1)), ((6, 1), (1, 5))], ids=str)
def test_scales_and_a_bias(
    dtype: torch.dtype, scales: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = torch.randn(6, 4).to(dtype), torch.randn(4, 5).to(dtype)
    left, right = (torch.rand(shape) + 0.5 for shape in scales)
    alpha, bias, beta = torch.tensor(0.5), torch.randn(5), torch.tensor(2.0)

    def build(o: Operations, *given: Handle) -> object:
        return o.scaled_mm(*given, dtype=DataType.Float)

    (result,) = execute(build, a, b, left, right, alpha, bias, beta)
    expected = 0.5 * left * right * (a.double() @ b.double()) + 2 * bias
    torch.testing.assert_close(result, expected.float())
    (plain,) = execute(lambda o, *given: o.scaled_mm(*given), a, b, left, right)
    assert plain.dtype is torch.bfloat16


def test_scales_of_blocks_and_groups_are_refused_by_name() -> None:
    a, ends = torch.randn(4, 4), torch.zeros(1, dtype=torch.int32)
    one = torch.ones(())
    for given in (
        {"output_gamma": True},
        {"output_block_scale_size": 16},
        {"output_block_scale_dtype": DataType.Float},
    ):
        scaled = partial(Operations.scaled_mm, **given)
        with pytest.raises(errors.ArgumentError, match=rf"scaled_mm.*{next(iter(given))}.*float8"):
            execute(lambda o, a, s, scaled=scaled: scaled(o, a, a, s, s), a, one)
    with pytest.raises(errors.ArgumentError, match=r"grouped_mm.*scale1.*groups"):
        execute(lambda o, a, s, e: o.grouped_mm(a, a, e, scale1=s), a, one, ends)
    with pytest.raises(errors.ArgumentError, match=r"scaled_mm.*scale2"):
        execute(lambda o, a, s, t: o.scaled_mm(a, a, s, t), a, one, torch.ones(3))
