"""Attention and its gradients are torch's; what flash kernels refuse is computed all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._subclasses import FakeTensorMode

from fuser import errors
from fuser.ir import attention
from fuser.ir.dtypes import DataType
from fuser.ir.infer import infer
from fuser.ir.nodes import Extern, Value
from fuser.ir.tolerance import tolerance
from fuser.ir.types import TensorType

DTYPES = (DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16)
SIZES = [(2, 3, 5, 9, 7), (1, 1, 1, 1, 1), (2, 2, 8, 8, 16), (1, 4, 40, 3, 8)]
EMPTY = [(0, 3, 5, 9, 7), (2, 3, 0, 9, 7), (2, 3, 5, 0, 7), (2, 3, 5, 9, 0)]
Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def heads(sizes: tuple[int, ...], dtype: DataType = DataType.Float) -> Heads:
    """query, key and value of (batch, heads, queries, keys, head size)."""
    batch, count, queries, keys, width = sizes
    shapes = [(batch, count, length, width) for length in (queries, keys, keys)]
    query, key, value = (torch.randn(shape).to(dtype.torch) for shape in shapes)
    return query, key, value


def forward(
    given: Heads,
    bias: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    *,
    is_causal: bool | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    return attention.forward(*given, bias, mask, dropout_p=None, is_causal=is_causal, scale=scale)


def close(result: torch.Tensor, expected: torch.Tensor, dtype: DataType) -> None:
    relative, absolute = tolerance(dtype, 8)
    torch.testing.assert_close(result, expected, rtol=relative, atol=absolute)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [None, False, True])
@pytest.mark.parametrize("scale", [None, 0.5])
def test_results_and_gradients_are_torchs(
    dtype: DataType, sizes: tuple[int, ...], causal: bool | None, scale: float | None
) -> None:
    given = heads(sizes, dtype)
    output, logsumexp, seed, offset = forward(given, is_causal=causal, scale=scale)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *leaves, is_causal=bool(causal), scale=scale
    )
    close(output, expected.detach(), dtype)
    gradient = torch.randn_like(output)
    expected.backward(gradient)
    gradients = attention.backward(
        *(gradient, *given, output.contiguous(), logsumexp.contiguous(), seed, offset),
        dropout_p=0.0,
        is_causal=bool(causal),
        scale=scale,
    )
    for result, leaf in zip(gradients, leaves, strict=True):
        assert leaf.grad is not None
        close(result, leaf.grad, dtype)


@pytest.mark.parametrize("sizes", [*SIZES, *EMPTY])
@pytest.mark.parametrize("causal", [False, True])
def test_one_operation_at_a_time_gives_the_same(sizes: tuple[int, ...], causal: bool) -> None:
    given = heads(sizes)
    output, logsumexp, *_ = forward(given, is_causal=causal)
    plain, plain_logsumexp = attention._plain(*given, None, 0.0, causal, None)
    close(output, plain, DataType.Float)
    close(logsumexp, plain_logsumexp, DataType.Float)
    scores = given[0] @ given[1].transpose(-1, -2) * max(sizes[-1], 1) ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).bool().tril(), -torch.inf)
    close(logsumexp, scores.logsumexp(-1), DataType.Float)


@pytest.mark.parametrize("sizes", EMPTY)
def test_nothing_has_no_gradient(sizes: tuple[int, ...]) -> None:
    given = heads(sizes)
    output, *state = forward(given)
    gradients = attention.backward(
        torch.ones_like(output), *given, output, *state, dropout_p=0.0, is_causal=False, scale=None
    )
    assert all(torch.equal(g, torch.zeros_like(t)) for g, t in zip(gradients, given, strict=True))


@pytest.mark.parametrize("shape", [(), (9,), (5, 1), (3, 1, 9), (2, 3, 5, 9)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_and_mask_broadcast_to_the_scores(shape: tuple[int, ...], dtype: DataType) -> None:
    given = heads((2, 3, 5, 9, 8), dtype)
    bias, mask = torch.randn(shape), torch.rand(shape) > 0.3
    added = bias.masked_fill(~mask, -torch.inf).to(dtype.torch)
    masked_out = (added.expand(2, 3, 5, 9) == -torch.inf).all(-1)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *given, attn_mask=added.expand(2, 3, 5, 9)
    )
    expected[masked_out] = 0
    close(forward(given, bias, mask)[0], expected, dtype)
    plain, _ = attention._plain(*given, added.expand(2, 3, 5, 9), 0.0, False, None)
    close(plain, expected, dtype)


@pytest.mark.parametrize("batch", [(2, 3), (2, 1, 3), (0, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_several_dimensions_of_batch_are_torchs(batch: tuple[int, ...], masked: bool) -> None:
    query, key, value = (torch.randn(*batch, 4, length, 8) for length in (5, 9, 9))
    bias = mask = added = None
    if masked:
        bias = torch.randn(batch[0], *(1,) * (len(batch) - 1), 4, 5, 9)
        mask = torch.rand(*batch, 1, 1, 9) > 0.2
        mask[..., 0] = True
        added = bias.masked_fill(~mask, -torch.inf)
    output, logsumexp, *state = forward((query, key, value), bias, mask)
    leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=added)
    close(output, expected.detach(), DataType.Float)
    assert logsumexp.shape == (*batch, 4, 5)
    if masked:
        return
    gradient = torch.randn_like(output)
    gradients = attention.backward(
        *(gradient, query, key, value, output, logsumexp, *state),
        dropout_p=None,
        is_causal=None,
        scale=None,
    )
    for result, wanted in zip(
        gradients, torch.autograd.grad(expected, leaves, gradient), strict=True
    ):
        close(result, wanted, DataType.Float)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_without_flash_kernels_are_torchs(sizes: tuple[int, ...], causal: bool) -> None:
    given = heads(sizes)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    gradient = torch.randn_like(expected)
    with torch.no_grad():
        gradients = attention.plain_backward(gradient, *given, 0.0, causal, None)
    for result, wanted in zip(
        gradients, torch.autograd.grad(expected, leaves, gradient), strict=True
    ):
        close(result, wanted, DataType.Float)
    with pytest.raises(errors.ArgumentError, match="dropout_p"):
        attention.plain_backward(gradient, *given, 0.5, causal, None)


@pytest.mark.parametrize(
    ("dtype", "sizes", "causal", "taken"),
    [
        (DataType.Half, (2, 3, 5, 9, 7), False, True),
        (DataType.BFloat16, (2, 3, 9, 9, 7), True, True),
        (DataType.Half, (2, 3, 5, 9, 7), True, False),
        (DataType.Float, (2, 3, 9, 9, 7), False, False),
        (DataType.Half, (2, 3, 9, 9, 264), False, False),
    ],
)
def test_what_flash_kernels_take(
    dtype: DataType, sizes: tuple[int, ...], causal: bool, taken: bool
) -> None:
    query, key, _ = heads(sizes, dtype)
    assert attention.flash_takes(query, key, causal=causal) is taken


def test_float32_on_a_gpu_goes_past_the_flash_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a GPU, without their numbers."""
    gone: list[str] = []

    def way(name: str, results: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        return lambda query, *_, **__: gone.append(name) or (query,) * results

    monkeypatch.setattr(attention, "_plain", way("plain", 2))
    monkeypatch.setattr(attention, "plain_backward", way("plain", 3))
    monkeypatch.setattr(attention, "_cuda_flash", way("flash", 9))
    monkeypatch.setattr(attention, "_cuda_flash_backward", way("flash", 3))
    options = {"dropout_p": None, "is_causal": None, "scale": None}
    with FakeTensorMode():
        given = [torch.empty(2, 3, 5, 8, device="cuda") for _ in range(3)]
        results = attention.forward(*given, None, None, **options)
        attention.backward(results[0], *given, *results, **options)
    assert gone == ["plain", "plain"]


@pytest.mark.parametrize("width", [7, 8])
def test_flash_kernels_of_a_gpu_get_heads_side_by_side(width: int) -> None:
    """They refuse what lies otherwise, and sizes that are no multiples of 8."""
    heads_in_columns = torch.randn(2, 3, width, 5).mT
    taken = attention._as_taken(heads_in_columns)
    assert (taken.shape[-1], taken.stride(-1)) == (8, 1)
    assert torch.equal(taken[..., :width], heads_in_columns)
    assert not taken[..., width:].any()
    beside = torch.randn(2, 5, 3, 8).transpose(1, 2)
    assert attention._as_taken(beside).stride() == beside.stride()


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_on_the_cpu_keeps_the_same_weights_for_the_gradients(causal: bool) -> None:
    given = heads((2, 3, 5, 9, 8))
    query, key, value = given
    options = {"dropout_p": 0.25, "is_causal": causal, "scale": None}
    output, logsumexp, seed, offset = attention.forward(*given, None, None, **options)
    whole = attention.forward(*given, None, None, **(options | {"dropout_p": 0.0}))
    close(logsumexp, whole[1], DataType.Float)
    other, *_ = attention.forward(*given, None, None, **options)
    assert not torch.equal(other, output)
    gradient = torch.randn_like(output)
    state = (output, logsumexp, seed, offset)
    found = attention.backward(gradient, *given, *state, **options)
    # The output is linear in the value, and what it is multiplied with the gradient's as well.
    assert (found[2] * value).sum().item() == pytest.approx((gradient * output).sum().item(), 1e-3)
    step = torch.randn_like(query)
    moved = [
        attention._plain(query + by * step, key, value, None, 0.25, causal, None, seed)[0]
        for by in (1e-2, -1e-2)
    ]
    slope = ((moved[0] - moved[1]) * gradient).sum().item() / 2e-2
    assert (found[0] * step).sum().item() == pytest.approx(slope, rel=1e-2, abs=1e-2)


def test_dropout_on_the_cpu_keeps_its_share() -> None:
    query, key = torch.zeros(1, 1, 200, 8), torch.zeros(1, 1, 500, 8)
    value = torch.ones(1, 1, 500, 8)
    torch.manual_seed(5)
    output, *_ = attention.forward(
        query, key, value, None, None, dropout_p=0.2, is_causal=False, scale=None
    )
    kept = output[..., 0] * 500 * 0.8
    torch.testing.assert_close(kept, kept.round(), rtol=0, atol=1e-2)
    assert kept.mean().item() == pytest.approx(400, abs=2)
    assert 5 < kept.std().item() < 13


@pytest.mark.parametrize("width", [7, 8])
def test_what_cuda_computes_has_the_inferred_types(width: int) -> None:
    """On the meta device, which takes the way of CUDA tensors."""
    given = tuple(t.to("meta") for t in heads((2, 3, 5, 9, width), DataType.Half))
    query, key, value = given
    results = forward((query, key, value))
    values = [Value(i, TensorType(DataType.Half, tuple(t.shape))) for i, t in enumerate(given)]
    types = infer(Extern("sdpfa_fwd", tuple(values)))
    for result, type_ in zip(results, types, strict=True):
        assert type_ == TensorType(type_.dtype, tuple(result.shape))
        assert type_.dtype.torch is result.dtype
    gradients = attention.backward(
        results[0], *given, *results, dropout_p=0.1, is_causal=True, scale=None
    )
    assert [g.shape for g in gradients] == [t.shape for t in given]


# -- types ---------------------------------------------------------------------------------------


def tensor(*shape: int, dtype: DataType = DataType.Half) -> Value:
    return Value(0, TensorType(dtype, shape))


Q, K = tensor(2, 3, 5, 8), tensor(2, 3, 9, 8)
LSE, SEED = tensor(2, 3, 5, dtype=DataType.Float), tensor(2, dtype=DataType.Int)
OFFSET = tensor(dtype=DataType.Int)


def test_types_of_dynamic_sizes() -> None:
    types = infer(Extern("sdpfa_fwd", (tensor(-1, 3, -1, -1), tensor(2, -1, 9, 8), K)))
    assert types == (
        TensorType(DataType.Half, (2, 3, -1, 8)),
        TensorType(DataType.Float, (2, 3, -1)),
        TensorType(DataType.Int, (2,)),
        TensorType(DataType.Int, ()),
    )


def test_types_of_several_dimensions_of_batch() -> None:
    query, key = tensor(-1, 2, 3, 5, 8), tensor(4, -1, 3, -1, 8)
    output, logsumexp, *_ = infer(Extern("sdpfa_fwd", (query, key, key)))
    assert output.shape == (4, 2, 3, 5, 8)
    assert logsumexp.shape == (4, 2, 3, 5)


REFUSED_FORWARD = [
    ((tensor(1, 2, 3, 5, 8), K, K), ()),
    ((tensor(4, 2, 3, 5, 8), tensor(1, 2, 3, 9, 8), tensor(1, 2, 3, 9, 8)), ()),
    ((tensor(3, 5, 8), tensor(3, 9, 8), tensor(3, 9, 8)), ()),
    ((Q, K, tensor(2, 3, 7, 8)), ()),
    ((Q, K, tensor(2, 3, 9, 4)), ()),
    ((Q, tensor(2, 1, 9, 8), tensor(2, 1, 9, 8)), ()),
    ((tensor(2, -1, 5, 8), K, tensor(2, 4, 9, 8)), ()),
    ((Q, K, tensor(2, 3, 9, 8, dtype=DataType.Float)), ()),
    ((tensor(2, 3, 5, 8, dtype=DataType.Int),) * 3, ()),
    ((Q, K, K, tensor(4)), ()),
    ((Q, K, K, tensor(1, 2, 3, 5, 9)), ()),
    ((Q, K, K, tensor(9, dtype=DataType.Bool)), ()),
    ((Q, K, K, None, tensor(9)), ()),
    ((Q, K, K), (1.0,)),
    ((Q, K, K), (-0.1,)),
]


@pytest.mark.parametrize("case", range(len(REFUSED_FORWARD)))
def test_a_mistake_in_attention_is_refused(case: int) -> None:
    args, options = REFUSED_FORWARD[case]
    with pytest.raises(errors.FuserError, match="sdpfa_fwd"):
        infer(Extern("sdpfa_fwd", args, options))


@pytest.mark.parametrize("place", range(8))
def test_a_mistake_in_the_gradients_is_refused(place: int) -> None:
    args = [Q, Q, K, K, Q, LSE, SEED, OFFSET]
    options = (0.0, False, None)
    assert [t.shape for t in infer(Extern("sdpfa_bwd", tuple(args), options))] == [
        Q.shape,
        K.shape,
        K.shape,
    ]
    for wrong in (
        tensor(*args[place].shape, 4, dtype=args[place].dtype),
        tensor(*args[place].shape, dtype=DataType.Double),
    ):
        changed = (*args[:place], wrong, *args[place + 1 :])
        with pytest.raises(errors.FuserError, match="sdpfa_bwd"):
            infer(Extern("sdpfa_bwd", changed, options))
    with pytest.raises(errors.ArgumentError, match="dropout_p"):
        infer(Extern("sdpfa_bwd", tuple(args), (1.0, False)))
